"""A compaction that the gateway requests is always answered: with a report, or the reason of its failure (T-1, T-6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.ports.agent import CompactionFailed, TurnUsage
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_FRAME_BYTES
from interlock.runner.turn.compaction import compact, reported

pytestmark = [pytest.mark.anyio, pytest.mark.req("T-6")]
ASKED = Frame(type="control.session.compact", payload=p.SessionCompact(request_id="r"), message_id="asked",
              session_id="s", timestamp="")


def made(summary: str = "short") -> p.Compacted:
    return p.Compacted(summary=summary, previous_token_count=10, current_token_count=3, preserved_elements=[],
                       trigger="requested", request_id="r")


class Notes:
    """A journal that notes what is written."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def frame(self, kind: str, payload: Any, metadata: dict[str, Any]) -> Frame:
        return Frame(type=kind, payload=payload, message_id="made", session_id="s", timestamp="", metadata=metadata)

    def session_error(self, code: Code, sentence: str, fatal: bool, reply_to: str) -> Any:
        return ("error", code, sentence, fatal, reply_to)

    def state_changed(self, state: str) -> list[str]:
        return [state]

    async def write(self, *frames: Any) -> None:
        self.written += frames


class Agent:
    """Compacts as scripted by the test."""

    def __init__(self, does: Callable[[], p.Compacted]) -> None:
        self._does = does

    async def compact(self, _request: p.SessionCompact, _usage: Callable[[TurnUsage], None]) -> p.Compacted:
        return self._does()


def failing(error: Exception) -> Callable[[], p.Compacted]:
    def fail() -> p.Compacted:
        raise error

    return fail


async def answer(does: Callable[[], p.Compacted]) -> list[Any]:
    notes: Any = Notes()
    await compact(Agent(does), notes, ASKED, ASKED.payload)
    return notes.written


async def test_a_report_between_the_two_states_answers_the_request() -> None:
    first, frame, last = await answer(made)

    assert (first, last) == ("compacting", "idle")
    assert (frame.type, frame.metadata) == ("session.compacted", {"in_reply_to": "asked"})


@pytest.mark.parametrize(("error", "sentence"), [
    (CompactionFailed("it is too short"), "it is too short"),
    (KeyError("x"), "Interlock's adapter for this agent failed")])
async def test_a_failure_of_the_agent_and_a_defect_of_its_adapter_are_answered_too(
        error: Exception, sentence: str) -> None:
    _, (kind, code, message, fatal, reply_to), last = await answer(failing(error))

    assert (kind, code, fatal, reply_to, last) == ("error", Code.COMPACTION_FAILED, False, "asked", "idle")
    assert sentence in message


async def test_a_cancel_is_answered_before_the_session_continues() -> None:
    notes: Any = Notes()

    async def cancelled(_request: Any, _usage: Any) -> p.Compacted:
        raise KeyboardInterrupt

    agent: Any = Agent(made)
    agent.compact = cancelled
    with pytest.raises(KeyboardInterrupt):
        await compact(agent, notes, ASKED, ASKED.payload)
    assert notes.written[1][2] == "The session was closed before the agent had compacted its context."


async def test_a_summary_larger_than_a_frame_is_a_reported_failure() -> None:
    notes: Any = Notes()
    with pytest.raises(CompactionFailed, match="cannot be sent"):
        reported(notes, made("x" * MAX_FRAME_BYTES), "asked")
    assert reported(notes, made(), "asked").payload.summary == "short"
