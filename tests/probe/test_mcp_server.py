"""The MCP server of a check: one tool that leaves a file, and one sentence for what it does not offer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.probe.mcp_server import TOOL_NAME, reply


def call(directory: Path, method: str, **params: Any) -> dict[str, Any] | None:
    return reply(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}), directory)


def test_the_tool_creates_a_file_of_that_name(tmp_path: Path) -> None:
    listed = call(tmp_path, "tools/list")
    done = call(tmp_path, "tools/call", name=TOOL_NAME, arguments={"name": "mark.txt"})

    assert listed is not None
    assert [tool["name"] for tool in listed["result"]["tools"]] == [TOOL_NAME]
    assert done is not None
    assert "isError" not in done["result"]
    assert [one.name for one in tmp_path.iterdir()] == ["mark.txt"]


@pytest.mark.parametrize("arguments", [{}, {"name": "../mark.txt"}, {"name": "/tmp/mark.txt"}, {"name": 3}, None])
def test_a_name_outside_the_directory_is_refused(arguments: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    done = call(tmp_path / "in", "tools/call", name=TOOL_NAME, arguments=arguments)

    assert done is not None
    assert done["result"]["isError"] is True
    assert [one.name for one in tmp_path.rglob("*")] == ["in"]


@pytest.mark.parametrize(("line", "code"), [
    ("nonsense", -32700), ("[]", -32700), ('{"id": 1}', -32700), ('{"id": 1, "method": "tools/drop"}', -32601)])
def test_an_unknown_method_is_an_error(line: str, code: int, tmp_path: Path) -> None:
    answer = reply(line, tmp_path)

    assert answer is not None
    assert answer["error"]["code"] == code


def test_a_notification_gets_no_response(tmp_path: Path) -> None:
    assert reply('{"method": "notifications/initialized"}', tmp_path) is None
