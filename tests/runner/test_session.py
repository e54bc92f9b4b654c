"""Conversations between a gateway and one session of the runner."""

from __future__ import annotations

import asyncio
import copy
import gc
import hashlib
import secrets
import uuid
import weakref
from pathlib import Path

import pytest

from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.agent import AgentQuestion, Option
from interlock.protocol import payloads as p
from interlock.protocol.limits import MIB
from interlock.runner.interactions import Interactions, Waits
from interlock.runner.journal import Journal
from interlock.runner.session_context import Graces
from interlock.runner.state import SessionState, TurnState
from interlock.runner.turn_writer import TurnScribe
from runner.stage import NOW_MS, Stage, StillClock, misbehaving, program, raw_input, stage

pytestmark = pytest.mark.anyio
QUICK = Graces(cancel_s=0.2, end_s=0.2, drain_s=5, idle_s=900)


async def ended(scene: Stage) -> p.SessionClosed:
    return (await scene.next("session.closed")).payload


@pytest.mark.req("T-2", "T-3", "A-6")
async def test_a_turn_from_open_to_usage(tmp_path: Path) -> None:
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
async def test_a_tool_runs_after_a_yes_only(tmp_path: Path, decision: str, outcome: str, status: str) -> None:
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
async def test_only_always_options_are_a_no_with_a_reason(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.turn("ask-always:made.txt")
        assert not (tmp_path / "made.txt").exists()
        assert scene.all("agent.interaction.request") == []
        assert "no way to allow" in scene.all("agent.error")[0].payload.message


@pytest.mark.req("A-9")
async def test_the_once_option_is_taken_among_odd_ones(tmp_path: Path) -> None:
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
async def test_a_question_that_nobody_holds_is_denied(tmp_path: Path) -> None:
    async with stage(tmp_path, waits=Waits(held_s=0.05)) as scene:
        await scene.open("bad")
        await scene.prompt("ask:made.txt")
        resolved = await scene.next("x-interlock.interaction.resolved")
        assert (resolved.payload.outcome, resolved.payload.by) == ("denied", "runner")
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-5")
async def test_a_held_question_outlives_the_link_and_expires_by_itself(tmp_path: Path) -> None:
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
async def test_a_timeout_from_the_gateway_is_a_no(tmp_path: Path) -> None:
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
async def test_a_cancel_voids_what_waits_and_the_session_lives_on(tmp_path: Path) -> None:
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
async def test_a_question_after_the_cancel_is_a_no(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("ask-after-cancel:made.txt")
        await scene.next("session.turn.start")
        await scene.cancel()
        await scene.next("session.usage")
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.req("A-4", "A-2")
async def test_an_agent_that_ignores_a_cancel_is_terminated(tmp_path: Path) -> None:
    async with stage(tmp_path, graces=QUICK) as scene:
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
async def test_a_process_that_ends_in_mid_turn(tmp_path: Path, words: str, code: str | None, stop: str) -> None:
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


@pytest.mark.req("A-2")
async def test_outside_a_turn_no_end_is_made_up(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        assert (await scene.turn("deaf")).payload.stop_reason == "end_turn"
        assert (await ended(scene)).exit_code == 0
        assert len(scene.all("session.turn.end")) == 1


@pytest.mark.req("W-2", "A-1")
async def test_opens_that_fail_say_why(tmp_path: Path) -> None:
    agents = {"bad": misbehaving(), "login": misbehaving("--start=session-error"), "dies": misbehaving("--start=die"),
              "old": misbehaving("--start=version")}
    async with stage(tmp_path, agents) as scene:
        for agent_id, workspace, code, word in (
            ("nobody", None, "AGENT_START_FAILED", "no agent"),
            ("login", None, "AGENT_START_FAILED", "Authentication required"),
            ("dies", None, "AGENT_START_FAILED", "exit code 3"),
            ("old", None, "AGENT_START_FAILED", "version 99"),
            ("bad", "/", "WORKSPACE_REFUSED", "outside"),
        ):
            opened = await scene.open(agent_id, workspace)
            error = await scene.next("session.error")
            assert (error.payload.error_code, error.payload.fatal) == (code, True)
            assert error.metadata["in_reply_to"] == opened.message_id
            assert word in error.payload.message
            await scene.next("session.closed")


@pytest.mark.req("A-6")
async def test_what_an_agent_cannot_do_is_named(tmp_path: Path) -> None:
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


@pytest.mark.req("A-4")
async def test_pause_stops_the_process_and_a_cancel_wakes_it(tmp_path: Path) -> None:
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
    async with stage(tmp_path, graces=Graces(idle_s=0.05)) as scene:
        await scene.open("bad")
        assert "idle for too long" in (await ended(scene)).reason
        assert scene.sessions.vouch() == []


@pytest.mark.req("A-8")
async def test_a_line_above_the_cap_fails_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        end = await scene.turn("line:20000000")
        assert end.payload.stop_reason == "error"
        assert scene.all("agent.error")[0].payload.error_code == "FRAME_TOO_LARGE"


@pytest.mark.req("D-6", "D-7")
async def test_a_restart_closes_what_was_open(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        await before.open("bad")
        await before.prompt("text:so open-tool ask:made.txt")
        await before.next("agent.interaction.request")
        late = await before.store("control.prompt.request", p.PromptRequest(
            prompt_id="late", input_type="text", origin="user", text="x"))
        await before.outflow.flushed()
        # What the outbox holds at this instant is all that a killed runner leaves.
        outbox, machine = copy.deepcopy((before.outbox, before.machine))
        await before.cancel()
        await before.next("session.usage")
    async with stage(tmp_path, outbox=outbox, machine=machine) as after:
        kinds = after.durable()
        assert kinds[:3] == ["tool.invoke.result", "tool.invoke.result", "x-interlock.interaction.resolved"]
        assert after.all("x-interlock.interaction.resolved")[0].payload.outcome == "void"
        assert kinds.index("session.turn.end") + 1 == kinds.index("session.usage")
        assert kinds[-1] == "session.closed"
        errors = [f.payload for f in after.all("agent.error", "session.error")]
        assert {e.error_code for e in errors} == {"RUNNER_RESTARTED"}
        assert machine.phase == "closed"
        assert late.message_id in [f.metadata.get("in_reply_to") for f in after.all("session.error")]


@pytest.mark.req("D-6")
async def test_text_that_was_seen_survives_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        await before.open("bad")
        await before.prompt("think:hm text:seen wait")
        await before.next("agent.text.delta")
        await before.outflow.flushed()
        outbox, machine = copy.deepcopy((before.outbox, before.machine))
    async with stage(tmp_path, outbox=outbox, machine=machine) as after:
        done = after.all("agent.text.done")
        assert [(f.payload.text, f.metadata) for f in done] == [("seen", {"partial": True})]
        assert after.all("session.usage")[0].metadata == {"estimated": True}
        await after.sessions.recover()
        assert after.durable().count("session.turn.end") == 1


@pytest.mark.req("A-3", "A-10")
async def test_exec_starts_a_process_a_turn(tmp_path: Path) -> None:
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


@pytest.mark.req("A-7")
async def test_the_shell_agent_asks_runs_and_streams(tmp_path: Path) -> None:
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
        scribe, journal = await a_scribe(scene)
        big = b'"' + b"x" * 300_000 + b'"'
        answer = await scribe.ask(AgentQuestion("call", "write", "Write", big, [Option("y", "Yes", "allow_once")]))
        assert (answer.allow, answer.option_id) == (False, None)
        await journal.durable()
        told = raw_input(scene.all("tool.invoke.request")[0])
        assert (told["size"], told["sha256"]) == (300_002, hashlib.sha256(big).hexdigest())
        assert scene.all("agent.error")[0].payload.error_code == "FRAME_TOO_LARGE"
        assert scene.all("agent.interaction.request") == []


async def a_scribe(scene: Stage) -> tuple[TurnScribe, Journal]:
    """A turn that no agent drives."""
    await scene.outbox.open_session(scene.session_id, 0, b"")
    turn = TurnState(str(uuid.uuid4()), "p", 0)
    journal = Journal(scene.session_id, SessionState(turn=turn), scene.outflow, StillClock(), secrets.token_bytes)
    start = journal.frame("session.turn.start", p.TurnStart(turn_id=turn.turn_id, turn_index=0), {"prompt_id": "p"})
    opened = journal.frame("session.capabilities", p.Capabilities(dps_version="x", features={}))
    await journal.write(opened, start)
    return TurnScribe(journal, turn, Interactions(journal, scene.presence, Waits())), journal


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
async def test_a_prompt_that_meets_the_close_is_sent_again(tmp_path: Path) -> None:
    async with stage(tmp_path, graces=QUICK) as scene:
        await scene.open("bad")
        await asyncio.gather(scene.sessions.all[scene.session_id].close("idle"), scene.prompt("text:x"))
        error = await scene.next("session.error")
        assert error.payload.error_code == "PROMPT_IN_PROGRESS"
        kinds = scene.durable()
        assert kinds.index("session.closed") < kinds.index("session.error")


@pytest.mark.req("L-4", "D-5")
async def test_hello_forgets_what_is_closed_and_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        assert [(s.session_id, s.state) for s in await scene.sessions.hello_sessions()] == [
            (scene.session_id, "terminated")]
        await scene.outflow.flushed()
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, NOW_MS)
        assert await scene.sessions.hello_sessions() == []
        (forgotten,) = await scene.sessions.hello_forgotten()
        assert (forgotten.session_id, forgotten.acked_seq) == (scene.session_id, closed.seq)
        assert forgotten.control_seq > 0
        await scene.open("bad")
        assert await scene.sessions.hello_forgotten() == []
        reopened = await scene.next("session.capabilities")
        assert reopened.seq == (closed.seq or 0) + 1


@pytest.mark.req("L-4")
async def test_what_is_over_takes_no_memory_while_the_link_lasts(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("text:x")
        await scene.next("session.turn.end")
        await scene.sessions.forget_over()
        assert list(scene.sessions.all) == [scene.session_id]  # It is open.
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        await scene.sessions.forget_over()
        assert list(scene.sessions.all) == [scene.session_id]  # It is not wholly told.
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, 0)
        kept = weakref.ref(scene.sessions.all[scene.session_id])
        await scene.sessions.forget_over()
        assert scene.sessions.all == {}
        for _ in range(3):  # Tasks that ended let go of their frames at the loop's next turns.
            await asyncio.sleep(0)
        gc.collect()
        assert kept() is None, gc.get_referrers(kept())
        await scene.open("bad")
        reopened = await scene.next("session.capabilities")
        assert reopened.seq == (closed.seq or 0) + 1


@pytest.mark.req("L-4", "D-7")
async def test_a_frame_that_waits_while_its_session_is_forgotten_is_acted_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        await scene.outflow.flushed()
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, 0)
        await asyncio.gather(scene.sessions.forget_over(), scene.open("bad"))
        await scene.next("session.capabilities")
        assert [one.agent_id for one in scene.sessions.vouch()] == ["bad"]


@pytest.mark.req("T-5", "A-4")
async def test_a_fatal_error_from_the_gateway_ends_the_agent(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("wait")
        await scene.send("session.error", p.SessionError(error_code="INTERNAL", message="no more", fatal=True))
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert (await ended(scene)).reason == "no more"


@pytest.mark.req("E-1")
async def test_a_control_frame_of_an_unknown_type_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.dance", p.TurnPause(reason="x"))
        assert "control.dance" in (await scene.next("session.error")).payload.message
        assert (await scene.turn("text:on")).payload.stop_reason == "end_turn"


@pytest.mark.req("D-7")
async def test_an_open_that_a_kill_cut_off_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        opened = await before.store("control.session.open", p.SessionOpen(
            session_id=before.session_id, agent_id="bad", workspace="", workspace_access="rw"))
        outbox = copy.deepcopy(before.outbox)
    async with stage(tmp_path, outbox=outbox) as after:
        error, closed = after.all("session.error", "session.closed")
        assert (error.payload.error_code, error.payload.fatal) == ("RUNNER_RESTARTED", True)
        assert error.metadata["in_reply_to"] == opened.message_id
        assert closed.payload.reason == "the runner was restarted"


@pytest.mark.req("A-4", "T-3")
async def test_the_runners_end_breaks_off_a_start(tmp_path: Path) -> None:
    async with stage(tmp_path, {"slow": misbehaving("--start=hang")}) as scene:
        opening = asyncio.create_task(scene.open("slow"))
        session = None
        while session is None or not session.starting:
            await asyncio.sleep(0)
            session = scene.sessions.all.get(scene.session_id)
        await scene.sessions.close_all("the runner is stopping")
        await opening
        assert scene.durable() == ["session.error", "session.closed"]


@pytest.mark.req("L-5")
async def test_the_runner_vouches_for_living_agents_only(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert scene.sessions.vouch() == []
        await scene.open("bad")
        await scene.prompt("wait")
        start = await scene.next("session.turn.start")
        (vouched,) = scene.sessions.vouch()
        assert (vouched.agent_id, vouched.state, vouched.turn_id) == ("bad", "running", start.payload.turn_id)
        (told,) = await scene.sessions.hello_sessions()
        assert (told.turn_id, told.prompt_id) == (start.payload.turn_id, start.metadata["prompt_id"])


@pytest.mark.req("D-7", "W-2")
async def test_a_refused_control_frame_is_repeated_in_hello_until_its_answer_is_acknowledged(tmp_path: Path) -> None:
    async with stage(tmp_path) as played:
        prompt = await played.prompt("too early")
        answer = await played.next("session.error")
        (told,) = await played.sessions.hello_sessions("")
        (refusal,) = told.refused
        assert (refusal.message_id, refusal.error_code) == (prompt.message_id, "SESSION_NOT_FOUND")
        assert answer.metadata["in_reply_to"] == prompt.message_id
        assert told.control_seq == prompt.seq, "a refused one counts as stored"
        assert answer.seq is not None
        await played.outbox.ack(played.session_id, answer.seq, "", 0)
        assert not any(session.refused for session in await played.sessions.hello_sessions(""))


@pytest.mark.req("A-10")
async def test_an_agent_whose_config_says_that_it_does_not_ask_is_reported_so(tmp_path: Path) -> None:
    async with stage(tmp_path, {"bad": misbehaving(asks=False)}) as scene:
        await scene.open("bad")
        told = (await scene.next("session.capabilities")).payload.features
        assert (told["permission"], told["read_only"]) == ("never", False)
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        await scene.next("session.closed")
        await scene.send("control.session.open", p.SessionOpen(
            session_id=scene.session_id, agent_id="bad", workspace=str(tmp_path), workspace_access="ro"))
        assert (await scene.next("session.error")).payload.error_code == "WORKSPACE_REFUSED"
