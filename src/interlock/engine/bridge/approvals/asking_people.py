"""The question to a person after several failed compactions of a conversation (Z-4)."""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.approvals.approvals import open_approval
from interlock.engine.bridge.lane import Lane
from interlock.protocol.resources import Approval

RULE = "compaction failed"
MAX_REASON_CHARS = 500


def ask(lane: Lane, reason: str) -> None:
    """Open the question, once. No automatic compaction happens until it is answered."""
    context = lane.state.context
    if context.question in lane.approvals:
        return
    content = {"question": "The conversation could not be compacted. Answer with what its summary must keep, and it is "
                           "tried again; decline, and it stays as it is until somebody compacts it.",
               "failures": context.failures, "reason": reason[:MAX_REASON_CHARS]}
    approval = open_approval(
        lane, door="command", kind="question", title=f"compact the conversation: {reason[:MAX_REASON_CHARS]}",
        input_bytes=msgspec.json.encode(content), rule=RULE, required=1, ttl_ms=lane.limits.approval_ttl_ms,
        requested_by=None, self_approval=True)
    context.question = approval.id


def answered(lane: Lane, approval: Approval, text: str | None) -> None:
    """Apply the answer: a text starts another attempt with it, a decline leaves the context as it is."""
    context = lane.state.context
    if context.question != approval.id:
        return
    context.question, context.failures = "", 0
    if text is None:
        context.rests = True
    else:
        context.instructions = text
        state = lane.state
        if not context.due and state.compacting is None and state.active is None and state.attached \
                and state.opening == "open":
            context.due = "threshold"  # Otherwise the end of the next turn triggers it.


def look(lane: Lane) -> None:
    """Treat an expired question as declined."""
    context = lane.state.context
    if context.question and context.question not in lane.approvals:
        context.question, context.failures, context.rests = "", 0, True
