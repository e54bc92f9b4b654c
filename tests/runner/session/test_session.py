"""Conversations between a gateway and one session of the runner."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import uuid
from pathlib import Path

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.agent import AgentQuestion, Option
from interlock.protocol import payloads as p
from interlock.protocol.limits import MIB
from interlock.runner.journal import Journal
from interlock.runner.session_state import SessionState, TurnState
from interlock.runner.turn.interactions import Interactions, Waits
from interlock.runner.turn.turn import SessionTimeouts
from interlock.runner.turn.turn_writer import StoredTurnWriter
from runner.stage import Stage, misbehaving, raw_input, stage

pytestmark = pytest.mark.anyio
QUICK = SessionTimeouts(cancel_s=0.2, end_s=0.2, drain_s=5, idle_s=900)


async def ended(scene: Stage) -> p.SessionClosed:
    return (await scene.next("session.closed")).payload


@pytest.mark.req("T-2", "T-3", "A-6")
async def test_a_turn_runs_from_open_to_usage(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        opened = await scene.open("bad")
        capabilities = await scene.next("session.capabilities")
        assert capabilities.metadata["in_reply_to"] == opened.message_id
        assert capabilities.payload.features["permission"] == "asks"
        prompt = await scene.prompt("text:hello think:hm")
        start = await scene.next("session.turn.start")
        assert start.metadata["prompt_id"] == prompt.payload.prompt_id
        assert start.payload.turn_index == 0
        end = await scene.next("session.turn.end")
        assert end.payload.stop_reason == "end_turn"
        assert scene.durable() == ["session.capabilities", "session.turn.start", "agent.text.done",
                                   "agent.thinking.done", "session.turn.end", "session.usage"]
        await scene.turn("text:again")
        assert [f.payload.turn_index for f in scene.all("session.turn.start")] == [0, 1]


@pytest.mark.req("A-5", "A-9")
@pytest.mark.parametrize(("decision", "outcome", "status"), [("allow", "allowed", "ok"), ("deny", "denied", "denied")])
async def test_a_tool_runs_only_after_a_grant(tmp_path: Path, decision: str, outcome: str, status: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        asked = await scene.next("agent.interaction.request")
        assert not (tmp_path / "made.txt").exists()
        await scene.answer(asked, decision)
        resolved = await scene.next("x-interlock.interaction.resolved")
        assert (resolved.payload.outcome, resolved.payload.by) == (outcome, "ada")
        result = await scene.next("tool.invoke.result")
        assert result.payload.status == status
        await scene.next("session.usage")
        assert (tmp_path / "made.txt").exists() == (decision == "allow")
        kinds = scene.durable()
        assert kinds.index("tool.invoke.request") < kinds.index("agent.interaction.request")


@pytest.mark.req("A-9")
async def test_a_request_with_only_always_options_is_denied_with_a_reason(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.turn("ask-always:made.txt")
        assert not (tmp_path / "made.txt").exists()
        assert scene.all("agent.interaction.request") == []
        assert "no way to allow" in scene.all("agent.error")[0].payload.message


@pytest.mark.req("A-9")
async def test_the_once_option_is_chosen_among_unusual_ones(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask-odd:made.txt")
        await scene.answer(await scene.next("agent.interaction.request"), "allow", option_id="always")
        await scene.next("session.usage")
        assert (tmp_path / "made.txt").exists()


@pytest.mark.req("A-5")
async def test_two_questions_wait_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask-two:one.txt:two.txt")
        first = await scene.next("agent.interaction.request")
        second = await scene.next("agent.interaction.request")
        await scene.answer(second, "allow")
        await scene.answer(first, "deny")
        await scene.next("session.usage")
        assert [(tmp_path / name).exists() for name in ("one.txt", "two.txt")] == [False, True]


@pytest.mark.req("A-5")
async def test_a_question_that_no_gateway_holds_is_denied(tmp_path: Path) -> None:
    async with stage(tmp_path, waits=Waits(held_s=0.05)) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        resolved = await scene.next("x-interlock.interaction.resolved")
        assert (resolved.payload.outcome, resolved.payload.by) == ("denied", "runner")
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-5")
async def test_a_held_question_survives_the_link_and_expires_by_itself(tmp_path: Path) -> None:
    async with stage(tmp_path, waits=Waits(held_s=0.05, slack_s=0.05)) as scene:
        scene.presence.set(False)
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        asked = await scene.next("agent.interaction.request")
        held = p.InteractionHeld(interaction_id=asked.payload.interaction_id, approval_id="apr", expires_in_ms=50)
        await scene.send("x-interlock.interaction.held", held)
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "expired"
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-5")
async def test_a_timeout_of_the_gateway_is_a_denial(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        asked = await scene.next("agent.interaction.request")
        await scene.send("control.interaction.timeout", p.InteractionTimeout(
            interaction_id=asked.payload.interaction_id))
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "expired"
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("T-1")
async def test_a_prompt_during_a_turn_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("wait")
        second = await scene.prompt("text:x")
        error = await scene.next("session.error")
        assert (error.payload.error_code, error.payload.fatal) == ("PROMPT_IN_PROGRESS", False)
        assert error.metadata["in_reply_to"] == second.message_id
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"


@pytest.mark.req("A-4", "T-3")
async def test_a_cancel_voids_open_questions_and_the_session_continues(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask-abandon:made.txt")
        await scene.next("agent.interaction.request")
        await scene.cancel()
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "void"
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert (await scene.turn("text:on")).payload.stop_reason == "end_turn"
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-5")
async def test_a_question_after_the_cancel_is_denied(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask-after-cancel:made.txt")
        await scene.next("session.turn.start")
        await scene.cancel()
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-2")
async def test_outside_a_turn_no_end_is_reported(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        assert (await scene.turn("deaf")).payload.stop_reason == "end_turn"
        assert (await ended(scene)).exit_code == 0
        assert len(scene.all("session.turn.end")) == 1


@pytest.mark.req("A-6")
async def test_an_unsupported_command_is_named(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        for kind, payload, feature in (
            ("control.session.compact", p.SessionCompact(request_id="r"), "context_compaction"),
            ("control.mode.switch", p.ModeSwitch(mode="plan"), "plan_mode"),
        ):
            await scene.send(kind, payload)
            error = await scene.next("session.error")
            assert (error.payload.error_code, error.payload.fatal) == ("UNSUPPORTED_CAPABILITY", False)
            assert feature in error.payload.message


@pytest.mark.req("A-4")
async def test_pause_stops_the_process_and_a_cancel_resumes_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("wait")
        await scene.send("control.turn.pause", p.TurnPause())
        states = [f.payload.state for f in scene.all("agent.state.changed")]
        await scene.next("agent.state.changed")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert "paused" in states or "paused" in [f.payload.state for f in scene.all("agent.state.changed")]


@pytest.mark.req("A-4")
async def test_an_idle_agent_is_closed(tmp_path: Path) -> None:
    async with stage(tmp_path, timeouts=SessionTimeouts(idle_s=0.05)) as scene:
        await scene.open("bad")
        assert "idle for too long" in (await ended(scene)).reason
        assert scene.sessions.live_agents() == []


@pytest.mark.req("A-7")
async def test_the_shell_agent_asks_runs_and_streams_output(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("shell")
        await scene.prompt("echo hi")
        asked = await scene.next("agent.interaction.request")
        assert asked.payload.context.tool_name == "shell"
        assert raw_input(scene.all("tool.invoke.request")[0]) == {"command": "echo hi"}
        await scene.answer(asked, "allow")
        result = await scene.next("tool.invoke.result")
        assert (result.payload.status, result.payload.output) == ("ok", "hi\n")
        end = await scene.next("session.turn.end")
        assert end.metadata["exit_code"] == 0
        await scene.prompt("exit 7")
        await scene.answer(await scene.next("agent.interaction.request"), "allow")
        end = await scene.next("session.turn.end")
        assert (end.payload.stop_reason, end.metadata["exit_code"]) == ("error", 7)


@pytest.mark.req("E-5")
async def test_an_input_too_large_to_show_is_denied(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        turn_writer, journal = await a_scribe(scene)
        big = b'"' + b"x" * 300_000 + b'"'
        answer = await turn_writer.ask(AgentQuestion("call", "write", "Write", big, [Option("y", "Yes", "allow_once")]))
        assert (answer.allow, answer.option_id) == (False, None)
        await journal.durable()
        reported = raw_input(scene.all("tool.invoke.request")[0])
        assert (reported["size"], reported["sha256"]) == (300_002, hashlib.sha256(big).hexdigest())
        assert scene.all("agent.error")[0].payload.error_code == "FRAME_TOO_LARGE"
        assert scene.all("agent.interaction.request") == []


async def a_scribe(scene: Stage) -> tuple[StoredTurnWriter, Journal]:
    """A turn that no agent drives."""
    await scene.outbox.open_session(scene.session_id, 0, b"")
    turn = TurnState(str(uuid.uuid4()), "p", 0)
    journal = Journal(scene.session_id, SessionState(turn=turn), scene.outflow, ManualClock(), secrets.token_bytes)
    start = journal.frame("session.turn.start", p.TurnStart(turn_id=turn.turn_id, turn_index=0), {"prompt_id": "p"})
    opened = journal.frame("session.capabilities", p.Capabilities(dps_version="x", features={}))
    await journal.write(opened, start)
    return StoredTurnWriter(journal, turn, Interactions(journal, scene.presence, Waits())), journal


@pytest.mark.req("D-3")
async def test_an_agent_waits_while_the_outbox_is_full(tmp_path: Path) -> None:
    async with stage(tmp_path, outbox=MemoryOutbox(limit_bytes=MIB), outbox_bytes=MIB) as scene:
        await scene.open("bad")
        await scene.prompt(f"flood:{3 * MIB}")
        while (frame := await scene.next("agent.text.done", "session.turn.end")).type != "session.turn.end":
            assert frame.seq is not None
            await scene.outbox.ack(scene.session_id, frame.seq, frame.message_id, 0)
            scene.outflow.acked(scene.session_id)
        row = await scene.outbox.session(scene.session_id)
        assert row is not None
        assert row.lost_frames == 0
        assert len(scene.text()) == 3 * MIB


@pytest.mark.req("T-1", "A-4")
async def test_a_prompt_during_a_close_is_sent_again(tmp_path: Path) -> None:
    async with stage(tmp_path, timeouts=QUICK) as scene:
        await scene.open("bad")
        await asyncio.gather(scene.sessions.all[scene.session_id].close("idle"), scene.prompt("text:x"))
        error = await scene.next("session.error")
        assert error.payload.error_code == "PROMPT_IN_PROGRESS"
        kinds = scene.durable()
        assert kinds.index("session.closed") < kinds.index("session.error")


@pytest.mark.req("A-10")
async def test_an_agent_that_is_configured_not_to_ask_is_reported_so(tmp_path: Path) -> None:
    async with stage(tmp_path, {"bad": misbehaving(asks=False)}) as scene:
        await scene.open("bad")
        reported = (await scene.next("session.capabilities")).payload.features
        assert (reported["permission"], reported["read_only"]) == ("never", False)
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        await scene.next("session.closed")
        await scene.send("control.session.open", p.SessionOpen(
            session_id=scene.session_id, agent_id="bad", workspace=str(tmp_path), workspace_access="ro"))
        assert (await scene.next("session.error")).payload.error_code == "WORKSPACE_REFUSED"
