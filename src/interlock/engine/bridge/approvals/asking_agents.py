"""Requests to a session that are not commands: the answer to its agent's question, a compaction (C-8, T-6)."""

from __future__ import annotations

from interlock.command.approval import too_late
from interlock.engine.bridge.approvals import asking_people
from interlock.engine.bridge.approvals.approvals import restart_clock, send_answer
from interlock.engine.bridge.commands.dispatch import open_session
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem, malformed
from interlock.protocol.records import ApprovalRecord, Principal
from interlock.protocol.resources import Approval

MAX_ANSWER_CHARS = 32_000
"""An answer is sent to the agent in one frame (L-2)."""
MAX_INSTRUCTIONS_CHARS = 8_000
ANSWER_UNUSED = "this answer was not taken"


def answer(lane: Lane, principal: Principal, record: ApprovalRecord, text: str | None) -> Approval:
    """Answer an agent's question in words, or decline it with None (C-8). There is no quorum: the first answer counts.
    Raises Problem."""
    lane.check_controlled()
    approval_id = record.approval.id
    if record.approval.state != "pending":
        raise Problem("Conflict", too_late(record.approval, ANSWER_UNUSED))
    if record.approval.kind != "question":
        raise Problem("Conflict", f"{approval_id} asks for a permission, not for words",
                      hint="Vote on it with POST /v1/approvals/{id}/grants.")
    if text is not None and not text.strip():
        raise malformed("/text", "an answer has words; null declines to answer")
    if len(text or "") > MAX_ANSWER_CHARS:
        raise malformed("/text", f"an answer has at most {MAX_ANSWER_CHARS} characters")
    who = principal.who
    moved = lane.move_approval(record, "denied" if text is None else "granted", who, decided_at=lane.at,
                               decided_by=who["id"], answer=text).approval
    if moved.interaction_id is None:  # The gateway's own question.
        asking_people.answered(lane, moved, text)
        return moved
    send_answer(lane, p.InteractionResponse(
        interaction_id=moved.interaction_id, decision="deny" if text is None else "allow", by=who["id"], answer=text))
    restart_clock(lane)
    return moved


def check_compact(lane: Lane, instructions: str | None) -> None:
    """Raise Problem if the session's context cannot be compacted now."""
    lane.check_controlled()
    state = lane.state
    if len(instructions or "") > MAX_INSTRUCTIONS_CHARS:
        raise malformed("/instructions", f"at most {MAX_INSTRUCTIONS_CHARS} characters")
    if state.active is not None or compaction.at_work(lane) or state.machine.phase in ("turn", "usage"):
        raise Problem("Conflict", f"Session {state.session_id} is at work; compact it when it rests")
    if not state.attached or state.opening == "closing" or state.orphan is not None:
        raise Problem("Conflict", f"The agent of session {state.session_id} cannot be reached now",
                      hint="See `interlock status` for its runner.")
    if state.turn_start_n == 0:
        raise Problem("Conflict", f"The agent of session {state.session_id} has not worked yet, so it holds nothing to "
                      "compact", hint="Send it a prompt first.")
    if state.features.get("context_compaction") is not True:
        raise Problem("UnsupportedCapability", f"Agent {state.agent_id} does not offer context_compaction")


def compact(lane: Lane, principal: Principal, instructions: str | None) -> compaction.RequestedCompaction:
    """Request that the session's agent compacts its own context (T-6); it answers with `session.compacted` or
    `session.error`. Raises Problem."""
    state = lane.state
    check_compact(lane, instructions)
    if state.opening == "closed":
        open_session(lane)
    request_id = lane.new_uuid()
    frame = lane.control("control.session.compact", p.SessionCompact(request_id=request_id, instructions=instructions))
    compaction.sent_as(lane, frame.message_id)
    compaction.wait_for(lane, request_id, principal.who, instructions)
    lane.audit("compact", principal.who, {"request": request_id})
    return compaction.RequestedCompaction(request_id, frame.message_id, state.n)


def compact_again(lane: Lane) -> None:
    """Resend the request of a compaction whose agent was not started, now that its files are allowed (H-13)."""
    pending = compaction.waiting_for_trust(lane)
    if pending is None:
        return
    pending.waits_for_trust = False
    if not lane.state.attached:
        compaction.failed(lane, "the agent's runner was not there when its files were allowed; compact it again")
        return
    open_session(lane)
    frame = lane.control("control.session.compact", p.SessionCompact(
        request_id=pending.request_id, instructions=pending.instructions))
    compaction.sent_as(lane, frame.message_id)
    pending.deadline_ms = lane.now + compaction.COMPACT_TIMEOUT_MS
