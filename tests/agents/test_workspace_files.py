"""The table of files that configure agents, and what is read out of them (H-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.registry import SHELL
from interlock.agents.workspace_effects import effects
from interlock.agents.workspace_files import (
    ANYTHING,
    NOTHING,
    READS,
    ignoring_args,
    ignoring_env,
    ignoring_meta,
    places_read,
    reads_of,
)
from interlock.cli.agents.known_agents import KNOWN
from interlock.ports.agent import AgentSpec
from interlock.probe.hostile import ATTACKS, Attack

pytestmark = pytest.mark.req("H-13")
EACH = [(program, attack) for program, attacks in ATTACKS.items() for attack in attacks]


def acp(command: str, *args: str, **fields: object) -> AgentSpec:
    return AgentSpec(adapter="acp", command=command, args=list(args), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("program", "attack"), EACH, ids=[f"{program}-{attack.name}" for program, attack in EACH])
def test_every_hostile_file_is_at_a_known_path_of_its_agent(program: str, attack: Attack) -> None:
    places = READS[program].places
    for path in attack.files("touch it"):
        assert any(path == one.path or (one.path.endswith("/") and path.startswith(one.path)) for one in places), path


@pytest.mark.parametrize(("program", "attack"), EACH, ids=[f"{program}-{attack.name}" for program, attack in EACH])
def test_the_effect_of_a_hostile_file_is_described(program: str, attack: Attack) -> None:
    found = [line for path, text in attack.files("touch it").items() for line in effects(path, text.encode())]
    assert found
    if attack.aim == "runs":
        assert any("touch it" in line or "is code" in line for line in found)
    else:
        assert any("allow" in line.lower() or "yolo" in line for line in found)


@pytest.mark.parametrize(("spec", "program"), [
    (acp("/opt/bin/qwen", "--acp"), "qwen"),
    (acp("npx", "-y", "@google/gemini-cli@0.61.0", "--acp"), "gemini"),
    (acp("node", "/opt/lib/opencode.js", "acp"), "opencode"),
    (acp("npx", "@agentclientprotocol/codex-acp"), "codex-acp"),
    (acp("claude-code-acp"), "claude-agent-acp"),
    (AgentSpec(adapter="exec", command="codex", args=["exec", "--", "{prompt}"]), "codex"),
])
def test_an_agent_is_recognised_by_its_program_or_its_launchers_program(spec: AgentSpec, program: str) -> None:
    assert reads_of(spec) is READS[program]


def test_an_unknown_agent_may_wrap_any_other_and_built_in_agents_read_nothing() -> None:
    assert reads_of(acp("/home/ann/bin/my-agent")) is ANYTHING
    assert {place.path for place in ANYTHING.places} >= {".mcp.json", ".claude/settings.json", ".codex/"}
    assert reads_of(SHELL) is NOTHING
    assert reads_of(AgentSpec(adapter="exec", command="make")) is NOTHING
    assert reads_of(AgentSpec(adapter="builtin")) is NOTHING


def test_every_tested_program_that_interlock_agents_finds_has_a_row() -> None:
    untried = {"cline", "auggie"}
    assert {known.program for known in KNOWN} - untried <= READS.keys()


@pytest.mark.parametrize("program", ["opencode", "kilo"])
def test_an_agent_that_ignores_files_by_a_variable_needs_approval_if_it_changes(program: str) -> None:
    spec = acp(program, "acp")
    ignoring = dict(ignoring_env(spec))
    assert ignoring
    assert places_read(spec, ignoring) == ()
    assert places_read(spec, {}) == READS[program].places
    assert places_read(spec, dict.fromkeys(ignoring, "0")) == READS[program].places


@pytest.mark.parametrize(("args", "asks"), [
    ([], False), (["--setting-sources", "user"], False), (["--setting-sources="], False),
    (["--setting-sources", "user,project"], True), (["--setting-sources=user, local"], True),
])
def test_claude_needs_approval_if_its_arguments_name_other_sources(args: list[str], asks: bool) -> None:
    assert bool(places_read(AgentSpec(adapter="claude", args=args), {})) is asks


def test_the_config_may_read_files_after_a_grant_or_trust_them() -> None:
    for spec in (AgentSpec(adapter="claude", workspace_files="ask"), acp("opencode", workspace_files="ask"),
                 acp("claude-agent-acp", workspace_files="ask")):
        assert (ignoring_args(spec), dict(ignoring_env(spec)), dict(ignoring_meta(spec))) == ((), {}, {})
        assert places_read(spec, {}) == reads_of(spec).places
    assert places_read(acp("qwen", workspace_files="trust"), {}) == ()


def test_claude_over_acp_gets_the_setting_when_its_conversation_begins() -> None:
    assert ignoring_meta(acp("claude-agent-acp")) == {"claudeCode": {"options": {"settingSources": ["user"]}}}
    assert places_read(acp("claude-agent-acp"), {}) == ()
    assert ignoring_meta(acp("qwen")) == {}


def test_the_how_to_page_names_every_agent_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/untrusted-repository.md").read_text()
    for program in ATTACKS:
        assert f"`{program}`" in page, program
