"""The lane's kernel: `decide` turns inputs into a changed lane and its effects, without side effects.

A decision depends on the lane, the inputs and the conditions only, so a log of them yields the same lane and the same
effects again (`input_replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from interlock.engine.bridge.clocks import expire_overdue
from interlock.engine.bridge.commands.cancellation import interrupt
from interlock.engine.bridge.commands.dispatch import dispatch_next
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.handlers import chats, gateway, people, runner, transcripts
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.seals import seal
from interlock.ports.ledger import LedgerWrite
from interlock.protocol.problems import Problem

HANDLERS: Mapping[type[Any], Callable[[Lane, Any], Any]] = {
    **runner.HANDLERS, **gateway.HANDLERS, **people.HANDLERS, **chats.HANDLERS, **transcripts.HANDLERS,
}
"""The handler of each input."""

Kept = Callable[[int, Any], Sequence[LedgerWrite]]
"""Returns what is stored with the answer to the input at an index; not called if the answer is None or a Problem."""


class Decide(Protocol):
    """`decide`, or a wrapper that records or changes it."""

    def __call__(self, lane: Lane, inputs: Sequence[LaneInput], conditions: Conditions, kept: Kept) -> list[Any]: ...


def decide(lane: Lane, inputs: Sequence[LaneInput], conditions: Conditions, kept: Kept) -> list[Any]:
    """Decide inputs together: change the lane, leave the effects in `lane.out`, and return the answers in order.

    An answer is a Problem if its input was refused. Any other exception leaves the lane in an unknown state: it must be
    discarded.
    """
    lane.begin(conditions)
    lane.advance_to(0)
    if lane.approvals:
        expire_overdue(lane)
    answers = [apply(lane, input_, at, kept) for at, input_ in enumerate(inputs)]
    lane.advance_to(len(inputs))
    if lane.commands.interrupting:
        interrupt(lane)
    if lane.state.active is None:
        dispatch_next(lane)
    if lane.out.writes and lane.is_session:
        seal(lane)
        lane.out.writes.append(lane.snapshot())
    return answers


def apply(lane: Lane, input_: LaneInput, at: int, kept: Kept) -> Any:
    """Apply one input of a decision; returns its answer."""
    lane.advance_to(at)
    written = len(lane.out.writes)
    try:
        answer = HANDLERS[type(input_)](lane, input_)
    except Problem as problem:
        if len(lane.out.writes) != written:
            raise
        return problem
    if answer is not None and not isinstance(answer, Problem) and (rows := kept(at, answer)):
        lane.store_with_answer(rows)
    return answer
