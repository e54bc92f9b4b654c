"""Rules for each decision of a lane: sentences about the first decision that violates one.

The invariants of a world report a failure long after it happened. These rules check one lane at each decision, and so a
log of its inputs can be shrunk by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from interlock.command.machine import AUDIT_ACTION, INITIAL, MOVES, TERMINAL
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.runner import FramesReceived, RunnerAttached, RunnerCompared
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.replay.input_log import LaneStart
from interlock.ports.ledger import Append, AuditAppend, PutApproval, PutCommand, PutControl
from interlock.protocol.identifiers import session_stream

REPEATED = "a frame is in the session's stream twice"
BROKE = "the lane broke"
WAY = "a command went a way that it must not go"
UNAUDITED = "a command's transitions and audit records differ"
UNGRANTED = "a tool was allowed without a yes"
NUMBERS = "control frames are not numbered one by one"


class LaneRules:
    """The rules over one lane, from its start. It is shown every decision."""

    def __init__(self, start: LaneStart) -> None:
        self.fault: str | None = None
        """The first thing that did not hold, as one of the sentences above; `about` names the object."""
        self.about = ""
        self._stream = session_stream(start.state.session_id)
        self._ids = set(start.recent)
        self._states = {one.command.id: one.command.state for one in start.commands}
        self._approvals = {one.approval.interaction_id: one.approval for one in start.approvals}
        self._control_seq = start.state.control_seq

    def look(self, lane: Lane, inputs: Sequence[LaneInput], failed: str = "") -> None:
        """Look at what a lane has just decided of `inputs`; `failed` is what was raised."""
        if self.fault is not None:
            return
        self._control_seq = max([self._control_seq, *map(_handled, inputs)])
        found = (BROKE, failed) if failed else next(self._faults(lane), None)
        if found is not None:
            self.fault, self.about = found

    def _faults(self, lane: Lane) -> Iterator[tuple[str, str]]:
        moved = audited = 0
        for write in lane.out.writes:
            match write:
                case Append(stream=self._stream, kind="C" | "refused", message_id=name) if name:
                    if name in self._ids:
                        yield REPEATED, name
                    self._ids.add(name)
                case PutCommand(record=record):
                    way = (self._states.get(record.command.id), record.command.state)
                    moved += way[0] != way[1]
                    if not _may_go(*way):
                        yield WAY, f"{record.command.id}: {way[0]} to {way[1]}"
                    self._states[record.command.id] = record.command.state
                case PutApproval(record=record):
                    self._approvals[record.approval.interaction_id] = record.approval
                case AuditAppend(draft=draft):
                    audited += draft.action in AUDIT_ACTION.values() and "to" in draft.meta \
                        and draft.approval_id is None and draft.command_id is not None
                case PutControl(record=record):
                    yield from self._sent(record.seq, record.body)
                case _:
                    pass
        if moved != audited:
            yield UNAUDITED, f"{moved} transitions, {audited} records"

    def _sent(self, seq: int, body: bytes) -> Iterator[tuple[str, str]]:
        if seq > self._control_seq + 1:
            yield NUMBERS, f"{seq} after {self._control_seq}"
        self._control_seq = max(seq, self._control_seq)
        frame: dict[str, Any] = msgspec.json.decode(body)
        payload = frame["payload"]
        if frame["type"] != "control.interaction.response" or payload["decision"] != "allow":
            return
        approval = self._approvals.get(payload["interaction_id"])
        if payload["by"].startswith("policy:"):
            return
        if approval is None or not any(vote.decision == "grant" for vote in approval.votes):
            yield UNGRANTED, payload["interaction_id"]


def _handled(given: LaneInput) -> int:
    """Return the number up to which the runner has control frames, by an input: a lane numbers after it.

    It is ahead of the lane's own if the ledger was restored, or if another gateway has had the session meanwhile: then
    the ledger refuses what the lane decides.
    """
    match given:
        case RunnerAttached(control_seq=seq):
            return seq
        case RunnerCompared(session=session) if session is not None:
            return session.control_seq
        case _:
            return 0


def _may_go(before: Any, after: Any) -> bool:
    if before is None:
        return after in INITIAL | {"queued", "running"}
    return before == after or (before not in TERMINAL and after in MOVES[before])


def shown(given: LaneInput) -> str:
    """Return an input in a line, for people."""
    if isinstance(given, FramesReceived):
        frames = ", ".join(f"{frame.type} {frame.seq} ({frame.message_id})" for frame, _ in given.run.entries)
        return f"FramesReceived after {given.after}: {frames}"
    text = repr(given)
    return text if len(text) <= 300 else f"{text[:300]}…"
