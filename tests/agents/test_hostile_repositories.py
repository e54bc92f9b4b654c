"""Real agents in repositories that attack their settings: nothing runs without a question (H-13)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.lab import known_agent, lab_agent
from agents.third_party import ThirdParty
from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec
from interlock.probe.hostile import ATTACKS, Attack, Planted, plant
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-13")]
IGNORES = ("claude-acp", "kilo", "opencode")
"""Agents that are made to ignore a repository's files."""
ASKED = ("codex-acp", "copilot", "gemini", "kimi", "pi", "qwen", "vibe")
"""Agents whose start waits for an approval."""


def groups(attacks: Sequence[Attack]) -> list[list[Attack]]:
    """Attacks that write different files, to be planted together."""
    found: list[tuple[set[str], list[Attack]]] = []
    for attack in attacks:
        files = set(attack.files(""))
        group = next((one for one in found if not one[0] & files), None)
        if group is None:
            found.append((files, [attack]))
        else:
            group[0].update(files)
            group[1].append(attack)
    return [attacks for _, attacks in found]


CASES = [(name, group) for name in (*IGNORES, *ASKED) for group in groups(ATTACKS[known_agent(name).program])]
NAMES = ["-".join([name, *(one.name for one in group)]) for name, group in CASES]


async def open_with(scene: Stage, name: str, reported: bytes) -> None:
    """Open as the gateway does after a grant of the reported files."""
    await scene.send("control.session.open", p.SessionOpen(
        session_id=scene.session_id, agent_id=name, workspace_access="rw", workspace=str(scene.workspace),
        trusted_files=hashlib.sha256(reported).hexdigest()))
    await scene.next("session.capabilities")


async def refused_shell(scene: Stage) -> None:
    """One turn of words, and one in which a shell is asked for and refused."""
    await scene.turn("hi")
    await scene.prompt("Please: [[tool:echo checked > shell.txt]]")
    while (frame := await scene.next("agent.interaction.request", "session.usage")).type != "session.usage":
        await scene.answer(frame, "deny")


def ran(planted: list[Planted]) -> list[str]:
    return [one.attack.name for one in planted if one.trace.exists()]


@pytest.mark.parametrize(("name", "attacks"), CASES, ids=NAMES)
async def test_nothing_in_a_hostile_repository_runs_without_approval(
    name: str, attacks: list[Attack], tmp_path: Path, model_server: ModelServer
) -> None:
    (tmp_path / "home").mkdir()
    workspace = tmp_path / "work"
    (workspace / ".git").mkdir(parents=True)
    spec = lab_agent(name, tmp_path / "home", model_server)
    assert not any("PROJECT_CONFIG" in variable for variable in spec.env), "the runner adds it by itself"
    planted = plant(workspace, tmp_path / "seen", *attacks)
    async with stage(workspace, {name: spec}) as scene:
        await scene.open(name)
        first = await scene.next("session.capabilities", "session.error")
        if name in IGNORES:
            assert first.type == "session.capabilities"
            await refused_shell(scene)
            assert not (workspace / "shell.txt").exists()
        else:
            assert first.payload.error_code == Code.WORKSPACE_NOT_TRUSTED
        assert ran(planted) == []


@pytest.mark.needs("goose")
async def test_goose_runs_repository_hooks_only_after_a_grant(goose: ThirdParty, tmp_path: Path) -> None:
    spec = AgentSpec(adapter="acp", command=str(goose.command), args=list(goose.args), env=dict(goose.env),
                     mode="approve")
    planted = plant(goose.workspace, tmp_path / "seen", *ATTACKS["goose"])
    async with stage(goose.workspace, {"goose": spec}) as scene:
        await scene.open("goose")
        asked = await scene.next("session.error")
        assert asked.payload.error_code == Code.WORKSPACE_NOT_TRUSTED
        reported = bytes(asked.payload.workspace_files)
        assert str(planted[0].trace) in reported.decode()
        await scene.next("session.closed")
        assert ran(planted) == []

        await open_with(scene, "goose", reported)
        await refused_shell(scene)
        assert ran(planted) == ["hooks"], "the repository is a hostile one: what was asked about runs after the yes"
        assert not (goose.workspace / "shell.txt").exists()


@pytest.mark.needs("claude-sdk")
async def test_claude_needs_approval_before_it_reads_hooks(claude: ThirdParty, tmp_path: Path) -> None:
    hooks = next(one for one in ATTACKS["claude"] if one.name == "hooks")
    planted = plant(claude.workspace, tmp_path / "seen", hooks)
    spec = AgentSpec(adapter="claude", env=dict(claude.env), workspace_files="ask")
    async with stage(claude.workspace, {"claude": spec}) as scene:
        await scene.open("claude")
        reported = bytes((await scene.next("session.error")).payload.workspace_files)
        await scene.next("session.closed")
        assert ran(planted) == []
        await open_with(scene, "claude", reported)
        await refused_shell(scene)
        assert ran(planted) == ["hooks"]
