"""Permission requests of Kimi Code (H-2): the announced arguments, if the request's words fit them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from interlock.agents.acp.calls import AcpToolCall
from interlock.agents.acp.effects import RequestRead, with_content
from interlock.agents.acp.kimi_requests import kimi_effect
from interlock.agents.acp.wire import AcpToolCallWire, AskedCall

pytestmark = pytest.mark.req("H-2")


def item(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def read(tool: str, words: str, arguments: Any, announced_as: str | None = None) -> tuple[Any, str | None] | None:
    announced = AcpToolCall("c")
    announced.merge(AcpToolCallWire("c", title=announced_as or tool, content=[item(json.dumps(arguments))]))
    own = with_content(AskedCall(title=tool, kind="other"), [item(f"Requesting approval to {words}")])
    found = kimi_effect(RequestRead(own, announced, "/w"))
    return None if found is None else (msgspec.json.decode(found.call.raw_input), found.call.kind)


@pytest.mark.parametrize(("tool", "words", "arguments", "kind"), [
    ("Bash", "Running: ls -l", {"command": "ls -l"}, "execute"),
    ("Bash", "Running: " + "x" * 50, {"command": "x" * 50}, "execute"),
    ("Bash", "Running: " + "x" * 50 + "…", {"command": "x" * 50 + "; ls"}, "execute"),
    ("Bash", "Running: " + "x" * 48 + "😀…", {"command": "x" * 48 + "😀; ls"}, "execute"),
    ("Bash", "Running: " + "x" * 49 + "\ufffd…", {"command": "x" * 49 + "😀; ls"}, "execute"),
    ("Bash", "Running: " + "x" * 49 + "…", {"command": "x" * 49 + "😀; ls"}, "execute"),
    ("Bash", "Starting background: ls", {"command": "ls", "background": True}, "execute"),
    ("Write", "Writing a.txt", {"path": "a.txt", "content": "x"}, "edit"), ("Edit", "Editing a", {"path": "a"}, "edit"),
    ("CronCreate", "Scheduling cron 0 3 * * *", {"cron": "0  3 * * *"}, "other"),
    ("mcp__web__get", "Approve mcp__web__get", {"url": "https://x"}, "other"),
])
def test_the_announced_arguments_are_used_if_the_request_text_matches(
    tool: str, words: str, arguments: Any, kind: str
) -> None:
    assert read(tool, words, arguments) == (arguments, kind)


@pytest.mark.parametrize(("tool", "words", "arguments"), [
    ("Bash", "Running: ls -l", {"command": "rm -rf /"}), ("Bash", "Running: rm…", {"command": "ls"}), ("Bash",
    "Running: ls", {}),
    ("Bash", "Running: ls", {"command": 7}), ("Bash", "Writing ls", {"command": "ls"}), ("Bash", "Running: ls", ["ls"]),
    ("Bash", "Running: …", {"command": "rm -rf /"}), ("Bash", "Running: ls…", {"command": "ls -l"}),
    ("Bash", "Running: " + "x" * 49 + "…", {"command": "x" * 60}), ("Bash", "Running: x…", {"command": "x"}),
    ("Bash", "Running: " + "x" * 50, {"command": "x" * 51}), ("Write", "Writing a…", {"path": "ab"}),
    ("FetchURL", "Fetching https://x", {"url": "https://x"}), ("Bash", "Running: ls ", {"command": "ls"}),
    ("mcp__web__get", "Approve mcp__web__put", {}), ("Write", "Writing a", {"path": "b"}),
])
def test_request_text_that_does_not_match_leaves_the_call_described(tool: str, words: str, arguments: Any) -> None:
    assert read(tool, words, arguments) is None


def test_a_request_for_a_tool_that_was_not_announced_is_not_read() -> None:
    assert read("Bash", "Running: ls", {"command": "ls"}, announced_as="Write") is None
