"""Which adapter drives which kind of agent (A-7, L-4): each one's entry in hello, before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.agents.registry import ADAPTERS, keys_of, make_agent, offers, with_builtin
from interlock.ports.agent import AgentSpec, AgentStartFailed
from interlock.ports.mcp_spec import McpSpec
from interlock.protocol.hold import Holding
from interlock.protocol.payloads import AgentOffer

pytestmark = pytest.mark.req("A-7", "L-4")


def offer(adapter: str = "acp", environment: dict[str, str] | None = None, **fields: Any) -> AgentOffer:
    [found] = offers({"mine": AgentSpec(adapter=adapter, **fields)}, environment)
    return found


def program(directory: Path) -> dict[str, str]:
    path = directory / "agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return {"PATH": str(directory)}


def test_two_built_in_agents_are_always_offered_unless_the_config_has_others() -> None:
    assert list(with_builtin({})) == ["shell", "builtin"]
    own = AgentSpec(adapter="exec", command="x")
    assert with_builtin({"shell": own})["shell"] is own


def test_an_agent_that_can_start_has_no_reason_against_it(tmp_path: Path) -> None:
    found = offer(command="agent", environment=program(tmp_path), roots=["/srv"])
    assert (found.adapter_type, found.permission, found.context_owner, found.roots) == (
        "process", "asks", "agent", ["/srv"])
    assert found.unavailable is None


@pytest.mark.parametrize(("adapter", "fields", "reason"), [
    ("telepathy", {}, "there is no adapter 'telepathy'; choose one of: acp, builtin"),
    ("acp", {}, "it has no command; set `command` in [agents.mine]"), ("acp", {"command": "no-such"},
    "'no-such' is not on the"),
    ("acp", {"command": "/bin/sh", "mcp": {"docs": McpSpec(url="https://d.example", header_env={"X": "DOCS_TOKEN"})}},
     "its MCP server docs needs DOCS_TOKEN, which the runner was started without; set it where `interlock up` or"),
    ("acp", {"command": "/bin/sh", "mcp": {"files": McpSpec(command="no-such-server")}},
     "no-such-server, the program of its MCP server"),
    pytest.param("claude", {"mcp": {"files": McpSpec(command="no-such-server")}},
                 "no-such-server, the program of its MCP server", marks=pytest.mark.needs("claude-sdk")),
    ("builtin", {}, "no model is named and no API key was found"),
    ("builtin", {"model": "mistral/x"}, "the provider 'mistral' is not known"),
])
def test_an_agent_that_cannot_start_names_the_reason(adapter: str, fields: dict[str, Any], reason: str) -> None:
    found = offer(adapter, {"PATH": "/nowhere"}, **fields).unavailable or ""
    assert found.startswith(reason) or reason in found
    assert not found.endswith(".")


def test_a_program_below_the_workspace_is_looked_for_when_it_starts() -> None:
    assert offer(command="./agent", environment={"PATH": "/nowhere"}).unavailable is None


@pytest.mark.req("A-10")
def test_an_agent_that_is_configured_not_to_ask_is_offered_as_such() -> None:
    assert offer("acp", command="x", asks=False).permission == "never"
    assert offer("exec", command="x").permission == "never"
    assert offer("telepathy").permission == "never"


@pytest.mark.req("H-10")
def test_the_offer_names_how_each_agent_is_held() -> None:
    held = Holding(held="asks", why="checked")
    found = offers({"a": AgentSpec(adapter="acp"), "b": AgentSpec(adapter="acp")}, None, {"a": held})
    assert [one.holding for one in found] == [held, None]
    assert offer("builtin").trusted_kinds
    assert not offer("acp").trusted_kinds


@pytest.mark.req("A-1")
def test_an_adapters_secrets_come_from_its_env_first_and_reach_no_other_agent() -> None:
    there = {"ANTHROPIC_API_KEY": "runner", "MINE": "m", "OTHER": "o"}
    spec = AgentSpec(adapter="builtin", env={"ANTHROPIC_API_KEY": "own"}, api_key_env="MINE")
    assert dict(keys_of(spec, there)) == {"ANTHROPIC_API_KEY": "own", "MINE": "m"}
    assert dict(keys_of(AgentSpec(adapter="acp", api_key_env="MINE"), there)) == {}
    assert dict(keys_of(AgentSpec(adapter="telepathy"), there)) == {}


def test_an_unknown_adapter_makes_no_agent() -> None:
    with pytest.raises(AgentStartFailed, match="There is no adapter 'telepathy'; choose one of: acp"):
        make_agent(AgentSpec(adapter="telepathy"), None)  # type: ignore[arg-type]
    assert set(ADAPTERS) == {"acp", "dps", "claude", "builtin", "exec"}
