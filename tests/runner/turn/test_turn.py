"""One turn of an agent: even if its program crashes or misbehaves, the turn ends (T-3, A-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from interlock.runner.turn.turn import SessionTimeouts
from runner.stage import Stage, program, stage

pytestmark = pytest.mark.anyio
QUICK = SessionTimeouts(cancel_s=0.2, end_s=0.2, drain_s=5, idle_s=900)


async def ended(scene: Stage) -> p.SessionClosed:
    return (await scene.next("session.closed")).payload


@pytest.mark.req("A-4", "A-2")
async def test_an_agent_that_ignores_a_cancel_is_terminated(tmp_path: Path) -> None:
    async with stage(tmp_path, timeouts=QUICK) as scene:
        await scene.open("bad")
        await scene.prompt("text:so hang")
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        await scene.next("session.usage")
        error = await scene.next("agent.error")
        assert (error.payload.error_code, error.metadata) == ("SIGNAL_EXIT", {"expected": True})
        assert (await ended(scene)).signal == 15
        refused = await scene.prompt("text:x")
        assert (await scene.next("session.error")).metadata["in_reply_to"] == refused.message_id


@pytest.mark.req("A-2", "A-8", "W-2")
@pytest.mark.parametrize(
    ("words", "code", "stop"),
    [("text:so exit:3", "PROCESS_EXIT", "error"), ("text:so kill:9", "SIGNAL_EXIT", "error"),
     ("text:so exit:137", "SIGNAL_EXIT", "error"), ("text:so exit:0", None, "end_turn")],
)
async def test_a_process_that_ends_in_mid_turn_fails_the_turn(
    tmp_path: Path, words: str, code: str | None, stop: str
) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt(words)
        end = await scene.next("session.turn.end")
        assert end.payload.stop_reason == stop
        usage = await scene.next("session.usage")
        assert usage.metadata["estimated"] is True
        assert scene.text() == "so"
        errors = scene.all("agent.error")
        assert [e.payload.error_code for e in errors] == ([code] if code else [])
        assert end.metadata.get("unanswered") is (None if code else True)
        await ended(scene)
        await scene.open("bad")
        await scene.turn("text:again")
        assert [f.payload.turn_index for f in scene.all("session.turn.start")] == [0, 1]


@pytest.mark.req("T-4")
async def test_a_cancel_of_another_turn_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("wait")
        await scene.send("control.turn.cancel", p.TurnCancel(reason="x", turn_id="another"))
        assert (await scene.next("session.error")).payload.error_code == "UNKNOWN_TURN"
        await scene.send("control.turn.cancel", p.TurnCancel(reason="noop"), {"replaces": "p-0"})
        assert scene.all("session.turn.end") == []
        await scene.cancel()
        await scene.next("session.turn.end")


@pytest.mark.req("A-8")
async def test_a_line_above_the_cap_fails_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        end = await scene.turn("line:20000000")
        assert end.payload.stop_reason == "error"
        assert scene.all("agent.error")[0].payload.error_code == "FRAME_TOO_LARGE"


@pytest.mark.req("A-3", "A-10")
async def test_exec_starts_one_process_per_turn(tmp_path: Path) -> None:
    agents = {"cat": program("import sys; print('got', sys.argv[-1])"), "bad": program("import sys; sys.exit(4)")}
    async with stage(tmp_path, agents) as scene:
        await scene.open("cat")
        capabilities = await scene.next("session.capabilities")
        assert capabilities.payload.features["permission"] == "never"
        for word in ("one", "two"):
            end = await scene.turn(word)
            assert (end.payload.stop_reason, end.metadata["exit_code"]) == ("end_turn", 0)
        assert scene.text() == "got one\ngot two\n"
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        await ended(scene)
        await scene.open("bad")
        end = await scene.turn("x")
        assert (end.payload.stop_reason, end.metadata["exit_code"]) == ("error", 4)
        await ended(scene)
