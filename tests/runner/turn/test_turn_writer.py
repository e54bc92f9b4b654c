"""The turn writer by itself: the fields of a subagent's calls."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.ports.agent import AgentFile, AgentQuestion, Option, TurnUsage
from interlock.ports.clock import Clock
from interlock.ports.outbox import OutboxWrite, TransientText
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_BLOCK_BYTES, MAX_OPEN_TOOLS, PLAN_STEP_CHARS, PLAN_STEPS_MAX
from interlock.runner.journal import Journal
from interlock.runner.session_state import SessionState, TurnState
from interlock.runner.turn.endings import usage
from interlock.runner.turn.interactions import Interactions, LivePresence
from interlock.runner.turn.turn_writer import StoredTurnWriter, TooManyOpenCalls
from runner.stage import NOW_MS, PATIENT

pytestmark = pytest.mark.anyio


class FrameRecorder:
    """A flow whose outbox is a list of frames."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.block_bytes = MAX_BLOCK_BYTES

    async def emit(self, *writes: OutboxWrite) -> None:
        self.frames += [write for write in writes if isinstance(write, Frame)]

    async def emit_delta(self, frame: Frame, piece: TransientText) -> None:
        self.frames.append(frame)

    async def flushed(self) -> None:
        return

    def forget(self, session_id: str) -> None:
        return


def beginning(kept: FrameRecorder) -> tuple[Journal, StoredTurnWriter]:
    journal = Journal("s-1", SessionState(), kept, ManualClock(), secrets.token_bytes)
    turn = journal.state.turn = TurnState(journal.new_uuid(), "p-1", NOW_MS)
    return journal, StoredTurnWriter(journal, turn, Interactions(journal, LivePresence(), PATIENT))


@pytest.mark.req("T-2", "P-7")
async def test_changed_totals_go_with_a_finished_block_and_no_cost_counts_twice() -> None:
    kept = FrameRecorder()
    journal, turn_writer = beginning(kept)
    journal.state.cost_usd = 1.0
    await turn_writer.text("one")
    await turn_writer.usage(TurnUsage(input_tokens=10, output_tokens=5, cost_usd=0.25))
    await turn_writer.tool_request("t1", "shell", b"{}")
    await turn_writer.tool_result("t1", "ok", "text", "")  # Nothing new was reported.
    await turn_writer.usage(TurnUsage(context_used=7))  # That alone is not worth a frame.
    await turn_writer.usage(TurnUsage(output_tokens=9, cost_usd=0.5))
    await turn_writer.text("two")
    await turn_writer.tool_request("t2", "shell", b"{}")
    turn = journal.state.turn
    assert turn is not None
    last = usage(journal, turn.turn_id, TurnUsage(input_tokens=10, output_tokens=9, cost_usd=0.75), crashed=False)
    reported = [frame.payload for frame in [*kept.frames, last] if frame.type == "session.usage"]
    figures = [(one.token_usage.output_tokens, one.cost_usage.used) for one in reported]
    assert figures == [(5, 1.25), (9, 1.5), (9, 1.75)]
    kinds = [frame.type for frame in kept.frames if not frame.type.endswith("delta")]
    assert kinds[:3] == ["agent.text.done", "session.usage", "tool.invoke.request"]


@pytest.mark.req("S-5")
async def test_progress_is_reported_in_whole_percents() -> None:
    kept = FrameRecorder()
    _, turn_writer = beginning(kept)
    for percent in (0.0, 0.4, 33.4, 33.3, 120.0, 100.0, -5.0):
        await turn_writer.progress(percent)
    assert [frame.payload.percent for frame in kept.frames] == [0, 33, 100, 0]


@pytest.mark.req("J-14")
async def test_a_changed_plan_is_written_up_to_the_size_of_a_frame() -> None:
    kept = FrameRecorder()
    _, turn_writer = beginning(kept)
    step = p.PlanStep(content="look", status="in_progress")
    for steps in ([step], [step], [step, p.PlanStep(content="x" * 10_000 + "\ud800")] + [step] * 200, []):
        await turn_writer.plan(steps)
    reported = [frame.payload for frame in kept.frames]
    assert [(len(plan.steps), plan.left_out) for plan in reported] == [(1, 0), (PLAN_STEPS_MAX, 102), (0, 0)]
    assert len(reported[1].steps[1].content) == PLAN_STEP_CHARS
    assert [frame.type for frame in kept.frames] == ["x-interlock.plan.changed"] * 3


@pytest.mark.req("A-7")
async def test_a_subagents_frames_name_their_parent() -> None:
    kept = FrameRecorder()
    journal = Journal("s-1", SessionState(), kept, ManualClock(), secrets.token_bytes)
    turn = TurnState(journal.new_uuid(), "p-1", NOW_MS)
    turn_writer = StoredTurnWriter(journal, turn, Interactions(journal, LivePresence(), PATIENT))
    await turn_writer.tool_request("t1", "Task", b'{"subagent_type": "Explore", "prompt": "look"}')
    await turn_writer.tool_request("t2", "Agent", b'{"prompt": "look deeper"}', parent_invocation_id="t1")
    await turn_writer.tool_request("t3", "Grep", b"[]", parent_invocation_id="t2", kind="search")
    await turn_writer.tool_output("t3", "stdout", "a.py")
    await turn_writer.tool_result("t3", "ok", "text", None)
    await turn_writer.tool_request("t4", "Grep", b"{}", parent_invocation_id="unknown")
    await turn_writer.tool_result("t1", "ok", "agent_result", "found")
    explore = {"agent_id": "Explore", "invocation_id": "t1"}
    deeper = [explore, {"agent_id": "Agent", "invocation_id": "t2"}]
    reported = [(f.type.rpartition(".")[2], f.payload.invocation_id, f.metadata) for f in kept.frames]
    assert reported == [
        ("request", "t1", {}),
        ("request", "t2", {"delegation_chain": [explore]}),
        ("request", "t3", {"delegation_chain": deeper, "kind": "search"}),
        ("stream", "t3", {"delegation_chain": deeper}),
        ("result", "t3", {"delegation_chain": deeper}),
        ("request", "t4", {}),
        ("result", "t1", {}),
    ]


@pytest.mark.req("Z-5")
async def test_text_of_a_silent_turn_is_marked_silent() -> None:
    kept = FrameRecorder()
    journal, turn_writer = beginning(kept)
    assert journal.state.turn is not None
    await turn_writer.text("aloud")
    journal.state.turn.silent = True
    await turn_writer.text(", then not")
    await turn_writer.finish("done")
    assert [frame.metadata for frame in kept.frames if frame.type == "agent.text.delta"] == [{}, {"silent": True}]


@pytest.mark.req("Z-5")
async def test_tools_of_a_silent_turn_are_marked_silent() -> None:
    kept = FrameRecorder()
    journal, turn_writer = beginning(kept)
    assert journal.state.turn is not None
    journal.state.turn.silent = True
    await turn_writer.tool_request("t1", "write", b"{}")
    await turn_writer.tool_output("t1", "stdout", "done")
    await turn_writer.tool_result("t1", "ok", "text", "done")
    assert [(frame.type, frame.metadata) for frame in kept.frames] == [
        (f"tool.invoke.{what}", {"silent": True}) for what in ("request", "stream", "result")]


@pytest.mark.req("Z-5", "E-5")
async def test_files_of_a_silent_turn_are_marked_silent() -> None:
    kept = FrameRecorder()
    journal, turn_writer = beginning(kept)
    assert journal.state.turn is not None
    journal.state.turn.silent = True
    await turn_writer.file(AgentFile("note.md", "text/markdown", b"what must last"))
    await turn_writer.tool_request("t1", "write", b"{}")
    await turn_writer.file(AgentFile("drawn.svg", "image/svg+xml", b"<svg/>"), "t1")
    files = [frame.metadata for frame in kept.frames if frame.type == "agent.file.transfer"]
    assert files == [{"silent": True}, {"silent": True, "invocation_id": "t1"}]


@pytest.mark.req("T-4", "E-5")
async def test_a_call_that_fails_because_of_a_cancel_is_cancelled() -> None:
    kept = FrameRecorder()
    _, turn_writer = beginning(kept)
    options = [Option("yes", "Yes", "allow_once"), Option("no", "No", "reject_once")]
    for name in ("failed", "runs", "ended"):
        await turn_writer.tool_request(name, "shell", b"{}")
    await turn_writer.tool_result("failed", "error", "text", "exited with 1")
    asking = asyncio.create_task(turn_writer.ask(AgentQuestion("waits", "shell", "ls", b"{}", options, "execute")))
    while not any(frame.type == "agent.interaction.request" for frame in kept.frames):
        await asyncio.sleep(0)
    await turn_writer.cancel("The turn was cancelled.")
    assert not (await asking).allow
    await turn_writer.tool_result("waits", "error", "text", "canceled before it ran")
    await turn_writer.tool_result("runs", "error", "text", "ended by SIGTERM")
    await turn_writer.tool_result("ended", "ok", "text", "done")
    results = {frame.payload.invocation_id: frame.payload.status for frame in kept.frames
               if frame.type == "tool.invoke.result"}
    assert results == {"failed": "error", "waits": "cancelled", "runs": "cancelled", "ended": "ok"}


@pytest.mark.req("T-4", "P-6")
async def test_a_call_that_was_denied_before_the_cancel_stays_denied() -> None:
    kept = FrameRecorder()
    journal, turn_writer = beginning(kept)
    # Without a way to allow it once, it is denied at once.
    await turn_writer.ask(AgentQuestion("c", "shell", "ls", b"{}", [], "execute"))
    await turn_writer.cancel("The turn was cancelled.")
    await journal.write(*await turn_writer.finish("cancelled"))
    assert kept.frames[-1].payload.status == "denied"


@pytest.mark.req("A-8", "T-4")
@pytest.mark.parametrize(("fits", "text"), [(MAX_OPEN_TOOLS, b"{}"), (64, b'"' + b"x" * 262_142 + b'"')])
async def test_an_agent_with_too_many_open_calls_gets_a_reason_and_no_more_calls(
    fits: int, text: bytes
) -> None:
    kept = FrameRecorder()
    _, turn_writer = beginning(kept)
    for number in range(fits):
        await turn_writer.tool_request(f"t{number}", "shell", text)
    with pytest.raises(TooManyOpenCalls):
        await turn_writer.tool_request("one more", "shell", text)
    assert [frame.type for frame in kept.frames].count("tool.invoke.request") == fits
    assert kept.frames[-1].payload.error_code == "FRAME_TOO_LARGE"

    await turn_writer.tool_result("t0", "ok", "text", "")
    await turn_writer.tool_request("one more", "shell", text)


class SetClock(Clock):
    """A clock that is set an hour forward or back, while a second passes."""

    def __init__(self) -> None:
        self.passed_ms = self.set_ms = 0

    def now_ms(self) -> int:
        return NOW_MS + self.passed_ms + self.set_ms

    def monotonic_ms(self) -> int:
        return self.passed_ms


@pytest.mark.req("T-2", "C-1")
@pytest.mark.parametrize("set_ms", [3_600_000, -3_600_000])
async def test_the_duration_of_a_call_is_the_time_that_passed_whatever_the_clock_is_set_to(set_ms: int) -> None:
    kept, clock = FrameRecorder(), SetClock()
    journal = Journal("s-1", SessionState(), kept, clock, secrets.token_bytes)
    turn = journal.state.turn = TurnState(journal.new_uuid(), "p-1", NOW_MS)
    turn_writer = StoredTurnWriter(journal, turn, Interactions(journal, LivePresence(), PATIENT))
    await turn_writer.tool_request("t1", "shell", b"{}")
    clock.passed_ms, clock.set_ms = 1_000, set_ms
    await turn_writer.tool_result("t1", "ok", "text", "")
    [result] = [frame.payload for frame in kept.frames if isinstance(frame.payload, p.ToolResult)]
    assert result.duration_ms == 1_000
