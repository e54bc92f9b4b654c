"""Handle the gateway's own inputs to a lane."""

from __future__ import annotations

from typing import Any, NamedTuple

from interlock.engine.bridge import clocks, seals
from interlock.engine.bridge.approvals import workspace_trust
from interlock.engine.bridge.commands import budget_decisions
from interlock.engine.bridge.commands.dispatch import context_unreadable
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.context.context_state import Due
from interlock.engine.bridge.inputs import gateway as i
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.link import mismatch
from interlock.engine.bridge.link.ledger_restore import close_unstarted
from interlock.session.context.compaction_plan import CompactionSettings
from interlock.session.context.tokens import Calibration
from interlock.session.transfers import TransferRefused


class ContextView(NamedTuple):
    """A lane's view of what a compaction depends on."""

    tip: str | None
    due: Due
    wanted: bool
    agent_id: str
    settings: CompactionSettings
    window: int
    calibration: Calibration
    tokens: int | None
    instructions: str | None


def tick(lane: Lane, _input: i.ClockTicked) -> None:
    """Run everything that is due."""
    clocks.tick(lane)


def look(lane: Lane, _input: i.StartLooked) -> None:
    """Decide nothing: waiting work is checked after every decision."""


def review_budgets(lane: Lane, _input: i.BudgetsChanged) -> None:
    """Check the lane's work against its budgets again (P-7)."""
    budget_decisions.review(lane)


def review_trust(lane: Lane, _input: i.RulesChanged) -> None:
    """Answer questions about workspace files that a rule allows now (H-13)."""
    workspace_trust.review(lane, lane.conditions.policy)


def refuse_rows(lane: Lane, input_: i.RowsDiffered) -> None:
    """Void, cancel or fail what differs (H-5)."""
    mismatch.refuse(lane, input_.findings)


def refuse_seals(lane: Lane, input_: i.SealsBroken) -> None:
    """Send no frame that differs (H-5)."""
    seals.refuse(lane, input_.broken)


def close_all_unstarted(lane: Lane, _input: i.UnstartedClosed) -> list[str]:
    """Close commands that may have run already; returns their ids (C-7)."""
    return close_unstarted(lane)


def view(lane: Lane, _input: i.ContextViewed) -> ContextView:
    """Return what a compaction depends on."""
    context = lane.state.context
    return ContextView(context.leaf, context.due, False, lane.state.agent_id, lane.limits.compaction.settings,
                       compaction.window(lane), context.calibration, lane.state.context_tokens, context.instructions)


def give_up_context(lane: Lane, input_: i.ContextUnreadable) -> None:
    """Continue without a compaction; cancel the command that waits for an unreadable conversation."""
    compaction.nothing_to_do(lane, input_.sentence)
    if input_.lasting is not None:
        context_unreadable(lane, input_.lasting)


def looked(lane: Lane, input_: i.ContextLooked) -> bool:
    """Return whether the context is to be compacted now (Z-2)."""
    return compaction.looked(lane, input_.seen)


def prepare(lane: Lane, input_: i.ContextPrepared) -> None:
    """Store the context for the next prompt; if it is out of date, it is requested again."""
    if input_.prepared.leaf == lane.state.context.leaf:
        lane.keep_context(input_.prepared)


def drop_compaction(lane: Lane, input_: i.CompactionDropped) -> None:
    """Continue with the context as it is."""
    compaction.nothing_to_do(lane, input_.sentence)


def plan_compaction(lane: Lane, input_: i.CompactionPlanned) -> None:
    """Request the planned compaction, or append a hook's summary, if the compaction is still due (Z-4)."""
    request, summary = input_.request, input_.summary
    if lane.state.context.due != input_.due:
        return
    try:
        if summary is not None and request.cause != "overflow":
            compaction.supplied(lane, request, summary)
            return
        # During a turn the agent waits for it, also if a hook wrote the summary.
        fault = compaction.summary_fault(lane, summary, request.plan.tokens_summarised) if summary is not None else None
        if fault is not None:
            compaction.nothing_to_do(lane, f"the hook's answer was not taken: {fault}")
            return
        compaction.request(lane, request, input_.prepared, summary)
    except compaction.ConversationMoved:
        return  # It is planned again, since it is still due.
    except TransferRefused as refused:
        compaction.nothing_to_do(lane, str(refused))


HANDLERS: dict[type[Any], Any] = {
    i.ClockTicked: tick, i.StartLooked: look, i.BudgetsChanged: review_budgets, i.RulesChanged: review_trust,
    i.RowsDiffered: refuse_rows, i.SealsBroken: refuse_seals, i.UnstartedClosed: close_all_unstarted,
    i.ContextViewed: view, i.ContextUnreadable: give_up_context, i.ContextLooked: looked, i.ContextPrepared: prepare,
    i.CompactionDropped: drop_compaction, i.CompactionPlanned: plan_compaction,
}
