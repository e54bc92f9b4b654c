"""Pause and resume on the runner: nothing further begins, and what was answered meanwhile comes afterwards (C-6)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from runner.stage import Stage, misbehaving, stage

pytestmark = pytest.mark.anyio
WORDS = Path(__file__).parents[2] / "agents" / "dps_words.py"


def boundary() -> dict[str, AgentSpec]:
    return {"dps": AgentSpec(adapter="dps", command=sys.executable, args=["-I", "-S", str(WORDS), "boundary"])}


async def until_state(scene: Stage, state: str) -> None:
    while (await scene.next("agent.state.changed")).payload.state != state:
        pass


@pytest.mark.req("C-6")
async def test_a_grant_during_a_pause_reaches_the_agent_on_resume(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        asked = await scene.next("agent.interaction.request")
        await scene.send("control.turn.pause", p.TurnPause())
        await until_state(scene, "paused")
        await scene.answer(asked, "allow")
        await scene.outflow.flushed()
        assert scene.all("x-interlock.interaction.resolved") == []
        assert not (tmp_path / "made.txt").exists()
        await scene.send("control.turn.resume", p.TurnResume())
        resolved = await scene.next("x-interlock.interaction.resolved")
        assert (resolved.payload.outcome, resolved.payload.by) == ("allowed", "ada")
        await scene.next("session.usage")
        assert (tmp_path / "made.txt").exists()
        states = [frame.payload.state for frame in scene.all("agent.state.changed")]
        assert states[states.index("paused"):] == ["paused", "waiting_approval", "running", "idle"]


@pytest.mark.req("C-6", "A-4")
async def test_a_cancel_during_a_pause_voids_the_stored_grant(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        asked = await scene.next("agent.interaction.request")
        await scene.send("control.turn.pause", p.TurnPause())
        await scene.answer(asked, "allow")
        await scene.cancel()
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "void"
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert not (tmp_path / "made.txt").exists()
        end = await scene.turn("text:again")  # The next turn is not held by the last one's pause.
        assert end.payload.stop_reason == "end_turn"


@pytest.mark.req("C-6")
async def test_an_agent_with_boundaries_pauses_at_its_next_question(tmp_path: Path) -> None:
    async with stage(tmp_path, boundary()) as scene:
        await scene.open("dps")
        await scene.prompt("hear-pause tool:made.txt")
        await scene.next("session.turn.start")
        await scene.send("control.turn.pause", p.TurnPause())
        asked = await scene.next("agent.interaction.request")
        await until_state(scene, "paused")
        kinds = [frame.type for frame in scene.received]
        assert kinds.count("agent.state.changed") == 2  # running, and paused only at the question.
        await scene.answer(asked, "allow")
        await scene.outflow.flushed()
        assert scene.all("x-interlock.interaction.resolved") == []
        await scene.send("control.turn.resume", p.TurnResume())
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "allowed"
        await scene.next("session.usage")


@pytest.mark.req("C-6", "T-1")
async def test_between_two_turns_of_a_query_the_next_is_held(tmp_path: Path) -> None:
    async with stage(tmp_path, boundary()) as scene:
        await scene.open("dps")
        await scene.prompt("hear-pause stop:tool_use")
        await scene.next("session.turn.start")
        await scene.send("control.turn.pause", p.TurnPause())
        assert (await scene.next("session.turn.end")).payload.stop_reason == "tool_use"
        await until_state(scene, "paused")
        assert len(scene.all("session.turn.start")) == 1
        await scene.send("control.turn.resume", p.TurnResume())
        await scene.next("session.turn.start")
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"


@pytest.mark.req("C-1")
async def test_the_runners_own_timeout_is_reported_as_a_timeout(tmp_path: Path) -> None:
    from runner.stage import SessionTimeouts

    async with stage(tmp_path, {"bad": misbehaving()}, timeouts=SessionTimeouts(backstop_s=0)) as scene:
        await scene.open("bad")
        await scene.prompt("wait", timeout_ms=10)
        end = await scene.next("session.turn.end")
        assert (end.payload.stop_reason, end.metadata["timed_out"]) == ("cancelled", True)


@pytest.mark.req("C-6")
async def test_an_agent_may_report_itself_that_it_paused(tmp_path: Path) -> None:
    async with stage(tmp_path, boundary()) as scene:
        await scene.open("dps")
        await scene.prompt("stand text:on")
        await scene.next("session.turn.start")
        await scene.send("control.turn.pause", p.TurnPause())
        await until_state(scene, "paused")
        await scene.send("control.turn.resume", p.TurnResume())
        await until_state(scene, "running")
        await scene.next("session.usage")
        assert scene.text() == "on"
