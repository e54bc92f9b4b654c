"""The next instant at which time alone decides something in a lane."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import ApprovalRecord, CommandRecord


def next_deadline(state: LaneState, commands: Iterable[CommandRecord], approvals: Iterable[ApprovalRecord]
                  ) -> int | None:
    """Milliseconds on the line that clocks run by; None where nothing waits."""
    due: list[int] = []
    for record in commands:
        due += [at for at in (record.queue_deadline_ms, record.cancel_deadline_ms, record.detach_deadline_ms,
                              record.pause_deadline_ms)
                if at is not None]
        if record.running_since_ms is not None and record.remaining_ms is not None:
            due.append(record.running_since_ms + record.remaining_ms)
    for record in approvals:
        if record.approval.state == "pending" or record.approval.verb is not None:
            due.append(record.expires_ms)
            if record.approval.budget is not None and record.approval.budget.resets_at is not None:
                due.append(parse_iso(record.approval.budget.resets_at))
    if state.context.pending is not None:
        due.append(state.context.pending.deadline_ms)
    return min(due, default=None)
