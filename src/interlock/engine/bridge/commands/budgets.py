"""Budgets in a lane (P-7): the usage that frames add, whether a budget is used up, and the question whether to
continue.

A budget never kills: the command pauses, or, if its agent cannot, its next yes and its next prompt are held. The
decision is applied in `budget_decisions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from interlock.command.card.lines import budget_title
from interlock.command.policy.budget import DAY_MS, BudgetRule, BudgetUse, Measure, Pot, dollars, grown, place_of
from interlock.command.policy.policy import duration_ms
from interlock.engine.bridge.approvals.approvals import open_approval
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.usage import count_cost
from interlock.ports.ledger import Add
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.records import ApprovalRecord, CommandRecord, SpendingRecord
from interlock.protocol.resources import BudgetHold, Notice, Quorum


class UsedUp(NamedTuple):
    """A used-up budget. Money is in micro-dollars."""

    budget: BudgetRule
    measure: Measure
    used: int
    limit: int
    amount: int
    """The amount that the config allows, and that each yes adds."""
    place: BudgetUse


def next_day_ms(now_ms: int) -> int:
    """Return the next midnight UTC, at which a day's pots start again."""
    return (now_ms // DAY_MS + 1) * DAY_MS


def covering(lane: Lane) -> list[BudgetRule]:
    """Return the budgets that count this session's work. If another gateway controls the session, it is counted there
    (D-5)."""
    state = lane.state
    if not lane.limits.budgets or state.controller:
        return []
    return [budget for budget in lane.limits.budgets
            if budget.covers(state.tenant_id, state.agent_id, state.session_id, state.session_key)]


def take_usage(lane: Lane, frame: Frame, usage: p.Usage, *, in_turn: bool) -> None:
    """Count usage that the agent reported: the turn's tokens so far, and the increase of the running total of money;
    then report what is left (rawp 7.3). Rows and frame are in one transaction."""
    state, tokens = lane.state, usage.token_usage
    if in_turn:
        state.count_tokens(max(state.turn_tokens, tokens.input_tokens + tokens.output_tokens))
    if usage.cost_usage.unit != "USD":
        return
    before = state.cost_usd if state.cost_told is None else state.cost_told
    total = usage.cost_usage.used
    spent = grown(before, total, estimated=frame.metadata.get("estimated") is True)
    if spent is None:
        return
    state.cost_told = total
    if spent <= 0:
        return
    state.cost_usd += spent / 1_000_000
    count_cost(lane, spent)
    counted = [budget for budget in covering(lane) if budget.day_micros is not None]
    for budget in counted:
        tenant_id, name, scope, day = _place(lane, budget)
        lane.out.writes.append(Add(SpendingRecord(tenant_id=tenant_id, budget=name, scope=scope, day=day,
                                                  spent_micros=spent)))
    if counted:
        _report_totals(lane, counted, usage)


def pot(lane: Lane, place: BudgetUse) -> Pot:
    """Return a pot, including the changes of this decision."""
    found = lane.spending.pot(place)
    for write in lane.out.writes:
        if isinstance(write, Add) and isinstance(write.record, SpendingRecord) and place_of(write.record) == place:
            found = found.plus(write.record)
    return found


def used_up(lane: Lane, *measures: Measure) -> Iterator[UsedUp]:
    """Yield the budgets that are used up, in the config's order."""
    for budget in covering(lane):
        place = _place(lane, budget)
        if budget.tokens_per_turn is not None and "tokens_per_turn" in measures:
            limit = budget.tokens_per_turn + lane.state.turn_raised.get(budget.name, 0)
            if lane.state.turn_tokens >= limit:
                yield UsedUp(budget, "tokens_per_turn", lane.state.turn_tokens, limit, budget.tokens_per_turn, place)
        if budget.day_micros is not None and "usd_per_day" in measures:
            spent, raised = pot(lane, place)
            if spent >= budget.day_micros + raised:
                yield UsedUp(budget, "usd_per_day", spent, budget.day_micros + raised, budget.day_micros, place)


def asked(lane: Lane) -> list[ApprovalRecord]:
    """Return the pending budget questions."""
    return [r for r in lane.approvals.values() if r.approval.budget is not None and r.approval.state == "pending"]


def begin_turn(lane: Lane) -> None:
    """Reset the turn's token count and the grants of the previous turn."""
    lane.state.reset_turn_budget()


def may_start(lane: Lane, record: CommandRecord) -> bool:
    """Return whether the day's money allows a prompt to be sent; if not, approvers are asked, once."""
    empty = list(used_up(lane, "usd_per_day"))
    for one in empty:
        _ask(lane, record, one)
    return not empty


def report_overrun(lane: Lane) -> None:
    """Notify viewers of each token budget that a turn exceeded without a question, because its agent reports tokens
    only at the end and could not be stopped."""
    record = lane.active
    if record is None:
        return
    being_asked = {one.approval.budget.name for one in asked(lane) if one.approval.budget is not None}
    for one in used_up(lane, "tokens_per_turn"):
        if one.budget.name not in being_asked and one.used > one.limit:
            lane.notice(Notice(code="BudgetOverrun", message=f"budget {one.budget.name}: the turn took {one.used} of "
                               f"{one.limit} tokens, and its agent reported them only when it had ended"))


def hold_turn(lane: Lane) -> None:
    """Pause the command whose turn has used up a budget, and ask whether to continue it."""
    record = lane.active
    if record is None or lane.state.machine.phase != "turn":
        return
    if record.command.state not in ("running", "pausing", "paused", "resuming"):
        return
    news = [one for one in used_up(lane, "tokens_per_turn", "usd_per_day") if _ask(lane, record, one)]
    if news and record.command.state == "running" and lane.state.features.get("pause", "none") != "none":
        lane.move(lane.commands[record.command.id], "pausing", SYSTEM, {"budget": news[0].budget.name})
        frame = lane.control("control.turn.pause", p.TurnPause(reason=f"budget {news[0].budget.name} is used up"))
        lane.state.note_pause(frame.message_id, for_budget=True)


def _ask(lane: Lane, record: CommandRecord, one: UsedUp) -> bool:
    """Open the question unless it is open already; returns whether it is new."""
    budget = one.budget
    if any(r.approval.budget is not None and (r.approval.budget.name, r.approval.budget.measure) ==
           (budget.name, one.measure) and r.approval.command_id == record.command.id for r in asked(lane)):
        return False
    words = dollars if one.measure == "usd_per_day" else str
    by_day = one.measure == "usd_per_day"
    hold = BudgetHold(
        name=budget.name, measure=one.measure, limit=words(one.limit), used=words(one.used),
        raise_by=words(one.amount), scope=one.place.scope, resets_at=iso(next_day_ms(lane.now)) if by_day else None,
    )
    open_approval(
        lane, door="command", title=budget_title(hold), input_bytes=msgspec.json.encode(hold),
        rule=f"budget:{budget.name}",
        required=budget.required, ttl_ms=duration_ms(budget.ttl) if budget.ttl else lane.limits.approval_ttl_ms,
        requested_by=record.command.actor, driver=record.driver, self_approval=budget.self_approval,
        command_id=record.command.id, groups=[Quorum(role=group.role, min=group.min) for group in budget.groups],
        budget=hold,
    )
    return True


def _place(lane: Lane, budget: BudgetRule) -> BudgetUse:
    state = lane.state
    return BudgetUse(state.tenant_id, budget.name, budget.scope(state.agent_id, state.session_id), lane.now // DAY_MS)


def _report_totals(lane: Lane, counted: list[BudgetRule], usage: p.Usage) -> None:
    """Send the gateway's own `session.usage`, with the pot that has the least left (rawp 7.3). A runner only displays
    it."""
    def left(budget: BudgetRule) -> tuple[int, int, int]:
        spent, raised = pot(lane, _place(lane, budget))
        limit = (budget.day_micros or 0) + raised
        return limit - spent, limit, spent

    _, limit, spent = min(map(left, counted))
    lane.control("session.usage", p.Usage(
        turn_id=usage.turn_id, token_usage=usage.token_usage,
        cost_usage=p.Quota(limit=limit / 1_000_000, used=spent / 1_000_000, unit="USD"),
        message_usage=usage.message_usage, context_window=usage.context_window,
        time_to_reset=iso(next_day_ms(lane.now)),
    ))
