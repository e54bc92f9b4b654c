"""Apply the decision on a budget-exceeded approval (P-7): raise the limit, end the turn, or do nothing if the budget is
no longer used up: another approver raised it, a new day began, or the config allows more."""

from __future__ import annotations

from interlock.engine.bridge.approvals.approvals import restart_clock, send_answer
from interlock.engine.bridge.commands.budgets import UsedUp, asked, hold_turn, used_up
from interlock.engine.bridge.commands.cancellation import cancel_command
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.ports.ledger import Add
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.records import ApprovalRecord, SpendingRecord
from interlock.protocol.resources import Approval


def review(lane: Lane) -> None:
    """Check the running work against the current budgets."""
    for record in asked(lane):
        if _still(lane, record.approval) is None:
            lane.move_approval(record, "void", SYSTEM, decided_at=lane.at)
    hold_turn(lane)
    go_on(lane)


def decided(lane: Lane, approval: Approval, who: dict[str, str]) -> None:
    """Apply the decision on a budget question: raise the limit, or end the command."""
    if approval.state != "granted":
        _end(lane, approval, who)
        return
    one = _still(lane, approval)
    if one is not None:
        _raise(lane, one, approval, who)
    command = lane.commands.get(approval.command_id or "")
    if command is not None and command.command.state != "queued":  # For a waiting command, its dispatch uses the yes.
        lane.move_approval(lane.approvals[approval.id], "consumed", SYSTEM)
    review(lane)


def expired(lane: Lane, record: ApprovalRecord) -> None:
    """Treat an expired budget question as denied (P-6)."""
    moved = lane.move_approval(record, "expired", SYSTEM, decided_at=lane.at)
    _end(lane, moved.approval, SYSTEM)


def go_on(lane: Lane) -> None:
    """Continue the command once no budget holds it: its agent first, then the answers that were held (C-6)."""
    state, record = lane.state, lane.active
    if asked(lane) or not (state.budget_pause or state.held_answers):
        return
    if record is not None and state.budget_pause and record.command.state in ("pausing", "paused"):
        to = "running" if record.command.state == "pausing" else "resuming"
        lane.move(record, to, SYSTEM, {"budget": "raised"}, pause_deadline_ms=None)
        lane.control("control.turn.resume", p.TurnResume())
    turn = state.machine.turn
    for answer in state.end_budget_pause():
        if turn is not None and answer.interaction_id in turn.interactions:
            send_answer(lane, answer)
    restart_clock(lane)


def _still(lane: Lane, approval: Approval) -> UsedUp | None:
    hold = approval.budget
    assert hold is not None
    return next((one for one in used_up(lane, hold.measure) if one.budget.name == hold.name), None)


def _raise(lane: Lane, one: UsedUp, approval: Approval, who: dict[str, str]) -> None:
    """Raise the limit to the budget's amount beyond the current usage: for this turn, or for this day's pot."""
    by = one.used - one.limit + one.amount
    if one.measure == "usd_per_day":
        tenant_id, name, scope, day = one.place
        lane.out.writes.append(Add(SpendingRecord(tenant_id=tenant_id, budget=name, scope=scope, day=day,
                                                  raised_micros=by)))
    else:
        raised = lane.state.turn_raised
        raised[one.budget.name] = raised.get(one.budget.name, 0) + by
    unit = "micro_usd" if one.measure == "usd_per_day" else "tokens"
    lane.audit("policy_change", who, {"change": "budget_raised", "budget": one.budget.name, "measure": one.measure,
                                      "scope": one.place.scope, "unit": unit, "from": one.limit, "to": one.limit + by},
               command_id=approval.command_id, approval_id=approval.id)


def _end(lane: Lane, approval: Approval, who: dict[str, str]) -> None:
    record = lane.commands.get(approval.command_id or "")
    if record is None or record.command.state == "canceling":
        return
    hold = approval.budget
    assert hold is not None
    if record.command.state not in ("pending_approval", "queued"):
        sentence = f"budget {hold.name} is used up, and was not raised"
        lane.control("session.error", p.SessionError(error_code=Code.BUDGET_EXCEEDED, message=sentence, fatal=False))
    cancel_command(lane, record, who["id"], "budget")
    lane.state.end_budget_pause()
