"""The state of a session, as `/status` returns it (V-1)."""

from __future__ import annotations

from interlock.engine.bridge.compaction import window
from interlock.engine.bridge.dispatch import queued
from interlock.engine.bridge.lane import Lane
from interlock.session.chat_words import ChatStatus


def lane_status(lane: Lane) -> ChatStatus:
    """What `/status` shows of a lane's session."""
    state, entry = lane.state, lane.state.entry
    waiting = [record for record in lane.commands.values() if record.command.type == "execute"]
    return ChatStatus(
        agent_id=state.agent_id, model=entry.model_override or state.model, state=lane.session_state(),
        session_key=state.session_key, session_id=state.session_id,
        age_ms=lane.wall - (entry.session_started_at or state.created_ms), input_tokens=state.input_tokens,
        output_tokens=state.output_tokens, cost_usd=state.cost_usd, context_tokens=state.context_tokens,
        context_estimated=state.context_estimated, context_window=window(lane), compactions=entry.compaction_count,
        running=int(state.active is not None), waiting=len(queued(lane)),
        asking=sum(record.command.state == "pending_approval" for record in waiting)
        + sum(one.approval.state == "pending" and one.approval.door == "tool" for one in lane.approvals.values()),
    )
