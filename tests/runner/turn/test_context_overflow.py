"""An agent whose context is full: reported once, answered with a plan, and the turn continues with any outcome of the
plan."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.ports.agent import CompactionFailed
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.runner.turn.context_overflow import Overflow

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-2", "Z-4")]
PLAN = p.SessionCompact(request_id="r1", plan={})


class Notes:
    """A journal that records frames and resumes their waiters."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.wrote = asyncio.Event()

    def agent_error(self, severity: str, code: Code, sentence: str, turn_id: str) -> Frame:
        return self._frame("agent.error", (severity, code, sentence, turn_id))

    def session_error(self, code: Code, sentence: str, fatal: bool, reply_to: str) -> Frame:
        return self._frame("session.error", (code, sentence, fatal, reply_to))

    def frame(self, kind: str, payload: Any, metadata: dict[str, Any]) -> Frame:
        return Frame(type=kind, payload=payload, message_id="made", session_id="s", timestamp="", metadata=metadata)

    def state_changed(self, state: str) -> list[str]:
        return [state]

    async def write(self, *frames: Any) -> None:
        self.written += frames
        self.wrote.set()

    def _frame(self, kind: str, what: Any) -> Frame:
        return Frame(type=kind, payload=what, message_id=f"m{len(self.written)}", session_id="s", timestamp="")


def plan(message_id: str = "asked") -> Frame:
    return Frame(type="control.session.compact", payload=PLAN, message_id=message_id, session_id="s", timestamp="")


async def test_the_gateways_plan_is_returned_and_the_state_follows() -> None:
    notes = Notes()
    overflow = Overflow(notes, "t1")  # type: ignore[arg-type]
    waiting = asyncio.create_task(overflow.report_overflow("too long"))
    await notes.wrote.wait()

    assert overflow.take(plan(), PLAN)
    assert not overflow.take(plan("second"), PLAN)  # One plan answers one overflow.
    assert await waiting is PLAN
    assert notes.written[0].payload == ("warning", Code.CONTEXT_OVERFLOW, "too long", "t1")
    assert notes.written[1:] == ["compacting"]
    await overflow.report(CompactionFailed("no summary"))
    assert notes.written[2].payload == (Code.COMPACTION_FAILED, "no summary", False, "asked")
    assert notes.written[3:] == ["running"]


async def test_an_unexpected_plan_requests_a_compaction_outside_of_turns() -> None:
    assert not Overflow(Notes(), "t1").take(plan(), PLAN)  # type: ignore[arg-type]


async def test_a_gateway_without_a_plan_or_an_answer_ends_the_wait() -> None:
    notes = Notes()
    overflow = Overflow(notes, "t1")  # type: ignore[arg-type]
    waiting = asyncio.create_task(overflow.report_overflow("too long"))
    await notes.wrote.wait()
    error = p.SessionError(error_code="COMPACTION_FAILED", message="nothing to compact", fatal=False)
    answer = plan()
    answer.metadata["in_reply_to"] = "another"
    overflow.refused(answer, error)
    assert not waiting.done()
    answer.metadata["in_reply_to"] = notes.written[0].message_id
    overflow.refused(answer, error)
    with pytest.raises(CompactionFailed, match="nothing to compact"):
        await waiting

    with pytest.raises(CompactionFailed, match="did not send a compaction plan"):
        await Overflow(Notes(), "t1", wait_s=0.001).report_overflow("too long")  # type: ignore[arg-type]
