"""Submission of an execute: its checks, policy's decision, and what it waits for. Refusals are Problems, and change
nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from interlock.command.audit.record_seal import box_fact, target
from interlock.engine.bridge.approvals import held
from interlock.engine.bridge.approvals.policy_subjects import command_subject
from interlock.engine.bridge.commands.cancellation import submit_cancel
from interlock.engine.bridge.commands.command_door import ask_people
from interlock.engine.bridge.commands.dispatch import queued
from interlock.engine.bridge.commands.pause import submit_pause, submit_resume
from interlock.engine.bridge.commands.prompts import check_prompt, first_line, read_payload
from interlock.engine.bridge.commands.verbs import LaneVerb, under_policy, verb_body
from interlock.engine.bridge.inputs.people import CommandSubmitted, SentBy
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.staged_changes import check_staged
from interlock.protocol.hold import phrase
from interlock.protocol.limits import MAX_QUEUED_COMMANDS
from interlock.protocol.problems import Problem, malformed
from interlock.protocol.records import CommandRecord, Principal
from interlock.protocol.resources import Command, CommandBody, Notice, StatusEvent

UNSIGNED_RETRY_S = 5
"""The signer tries again this soon."""


_ORDERS: dict[str, Callable[[Lane, Principal, CommandBody], Command]] = {
    "pause": submit_pause, "resume": submit_resume,
}


def accept(lane: Lane, input_: CommandSubmitted) -> Command | Problem:
    """Accept a command of any type (C-0). Raises Problem."""
    body, principal = input_.body, input_.principal
    if body.type == "execute":
        return submit(lane, principal, body)
    if body.type == "cancel":  # A cancel needs no approval (C-2).
        return submit_cancel(lane, principal, body)
    order = _ORDERS[body.type]
    return under_policy(lane, lane.conditions.policy, LaneVerb(body.type, principal, verb_body(body)),
                        lambda: order(lane, principal, body))


def submit(lane: Lane, principal: Principal, body: CommandBody, origin: SentBy = "user") -> Command | Problem:
    """Accept an execute under the decision's conditions: a log that can be signed, and the agent's current offer.
    Raises Problem."""
    unsigned, offer = lane.conditions.unsigned, lane.conditions.offer
    if unsigned is not None:
        raise Problem("Unavailable", f"The audit log cannot be signed, so nothing new is started: {unsigned}",
                      headers={"Retry-After": str(UNSIGNED_RETRY_S)})
    if offer is not None and lane.state.opening == "closed":
        held.take_offer(lane.state, offer)
    return _submit(lane, principal, body, origin)


def _submit(lane: Lane, principal: Principal, body: CommandBody, origin: SentBy) -> Command | Problem:
    """Accept an execute: policy decides whether it waits for an approval or is queued (P-1, C-0).

    Raises Problem for a malformed command, which changes nothing; returns one for a denied command, which is
    audited.
    """
    lane.check_controlled()
    _check_access(lane, body)
    _check_not_archived(lane)
    if body.target.command_id is not None:
        raise malformed("/target/command_id", "an execute is about no other command",
                        hint="Name its session, or let a new one open.")
    raw = bytes(body.payload) if isinstance(body.payload, msgspec.Raw) else b""
    if not raw:
        raise malformed("/payload", "an execute needs a payload with messages")
    payload = read_payload(raw)
    check_prompt(payload)
    if payload.land:
        check_staged(lane)
    digest, who = hashlib.sha256(raw).hexdigest(), principal.who
    if len(lane.commands) >= MAX_QUEUED_COMMANDS and len(queued(lane)) >= MAX_QUEUED_COMMANDS:
        raise Problem("QuotaExceeded", f"{MAX_QUEUED_COMMANDS} commands already wait in this session")
    if body.on_busy == "reject":
        _refuse_busy(lane)
    on = command_subject(lane, principal.actor, principal.driver, origin, digest, lane.state.permission)
    verdict, by_asking, by_box = lane.conditions.policy.judge(on)
    if verdict.effect == "deny":
        lane.audit("reject", who, {"rule": verdict.rule, "digest": digest})
        return Problem("Forbidden", f"Policy rule {verdict.rule} denies it: {verdict.reason or 'no reason'}")
    required = body.approval.required if body.approval is not None else 0
    # A landing sends the agent nothing: approvers decide on its own question (H-17).
    asks = (verdict.effect == "ask" and not payload.land) or required > 0
    if not payload.land:
        lane.state.note_let_through("" if asks or lane.state.permission == "asks" else verdict.rule)
    needs_asking = by_asking and not asks and not payload.land
    needs_box = lane.state.expected_box if asks or (by_box and not payload.land) else None
    command = Command(
        id=lane.new_id("cmd"), created_at=lane.at, updated_at=lane.at, tenant_id=lane.state.tenant_id,
        actor=principal.actor, driver=principal.driver, type="execute", target=lane.state.target,
        state="pending_approval" if asks else "queued", timeout_ms=body.timeout_ms or lane.limits.timeout_ms,
        payload=msgspec.Raw(raw), payload_sha256=digest, priority=body.priority,
        idempotency_key=body.idempotency_key, reason=body.reason, on_busy=body.on_busy,
    )
    record = CommandRecord(command=command, session_id=lane.state.session_id, created_ms=lane.now,
                           close_after=body.close_session, origin=origin, driver=principal.driver,
                           needs_asking=needs_asking, needs_box=needs_box,
                           queue_deadline_ms=None if asks else lane.now + lane.limits.queue_ttl_ms)
    if asks:
        approval = ask_people(lane, record, on, verdict, required)
        record = msgspec.structs.replace(record, command=msgspec.structs.replace(command, approval_id=approval.id))
    lane.state.note_message(lane.wall, person=origin == "user")
    lane.state.first_line = lane.state.first_line or first_line(payload)
    kept = lane.keep(record, new=True)
    if lane.draining:
        notice = Notice(code="Draining", message="nothing new starts here until it is undrained; this waits")
        kept = lane.keep(msgspec.structs.replace(kept, command=msgspec.structs.replace(
            kept.command, notices=[*kept.command.notices, notice])))
        lane.status(StatusEvent(event="notice", command_id=kept.command.id, at=lane.at, notice=notice))
    lane.record_state(kept, None, who, {"rule": verdict.rule, "digest": digest, "target_sha256": target(kept),
                                     "held": phrase(lane.state.holding_now),
                                     **({"needs_asking": True} if needs_asking else {}),
                                     **({"needs_box": box_fact(needs_box)} if needs_box is not None else {})},
                    {"reason": body.reason})
    return kept.command


def _check_access(lane: Lane, body: CommandBody) -> None:
    """Check that the command requests the access that the session's agent was opened with. Raises Problem Conflict."""
    wanted, found = body.target.workspace_access, lane.state.workspace_access
    if wanted not in (None, found):
        raise Problem("Conflict", f"Session {lane.state.session_id} has workspace_access {found}, not {wanted}",
                      hint="Leave it out, or open another session.")


def _check_not_archived(lane: Lane) -> None:
    """Raise Problem Conflict if the session is archived."""
    if lane.state.entry.archived_at is not None:
        raise Problem("Conflict", f"The session {lane.state.session_id} is archived",
                      hint="Take it back with `interlock sessions restore`, or write to its key: that begins "
                           "a new session.")


def _refuse_busy(lane: Lane) -> None:
    """Apply `on_busy` reject: no other command may run or wait in the session (C-3). Raises Problem Conflict."""
    live = [r.command.id for r in lane.commands.values() if r.command.type == "execute"]
    if live:
        more = f" and {len(live) - 1} more" if live[1:] else ""  # Up to MAX_QUEUED_COMMANDS.
        raise Problem("Conflict", f"The session is busy with {live[0]}{more}",
                      hint="Send it again later, or with on_busy enqueue or interrupt.")
