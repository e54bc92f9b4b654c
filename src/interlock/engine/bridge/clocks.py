"""Decisions of a lane that only time triggers (C-1, P-6): each clock has its own field and its own effect."""

from __future__ import annotations

from collections.abc import Callable

from interlock.engine.bridge.approvals import workspace_trust
from interlock.engine.bridge.approvals.approvals import expire
from interlock.engine.bridge.commands import budget_decisions, progress
from interlock.engine.bridge.commands.cancellation import cancel_command
from interlock.engine.bridge.commands.command_end import end_canceled, end_command, fail
from interlock.engine.bridge.commands.dispatch import replace_prompt
from interlock.engine.bridge.commands.verbs import lapse
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.link import links, orphans
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.records import ApprovalRecord, CommandRecord


def expire_overdue(lane: Lane) -> None:
    """End the expired approvals, before any input is decided: a timer is late if the host slept, the gateway was down
    or is busy, and a vote after the deadline does not count (P-6)."""
    for record in [r for r in lane.approvals.values() if r.approval.state == "pending"]:
        if record.expires_ms <= lane.now:
            _expiry(record)(lane, record)


def tick(lane: Lane) -> None:
    """Run everything that is due at the lane's current time, except `expire_overdue`."""
    lapse(lane)
    for record in list(lane.commands.values()):
        if record.command.id in lane.commands:
            _tick_command(lane, record)
    links.tick(lane)
    orphans.tick(lane)
    links.close_overdue(lane)
    progress.report(lane)
    compaction.tick(lane)
    budget_decisions.review(lane)


def _expiry(record: ApprovalRecord) -> Callable[[Lane, ApprovalRecord], None]:
    """Return the function that ends an approval at its deadline."""
    if record.approval.workspace_files:
        return workspace_trust.expired
    return expire if record.approval.budget is None else budget_decisions.expired


def _tick_command(lane: Lane, record: CommandRecord) -> None:
    now = lane.now
    if record.queue_deadline_ms is not None and record.queue_deadline_ms <= now and record.command.state == "queued":
        end_command(lane, record, "expired", SYSTEM, error=("Timeout", "it was not started in time"))
    elif record.cancel_deadline_ms is not None and record.cancel_deadline_ms <= now:
        if lane.state.opening in ("opening", "open"):
            lane.control("control.session.close", p.SessionClose(reason="the cancel was not obeyed"))
            lane.state.begin_closing()
            lane.state.must_close_by(now + CANCEL_FORCE_MS)
        end_canceled(lane, record)
    elif record.detach_deadline_ms is not None and record.detach_deadline_ms <= now:
        _give_up(lane, record)
        fail(lane, record, "AgentLost", "the runner did not come back in time")
    elif (
        record.running_since_ms is not None
        and record.remaining_ms is not None
        and record.running_since_ms + record.remaining_ms <= now
        and record.command.state in ("running", "pausing", "resuming")
    ):
        cancel_command(lane, record, "gateway", "timeout")
    elif record.pause_deadline_ms is not None and record.pause_deadline_ms <= now:
        cancel_command(lane, record, "gateway", "pause_ttl")


def _give_up(lane: Lane, record: CommandRecord) -> None:
    """Ensure that a failed command does not run when its runner returns: neither its prompt nor the rest of its
    turn."""
    if record.command.state == "canceling":
        return
    if record.command.started_at is None and (record.prompt_seq or 0) > lane.state.control_acked:
        replace_prompt(lane, record)
    lane.control("control.turn.cancel", p.TurnCancel(reason="the runner was away for too long",
                                                     turn_id=record.command.turn_id))
