"""MCP servers of the config: valid entries, what an agent receives of them, and what is not shown (Y-13)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.scripted_acp import HELLO, SESSION, Scripted
from interlock import config
from interlock.agents.acp.agent import AcpAgent
from interlock.agents.claude.launch import launch
from interlock.agents.mcp_servers import servers_of
from interlock.cli.operations.doctor import mcp_servers
from interlock.ports.agent import AgentSpec, AgentStart, AgentStartFailed

FILES = {"command": "sh", "args": ["-c", "true"], "env": {"LEVEL": "info"}, "env_pass": ["FILES_TOKEN"]}
DOCS = {"url": "https://docs.example/mcp", "headers": {"X-Team": "a"}, "header_env": {"Authorization": "DOCS_TOKEN"}}
SECRETS = {"FILES_TOKEN": "sesame", "DOCS_TOKEN": "Bearer sesame"}


def spec(**servers: Any) -> AgentSpec:
    return msgspec.convert({"adapter": "acp", "command": "x", "mcp": servers}, AgentSpec)


async def opened(given: AgentSpec, hello: dict[str, Any], path: str | None = os.defpath) -> list[dict[str, Any]]:
    """What the agent gets at `session/new`."""
    process = Scripted({"initialize": [hello], "session/new": [{"result": {"sessionId": SESSION}}]})
    agent = AcpAgent(process)
    await agent.open(AgentStart("s", "x", given, "/", {}, servers=servers_of("x", given, SECRETS, path)))
    await agent.close()
    return process.got[-1]["params"]["mcpServers"]


def http_hello(*, http: bool) -> dict[str, Any]:
    return {"result": {**HELLO["result"], "agentCapabilities": {"mcpCapabilities": {"http": http, "sse": False}}}}


@pytest.mark.anyio
@pytest.mark.req("Y-13")
async def test_an_agent_gets_programs_and_urls_with_secrets_of_the_runners_environment() -> None:
    files, docs = await opened(spec(files=FILES, docs=DOCS), http_hello(http=True), "/usr/bin:/bin")
    assert files["name"] == "files"
    assert files["command"] in ("/usr/bin/sh", "/bin/sh")
    assert files["args"] == ["-c", "true"]
    assert files["env"] == [{"name": "LEVEL", "value": "info"}, {"name": "FILES_TOKEN", "value": "sesame"}]
    assert docs == {"type": "http", "name": "docs", "url": "https://docs.example/mcp", "headers": [
        {"name": "X-Team", "value": "a"}, {"name": "Authorization", "value": "Bearer sesame"}]}


@pytest.mark.anyio
@pytest.mark.req("Y-13")
async def test_an_agent_that_accepts_no_http_server_is_not_started_without_it() -> None:
    with pytest.raises(AgentStartFailed, match=r"does not support MCP servers over HTTP .* lists docs"):
        await opened(spec(docs=DOCS), http_hello(http=False))
    assert await opened(spec(files=FILES), HELLO)


@pytest.mark.req("Y-13")
def test_claude_code_gets_servers_by_arguments_and_secrets_by_environment(tmp_path: Path) -> None:
    given = msgspec.convert({"adapter": "claude", "mcp": {"files": FILES, "docs": DOCS}}, AgentSpec)
    servers = servers_of("claude", given, SECRETS, "/usr/bin:/bin")
    start = launch(AgentStart("s", "claude", given, "/", {"HOME": str(tmp_path)}, servers=servers), tmp_path / "none")
    assert not [word for word in start.argv if "sesame" in word]
    word = next(word for word in start.argv if word.startswith("--mcp-config="))
    added = json.loads(word.partition("=")[2])["mcpServers"]

    def filled(values: dict[str, str]) -> dict[str, str]:
        return {name: start.environment[value.removeprefix("${").removesuffix("}")] for name, value in values.items()}

    assert added["files"]["type"] == "stdio"
    assert added["files"]["args"] == ["-c", "true"]
    assert filled(added["files"]["env"]) == {"LEVEL": "info", "FILES_TOKEN": "sesame"}
    assert (added["docs"]["type"], added["docs"]["url"]) == ("http", "https://docs.example/mcp")
    assert filled(added["docs"]["headers"]) == {"X-Team": "a", "Authorization": "Bearer sesame"}
    assert "--mcp-config" not in str(launch(AgentStart("s", "claude", given, "/", {"HOME": str(tmp_path)}),
                                            tmp_path / "none").argv)


@pytest.mark.req("Y-13")
def test_a_server_that_cannot_be_used_is_named_before_the_agent_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentStartFailed, match=r"its MCP server docs needs DOCS_TOKEN, .*\[agents\.x\.mcp\.docs\]"):
        servers_of("x", spec(docs=DOCS), {}, None)
    absent = spec(files={"command": "no-such-server"})
    with pytest.raises(AgentStartFailed, match="no-such-server, the program of its MCP server files, is not on PATH"):
        servers_of("x", absent, {}, os.defpath)
    monkeypatch.delenv("DOCS_TOKEN", raising=False)
    found = [(one.check, one.ok) for one in mcp_servers("x", spec(docs=DOCS, sh={"command": "sh"},
                                                                   no={"command": "no-such-server"}))]
    assert found == [("MCP server docs of x", False), ("MCP server sh of x", True), ("MCP server no of x", False)]


@pytest.mark.req("Y-13", "H-13")
def test_programs_in_the_agents_directory_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil").write_text("#!/bin/sh\n")
    (tmp_path / "evil").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (".", ""):
        with pytest.raises(AgentStartFailed):
            servers_of("x", spec(files={"command": "evil"}), {}, f"{path}:/nonexistent")
    with pytest.raises(msgspec.ValidationError, match="may be anybody's repository"):
        spec(files={"command": "./evil"})


@pytest.mark.req("Y-13", "G-1")
@pytest.mark.parametrize(("wrong", "why"), [
    ({"command": "a", "url": "https://b"}, "either `command`"), ({}, "either `command`"),
    ({"url": "ftp://b"}, "begins with https"), ({"url": "https://u:p@b"}, "no name and password"),
    ({"url": "http://b", "header_env": {"A": "B_TOKEN"}}, "go over https"),
    ({"url": "https://b", "args": ["x"]}, "are for a program"),
    ({"command": "a", "headers": {"A": "b"}}, "for a `url`"),
    ({"command": "a", "env_pass": ["LD_PRELOAD"]}, "not named like a credential"),
    ({"url": "https://b", "header_env": {"A": "PATH"}}, "not named like a credential"),
])
def test_a_wrong_table_is_refused_with_its_reason(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        spec(files=wrong)


@pytest.mark.req("Y-13", "G-1")
def test_other_adapters_and_odd_names_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="only agents of the adapters acp and claude, and codex by exec"):
        msgspec.convert({"adapter": "exec", "command": "x", "mcp": {"a": {"command": "b"}}}, AgentSpec)
    with pytest.raises(msgspec.ValidationError, match="is not a name"):
        spec(**{"a b": {"command": "c"}})


@pytest.mark.req("Y-13")
def test_no_secret_is_shown() -> None:
    given = spec(files={"command": "a", "env": {"A_TOKEN": "sesame"}}, docs={**DOCS, "headers": {"X-Auth": "sesame"}})
    shown = config.show(config.Config(agents={"goose": given}))
    assert "sesame" not in shown
    assert "[agents.goose.mcp.docs]" in shown
    assert "sesame" not in repr(servers_of("x", spec(files=FILES), SECRETS, os.defpath))
