"""Approvals in a lane: opening them, and the effects of their decision or expiry (section 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.command.card.permission_request import PermissionRequest
from interlock.engine.bridge.commands.command_end import end_command
from interlock.engine.bridge.commands.denials import denial_of, keep_denial
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.ports.ledger import Put
from interlock.protocol import payloads as p
from interlock.protocol.box import LANDING
from interlock.protocol.clock import iso
from interlock.protocol.hold import PROGRAM, Holding
from interlock.protocol.limits import MAX_OPEN_APPROVAL_BYTES
from interlock.protocol.records import DEVICES, ApprovalRecord, CommandRecord, DeliveryRecord, Judged
from interlock.protocol.resources import Actor, Approval, ApprovalDoor, Delivery, OfferedOption


def open_approval(
    lane: Lane,
    *,
    door: ApprovalDoor,
    title: str,
    input_bytes: bytes,
    subject_bytes: bytes | None = None,
    rule: str,
    required: int,
    ttl_ms: int,
    requested_by: Actor | None,
    self_approval: bool,
    agent_id: str | None = None,
    holding: Holding | None = None,
    judged: Judged | None = None,
    **details: Any,
) -> Approval:
    """Open an approval on the SHA-256 of the bytes as received (P-2)."""
    approval = Approval(
        id=lane.new_id("apr"), tenant_id=lane.state.tenant_id, door=door, state="pending", created_at=lane.at,
        expires_at=iso(lane.wall + ttl_ms), title=title, runner_id=lane.state.runner_id or None,
        workspace=lane.state.workspace or None, session_id=lane.state.session_id, requested_by=requested_by,
        digest=hashlib.sha256(input_bytes if subject_bytes is None else subject_bytes).hexdigest(),
        input=msgspec.Raw(input_bytes), subject=msgspec.UNSET if subject_bytes is None else msgspec.Raw(subject_bytes),
        rule=rule, required=required,
        self_approval=self_approval, agent_id=lane.state.agent_id if agent_id is None else agent_id,
        holding=(holding or lane.state.holding_now) if agent_id is None else None,
        box=lane.state.expected_box if agent_id is None else None, **details,
    )
    record = lane.keep_approval(ApprovalRecord(approval=approval, expires_ms=lane.now + ttl_ms, judged=judged))
    lane.record_approval(record, SYSTEM)
    _ask_approvers(lane, approval)
    return approval


def has_room(lane: Lane, request: PermissionRequest, title: str, options: Sequence[OfferedOption]) -> bool:
    """Return whether the request fits in the memory of the session's open tool approvals."""
    size = _size(request.input, request.subject, title, options)
    opened = (record.approval for record in lane.approvals.values() if record.approval.door == "tool")
    taken = sum(_size(one.input, one.subject, one.title, one.options) for one in opened)
    return taken + size <= MAX_OPEN_APPROVAL_BYTES


def _size(input_json: bytes | msgspec.Raw, subject: bytes | msgspec.Raw | msgspec.UnsetType | None, title: str,
          options: Sequence[OfferedOption]) -> int:
    """Return the bytes and characters of a request, as an approval stores it."""
    covered = 0 if subject is None or subject is msgspec.UNSET else len(subject)
    return len(input_json) + covered + len(title) + sum(len(one.option_id) + len(one.label) for one in options)


def accepts_change(lane: Lane, tool_name: str | None, invocation_id: str | None) -> bool:
    """Return whether the agent of a tool call accepts another input than the one that it asked about (P-2). A held
    program's start cannot be changed: it is the box that asks about it, not the agent."""
    if tool_name == PROGRAM:
        return False
    return lane.state.features.get("updated_input") is True or (tool_name == LANDING and not invocation_id)


def _ask_approvers(lane: Lane, approval: Approval) -> None:
    """Queue one notice of an approval for each webhook of the tenant and for its approvers' browsers, in the
    transaction that opens the approval, so that none is missed (P-8, J-18)."""
    names = [name for tenant_id, name in lane.limits.webhooks if tenant_id == approval.tenant_id]
    for name in [*names, DEVICES] if lane.limits.push else names:
        delivery = Delivery(id=f"dlv_{approval.id.removeprefix('apr_')}_{name}", tenant_id=approval.tenant_id,
                            channel=name, approval_id=approval.id, state="pending", created_at=lane.at)
        lane.out.writes.append(Put(DeliveryRecord(delivery=delivery, due_ms=lane.now)))


def release(lane: Lane, approval: Approval, who: dict[str, str]) -> None:
    """Carry out an approval's decision at either door (section 3)."""
    allowed = approval.state == "granted"
    if approval.door == "tool" and approval.interaction_id is not None:
        changed = _changed_input(approval) if allowed else None
        hand_answer(lane, p.InteractionResponse(
            interaction_id=approval.interaction_id, decision="allow" if allowed else "deny", by=who["id"],
            message=approval.comment, updated_input=changed, option_id=approval.option_id))
        if not allowed:
            keep_denial(lane, approval.command_id, denial_of(approval, lane.at))
        restart_clock(lane)
        return
    record = lane.commands.get(approval.command_id or "")
    if record is None or record.command.state != "pending_approval":
        return
    if allowed:
        deadline_ms = lane.now + lane.limits.queue_ttl_ms
        lane.move(record, "queued", who, {"approval": approval.id}, queue_deadline_ms=deadline_ms)
    else:
        reason = f": {approval.comment}" if approval.comment else ""
        error = ("Forbidden", f"{approval.decided_by} did not allow it{reason}")
        end_command(lane, record, "rejected", who, error=error)


def _changed_input(approval: Approval) -> dict[str, Any] | None:
    """Return the input to use instead, if an approver changed it (P-2)."""
    return msgspec.json.decode(approval.input, type=dict[str, Any]) if approval.supersedes is not None else None


def hand_answer(lane: Lane, answer: p.InteractionResponse) -> None:
    """Answer the agent's question. If a budget is used up and the agent cannot pause, a yes waits (P-7), and the runner
    is sent the maximum time for it. The runner of an agent that can pause holds the answer itself."""
    hold = next((r for r in lane.approvals.values() if r.approval.budget is not None
                 and r.approval.state == "pending"), None)
    if answer.decision != "allow" or hold is None or lane.state.budget_pause:
        send_answer(lane, answer)
        return
    lane.state.hold_answer(answer)
    lane.control("x-interlock.interaction.held", p.InteractionHeld(
        interaction_id=answer.interaction_id, approval_id=hold.approval.id,
        expires_in_ms=max(1, hold.expires_ms - lane.now)))
    stop_clock(lane)


def send_answer(lane: Lane, answer: p.InteractionResponse) -> None:
    """Send the answer to the agent's question. After a yes, the runner may report that it allowed it (P-2)."""
    lane.control("control.interaction.response", answer)
    if answer.decision == "allow":
        lane.state.take_unallowed(answer.interaction_id)


def expire(lane: Lane, record: ApprovalRecord) -> None:
    """Deny an approval whose time is over (P-6)."""
    expired = lane.move_approval(record, "expired", SYSTEM, decided_at=lane.at).approval
    if expired.door == "tool" and expired.interaction_id is not None:
        lane.control("control.interaction.timeout", p.InteractionTimeout(interaction_id=expired.interaction_id))
        keep_denial(lane, expired.command_id, denial_of(expired, lane.at))
        restart_clock(lane)
        return
    command = lane.commands.get(expired.command_id or "")
    if command is not None and command.command.state == "pending_approval":
        error = ("ApprovalRequired", "no one approved it in time")
        end_command(lane, command, "expired", SYSTEM, error=error)


def deny_repeated(lane: Lane, interaction_id: str) -> None:
    """Deny the open question whose id a second question repeats: a runner distinguishes answers by the id only, and
    might apply a yes for one to the other (A-5, P-2)."""
    turn = lane.state.machine.turn
    if turn is None or interaction_id not in turn.interactions:
        return
    lane.state.drop_held_answer(interaction_id)
    lane.control("control.interaction.response", p.InteractionResponse(
        interaction_id=interaction_id, decision="deny", by=SYSTEM["id"],
        message="Two questions had this id at once, so both were denied."))
    for record in [r for r in lane.approvals.values() if r.approval.interaction_id == interaction_id]:
        if record.approval.state == "pending":
            lane.move_approval(record, "void", SYSTEM, decided_at=lane.at)
            restart_clock(lane)


def void_interactions(lane: Lane) -> None:
    """Void the approvals of tool calls whose turn is over (P-6)."""
    turn = lane.state.machine.turn
    for record in [r for r in lane.approvals.values() if r.approval.door == "tool"]:
        if turn is None or record.approval.interaction_id not in turn.interactions:
            lane.move_approval(record, "void", SYSTEM, decided_at=record.approval.decided_at or lane.at)


def stop_clock(lane: Lane) -> None:
    """Stop the command's timeout while an approval is pending (C-1)."""
    record = lane.active
    if record is None or record.running_since_ms is None or record.remaining_ms is None:
        return
    used = max(0, lane.now - record.running_since_ms)
    lane.keep(msgspec.structs.replace(record, running_since_ms=None, remaining_ms=max(1, record.remaining_ms - used)))


def restart_clock(lane: Lane) -> None:
    """Restart the command's timeout once no approval is pending (C-1)."""
    record: CommandRecord | None = lane.active
    waiting = any(r.approval.door == "tool" and r.approval.state == "pending" for r in lane.approvals.values())
    waiting = waiting or bool(lane.state.held_answers)
    if record is None or waiting or record.running_since_ms is not None:
        return
    if record.command.state not in ("running", "pausing"):
        return
    lane.keep(msgspec.structs.replace(record, running_since_ms=lane.now))
