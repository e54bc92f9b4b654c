"""`interlock agents`: the lines that it prints can be appended to a config, and their claims are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to
from interlock import config
from interlock.agents.registry import offers
from interlock.cli.agents import agents
from interlock.cli.agents.known_agents import KNOWN, KnownAgent, snippet
from interlock.cli.dispatch import dispatch

ASK = ["claude", "claude-acp", "codex-acp", "gemini", "goose", "opencode", "qwen", "copilot", "vibe", "kimi", "kilo"]
NEVER = ["codex", "hermes", "pi", "cline", "auggie"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with each known agent's program on it, and a state directory without a config."""
    for known in KNOWN:
        program = tmp_path / "bin" / known.program
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    return tmp_path / "state"


@pytest.mark.req("G-1")
@pytest.mark.parametrize("before", ["", "[gateway]\nport = 7433\n", '[agents.mine]\nadapter = "exec"\ncommand = "cat"'])
def test_all_output_can_be_appended_to_a_config(
    before: str, programs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert dispatch(["agents"]) == 0
    printed = capsys.readouterr().out
    assert "interlock config reload" in printed
    (tmp_path / "interlock.toml").write_text(before + printed)
    agents = config.load(tmp_path / "interlock.toml").agents
    assert {known.agent_id for known in KNOWN} <= set(agents)
    assert agents["opencode"].env["OPENCODE_PERMISSION"] == '{"*":"ask"}'
    assert agents["codex-acp"].env == {"INITIAL_AGENT_MODE": "read-only"}
    assert (agents["vibe"].mode, agents["claude-acp"].mode) == ("ask", "default")


@pytest.mark.req("A-10", "L-4")
def test_the_report_shows_how_each_known_agent_is_held(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text("".join(map(snippet, KNOWN)))
    offered = offers(config.load(tmp_path / "interlock.toml").agents)
    held = {offer.agent_id: offer.permission for offer in offered}
    assert held == {**dict.fromkeys(ASK, "asks"), **dict.fromkeys(NEVER, "never")}
    assert {known.agent_id: known.asks for known in KNOWN} == {name: held[name] == "asks" for name in held}


@pytest.mark.req("A-10")
def test_the_line_of_an_agent_shows_how_it_is_held(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["agents"])
    printed = capsys.readouterr().out.splitlines()
    pi = printed.index("[agents.pi]")
    assert printed[pi - 1].endswith("pi-acp: the whole command is held; asks for nothing")
    kimi = printed.index("[agents.kimi]")
    assert "kimi: each tool call is held; " in printed[kimi - 1]


def test_a_value_with_quotes_is_printed_as_toml(tmp_path: Path) -> None:
    odd = KnownAgent("odd", 'a "b" \\c', "acp", ('--x="y"',), True, env={"V": "é\t\"'\\"})
    (tmp_path / "interlock.toml").write_text(snippet(odd))
    spec = config.load(tmp_path / "interlock.toml").agents["odd"]
    assert (spec.command, spec.args, spec.env) == ('a "b" \\c', ['--x="y"'], {"V": "é\t\"'\\"})


@pytest.mark.req("G-1", "Y-12")
@pytest.mark.parametrize("line", ['mode = "plan"', 'modes = ["plan"]'])
def test_only_acp_agents_take_modes(line: str, tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text(f'[agents.x]\nadapter = "exec"\ncommand = "cat"\n{line}\n')
    with pytest.raises(config.ConfigError, match="only agents of the adapter acp"):
        config.load(tmp_path / "interlock.toml")


@pytest.mark.req("G-4")
def test_an_agent_that_cannot_start_is_not_listed_as_online(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = {"node_id": "local", "device_name": "h", "status": "online", "last_seen": "", "capabilities": [],
            "agents": [{"agent_id": "shell", "adapter": "exec"},
                       {"agent_id": "own", "adapter": "acp", "unavailable": "'own' is not on the PATH"}],
            "active_sessions_count": 0, "config_versions": {"limits": "1", "capabilities": "1"}}
    script = Script({"GET /v1/edge/nodes": [answer({"nodes": [node]})]})
    programs.mkdir(exist_ok=True)
    monkeypatch.setattr(agents, "GatewayLink", lambda _: link_to(script, programs))
    assert dispatch(["agents"]) == 0
    shown = capsys.readouterr()
    rows = {row.split()[0]: " ".join(row.split()[2:4]) for row in shown.out.splitlines()[:3]}
    assert rows == {"AGENT": "STATUS ADAPTER", "shell": "online exec", "own": "cannot start"}
    assert "own cannot be started on local: 'own' is not on the PATH" in shown.err
