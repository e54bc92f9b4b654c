"""MCP servers for `codex exec`: words of its config, and no secret among them (Y-13)."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.lab import lab_agent
from interlock.agents.exec.codex_servers import server_words
from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec, AgentStartFailed, McpServer, Secrets
from interlock.ports.mcp_spec import McpSpec
from interlock.probe import mcp_server
from interlock.probe.mcp_server import SERVER_NAME
from runner.stage import stage

pytestmark = pytest.mark.req("Y-13")


def read(words: list[str]) -> dict[str, Any]:
    """The config that codex reads from the words: a dotted name and a TOML value after each `-c`."""
    assert set(words[::2]) <= {"-c"}
    return tomllib.loads("\n".join(words[1::2])).get("mcp_servers", {})


def test_servers_are_settings_with_their_secrets_by_name() -> None:
    words, variables = server_words((
        McpServer("files", "/usr/bin/mcp-files", ("/srv/a b", 'a "word" \\ 😀'),
                  Secrets({"FILES_TOKEN": "s1", "LEVEL": "2"})),
        McpServer("tickets-2", url="https://t.example/mcp",
                  headers=Secrets({"Authorization": "Bearer s2", "X-A": "b"})),
        McpServer("more", url="https://m.example", headers=Secrets({"Authorization": "s3"})),
    ), {"PATH": "/bin", "LEVEL": "2"})
    assert read(words) == {
        "files": {"command": "/usr/bin/mcp-files", "args": ["/srv/a b", 'a "word" \\ 😀'],
                  "env_vars": ["FILES_TOKEN", "LEVEL"], "default_tools_approval_mode": "approve"},
        "tickets-2": {"url": "https://t.example/mcp", "default_tools_approval_mode": "approve",
                      "env_http_headers": {"Authorization": "MCP_HEADER_VALUE_0", "X-A": "MCP_HEADER_VALUE_1"}},
        "more": {"url": "https://m.example", "default_tools_approval_mode": "approve",
                 "env_http_headers": {"Authorization": "MCP_HEADER_VALUE_2"}},
    }
    assert variables == {"FILES_TOKEN": "s1", "LEVEL": "2", "MCP_HEADER_VALUE_0": "Bearer s2",
                         "MCP_HEADER_VALUE_1": "b", "MCP_HEADER_VALUE_2": "s3"}
    assert not any(secret in "".join(words) for secret in ("s1", "s2", "s3"))
    assert server_words((), {}) == ([], {})


@pytest.mark.parametrize(("first", "environment"), [({"A_TOKEN": "1"}, {}), ({}, {"A_TOKEN": "1"})])
def test_a_variable_with_two_values_is_refused(first: dict[str, str], environment: dict[str, str]) -> None:
    with pytest.raises(AgentStartFailed, match="server b sets A_TOKEN, which codex itself or another"):
        server_words((McpServer("a", "/a", (), Secrets(first)), McpServer("b", "/b", (), Secrets({"A_TOKEN": "2"}))),
                     environment)


@pytest.mark.anyio
async def test_codex_gets_servers_before_its_own_arguments_and_in_its_environment(tmp_path: Path) -> None:
    codex = tmp_path / "codex"
    codex.write_text('#!/bin/sh\necho "token $FILES_TOKEN"\nfor word; do echo "[$word]"; done\n')
    codex.chmod(0o700)
    spec = AgentSpec(adapter="exec", command=str(codex), args=["exec", "--", "{prompt}"],
                     mcp={"files": McpSpec(command="/bin/true", args=["x"], env={"FILES_TOKEN": "s1"})})
    async with stage(tmp_path, {"codex": spec}) as scene:
        await scene.open("codex")
        assert (await scene.turn("hello")).payload.stop_reason == "end_turn"
        lines = scene.text().splitlines()
    assert lines[0] == "token s1"
    assert lines[-3:] == ["[exec]", "[--]", "[hello]"]
    assert lines[1:3] == ["[-c]", '[mcp_servers.files.command="/bin/true"]']


@pytest.mark.anyio
async def test_the_real_codex_calls_a_tool_of_a_configured_server(tmp_path: Path, model_server: ModelServer) -> None:
    spec = lab_agent("codex", tmp_path / "home", model_server)
    servers = {SERVER_NAME: McpSpec(command=sys.executable, args=[str(mcp_server.__file__), str(tmp_path)])}
    spec = msgspec.structs.replace(spec, args=["exec", "--skip-git-repo-check", "--", "{prompt}"], mcp=servers)
    async with stage(tmp_path, {"codex": spec}) as scene:
        await scene.open("codex")
        assert (await scene.turn('[[do:mark {"name":"mark.txt"}]]')).payload.stop_reason == "end_turn"
    assert (tmp_path / "mark.txt").exists()
