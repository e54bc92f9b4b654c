"""The next instant at which time alone decides something in a lane."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.live import LiveCommands
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import PROGRESS_INTERVAL_MS
from interlock.protocol.records import ApprovalRecord


def next_deadline(state: LaneState, commands: LiveCommands, approvals: Iterable[ApprovalRecord]) -> int | None:
    """Milliseconds on the line that clocks run by; None where nothing waits."""
    first = commands.due_ms
    due = [first] if first is not None else []
    if state.orphan is not None:
        due.append(state.orphan.deadline_ms)
    if state.close_deadline_ms is not None:
        due.append(state.close_deadline_ms)
    if state.stage and state.stage != state.stage_told:  # A stage that was held back (S-5).
        record = commands.get(state.active or "")
        if record is not None and record.command.started_at is not None:
            due.append(state.percent_told_ms + PROGRESS_INTERVAL_MS)
    for record in approvals:
        if record.approval.state == "pending" or record.approval.verb is not None:
            due.append(record.expires_ms)
            if record.approval.budget is not None and record.approval.budget.resets_at is not None:
                due.append(parse_iso(record.approval.budget.resets_at))
    if state.context.pending is not None:
        due.append(state.context.pending.deadline_ms)
    return min(due, default=None)
