"""Agents that use the protocol themselves: mapped, checked, and refused with the line's number (A-7)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import msgspec
import pytest

from interlock.agents.dps.spans import BlockSpan
from interlock.agents.process_end import SENTENCE
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.protocol.frames import InvalidFrame
from interlock.runner.turn.turn import SessionTimeouts
from runner.stage import Stage, stage

pytestmark = pytest.mark.anyio
DPS = Path(__file__).parent.parent / "dps_words.py"
QUICK = SessionTimeouts(cancel_s=0.2, end_s=0.2, drain_s=5)


def words(*start: str) -> dict[str, AgentSpec]:
    return {"dps": AgentSpec(adapter="dps", command=sys.executable, args=["-I", "-S", str(DPS), *start])}


def codes(scene: Stage) -> list[str]:
    return [frame.payload.error_code for frame in scene.all("agent.error", "session.error")]


# --- its start ---
@pytest.mark.req("A-6", "A-7")
async def test_the_agents_description_of_itself_is_reported(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        report = (await scene.next("session.capabilities")).payload
        assert (report.agent.name, report.agent.version, report.agent.model) == ("Words", "1", "none")
        assert report.features["permission"] == "asks"
        assert report.features["context_compaction"] is True
        assert report.features["pause"] == "signal"


@pytest.mark.req("A-10", "W-2")
@pytest.mark.parametrize(("start", "sentence"), [
    ("die", "exit code 3).\nno key"), ("never", "adapter `exec`"), ("odd", "pause"), ("version", "'rawp-dps-9.0'"),
    ("refuse", "log in first"),
])
async def test_an_incompatible_agent_is_not_started(start: str, sentence: str, tmp_path: Path) -> None:
    async with stage(tmp_path, words(start)) as scene:
        await scene.open("dps")
        error = (await scene.next("session.error")).payload
        assert (error.error_code, error.fatal) == ("AGENT_START_FAILED", True)
        assert sentence in error.message
        await scene.next("session.closed")


# --- its messages ---


@pytest.mark.req("E-4")
def test_a_span_never_removes_text() -> None:
    span = BlockSpan()
    assert span.grow(0, "añb") == "añb"
    assert span.grow(1, "ñbc") == "c"
    assert span.grow(0, "a") == ""
    for offset in (5, -1):
        with pytest.raises(InvalidFrame):
            span.grow(offset, "z")
    assert span.finish("añbcd") == "d"
    with pytest.raises(InvalidFrame):
        span.finish("another text")


@pytest.mark.req("E-1", "A-8")
@pytest.mark.parametrize(("word", "kept"), [("hole", "abc"), ("contradict", "abc")])
async def test_inconsistent_text_is_refused(word: str, kept: str, tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        assert (await scene.turn(word)).payload.stop_reason == "end_turn"
        assert scene.text() == kept
        assert codes(scene) == ["INVALID_FRAME"]


@pytest.mark.req("E-1")
async def test_unknown_events_are_relayed(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("text:a vendor text:b")
        vendor, mood = scene.all("x-acme.progress")[0], scene.all("agent.mood")[0]
        assert bytes(vendor.payload) == b'{"percent": 12}'
        assert vendor.metadata == {"colour": "red"}
        assert msgspec.json.decode(mood.payload) == {"mood": "fine", "new": [1]}
        assert vendor.seq is not None
        assert scene.text() == "ab"


@pytest.mark.req("T-4")
async def test_events_after_the_turns_end_belong_to_no_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("text:early after")
        await scene.turn("text:next")
        assert scene.text() == "earlynext"
        assert len(scene.all("session.compacted")) == 1  # It belongs to the session, not to a turn.


# --- tools and questions ---


# --- how its turns end ---


@pytest.mark.req("T-1", "T-2", "D-7")
async def test_a_query_continues_after_tool_use_in_a_new_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        assert (await scene.turn("text:first stop:tool_use")).payload.stop_reason == "tool_use"
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
        await scene.next("session.usage")
        first, second = scene.all("session.turn.start")
        assert [first.payload.turn_index, second.payload.turn_index] == [0, 1]
        assert first.metadata["prompt_id"] == second.metadata["prompt_id"]
        assert [frame.payload.text for frame in scene.all("agent.text.done")] == ["first", "more"]
        states = [frame.payload.state for frame in scene.all("agent.state.changed")]
        assert states.count("running") == 1  # Between the two the session is not idle (T-1).
        assert (await scene.turn("text:next")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-4", "T-1")
async def test_a_cancel_names_its_turn_and_is_obeyed(tmp_path: Path) -> None:
    async with stage(tmp_path, words(), timeouts=QUICK._replace(cancel_s=20)) as scene:
        await scene.open("dps")
        await scene.prompt("text:so wait")
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert (await scene.turn("text:still")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-2", "C-8")
async def test_an_exit_with_0_in_mid_turn_is_a_failure(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        end = await scene.turn("text:so exit:0")
        assert (end.payload.stop_reason, end.metadata["unanswered"]) == ("end_turn", True)
        await scene.next("session.closed")


@pytest.mark.req("A-2", "A-4")
async def test_an_agent_that_closes_its_output_and_lives_on_is_ended_with_that_reason(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        end = await scene.turn("text:so close-stdout")
        errors = [frame for frame in scene.all("agent.error") if frame.metadata.get("expected") is not True]
        assert [(frame.payload.error_code, frame.payload.message) for frame in errors] == [("PROCESS_EXIT", SENTENCE)]
        assert end.payload.stop_reason == "error"
        assert (await scene.next("session.closed")).payload.signal == signal.SIGTERM


@pytest.mark.req("A-6")
async def test_an_agent_that_can_pause_receives_a_pause(tmp_path: Path) -> None:
    async with stage(tmp_path, words("boundary")) as scene:
        await scene.open("dps")
        await scene.prompt("pause text:resumed")
        await scene.next("session.turn.start")
        await scene.send("control.turn.pause", p.TurnPause())
        await scene.next("agent.text.delta")
        await scene.send("control.turn.resume", p.TurnResume())
        await scene.next("session.usage")
        assert scene.text() == "paused;resumed"


# --- compaction and modes ---
@pytest.mark.req("T-6")
@pytest.mark.parametrize("trigger", ["auto", "manual"])
async def test_an_automatic_compaction_is_reported(trigger: str, tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn(f"compact:{trigger} compact:requested")
        report, = [frame.payload for frame in scene.all("session.compacted")]
        assert (report.trigger, report.previous_token_count, report.current_token_count) == (trigger, 900, 90)
        assert report.preserved_elements == {"files_modified": ["a.txt"]}
        assert codes(scene) == ["INVALID_FRAME"]


@pytest.mark.req("T-6", "A-6", "W-2")
async def test_a_requested_compaction_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        asked = await scene.send("control.session.compact", p.SessionCompact(request_id="r1"))
        report = await scene.next("session.compacted")
        assert (report.payload.trigger, report.metadata["in_reply_to"]) == ("requested", asked.message_id)
        states = [frame.payload.state for frame in scene.all("agent.state.changed")]
        assert "compacting" in states
        await scene.next("agent.state.changed")
        for instructions in ("fail", "long", "exit"):
            request = p.SessionCompact(request_id="r", instructions=instructions)
            asked = await scene.send("control.session.compact", request)
            error = await scene.next("session.error")
            assert (error.payload.error_code, error.metadata["in_reply_to"]) == ("COMPACTION_FAILED", asked.message_id)
            assert error.payload.fatal is False
            # The gateway learns at once that no frame carries the summary, and does not wait until its time is up.
            assert ("the limit is 786432" in error.payload.message) is (instructions == "long")
            if instructions != "exit":
                await scene.next("agent.state.changed")
        await scene.next("session.closed")


@pytest.mark.req("T-1", "T-6", "A-4")
async def test_nothing_else_starts_during_a_compaction_and_a_close_aborts_it(tmp_path: Path) -> None:
    async with stage(tmp_path, words(), timeouts=QUICK) as scene:
        await scene.open("dps")
        await scene.send("control.session.compact", p.SessionCompact(request_id="r1", instructions="hang"))
        await scene.prompt("text:no")
        assert (await scene.next("session.error")).payload.error_code == "PROMPT_IN_PROGRESS"
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        assert (await scene.next("session.error")).payload.error_code == "COMPACTION_FAILED"
        await scene.next("session.closed")


@pytest.mark.req("A-6")
async def test_a_mode_is_switched(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.send("control.mode.switch", p.ModeSwitch(mode="plan"))
        report = await scene.next("x-acme.mode")
        assert msgspec.json.decode(report.payload) == {"mode": "plan"}
