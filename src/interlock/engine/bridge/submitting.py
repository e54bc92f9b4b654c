"""What a person or program asks of a session: execute, cancel, close. Refusals are Problems, and change nothing."""

from __future__ import annotations

import hashlib

import msgspec

from interlock.command.machine import IllegalMove
from interlock.command.policy import Policy, Subject
from interlock.engine.bridge.approving import open_approval
from interlock.engine.bridge.dispatch import queued, replace_prompt
from interlock.engine.bridge.ending import end_canceled
from interlock.engine.bridge.judging import quorums
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.prompts import prompt_content, read_payload
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS, MAX_QUEUED_COMMANDS
from interlock.protocol.problems import Problem
from interlock.protocol.records import CommandRecord, Principal
from interlock.protocol.resources import Command, CommandBody, Target

MAX_REASON_CHARS = 1_000
"""What of a reason travels to the runner: it must fit a frame (L-2)."""


def who_is(principal: Principal) -> dict[str, str]:
    """`who` of an audit record."""
    return {"id": f"{principal.actor.type}:{principal.actor.id}", "role": principal.role}


def submit_execute(lane: Lane, principal: Principal, body: CommandBody, policy: Policy) -> Command | Problem:
    """Take an execute: policy decides whether it waits for an approval or is queued (P-1, C-0).

    Raises Problem for what is malformed, which changes nothing; returns one for what policy denies, which is audited.
    """
    raw = bytes(body.payload) if isinstance(body.payload, msgspec.Raw) else b""
    if not raw:
        raise Problem("InvalidPayload", "/payload: an execute needs a payload with messages")
    tools = tuple(read_payload(raw).tools)
    prompt_content(raw)
    if len(queued(lane)) >= MAX_QUEUED_COMMANDS:
        raise Problem("QuotaExceeded", f"{MAX_QUEUED_COMMANDS} commands already wait in this session")
    verdict = policy.decide(
        Subject(door="command", tenant_id=lane.state.tenant_id, agent_id=lane.state.agent_id,
                origin=principal.actor.type, permission=lane.state.permission, at_ms=lane.now,
                command_type="execute", allowed_tools=tools, session_id=lane.state.session_id,
                cost_usd=lane.state.cost_usd, digest=hashlib.sha256(raw).hexdigest())
    )
    if verdict.effect == "deny":
        lane.audit("reject", who_is(principal), {"rule": verdict.rule, "digest": hashlib.sha256(raw).hexdigest()})
        return Problem("Forbidden", f"policy rule {verdict.rule} denies it: {verdict.reason or 'no reason given'}")
    required = body.approval.required if body.approval is not None else 0
    asks = verdict.effect == "ask" or required > 0
    command = Command(
        id=lane.new_id("cmd"), created_at=lane.at, updated_at=lane.at, tenant_id=lane.state.tenant_id,
        actor=principal.actor, type="execute", target=_target(lane), priority=body.priority,
        state="pending_approval" if asks else "queued", timeout_ms=body.timeout_ms or lane.limits.timeout_ms,
        payload=msgspec.Raw(raw), payload_sha256=hashlib.sha256(raw).hexdigest(),
        idempotency_key=body.idempotency_key, reason=body.reason,
    )
    record = CommandRecord(command=command, session_id=lane.state.session_id, created_ms=lane.now,
                           queue_deadline_ms=None if asks else lane.now + lane.limits.queue_ttl_ms)
    if asks:
        approval = open_approval(
            lane, door="command", title=f"run {lane.state.agent_id}", input_bytes=raw, rule=verdict.rule,
            required=max(verdict.required, required), ttl_ms=verdict.ttl_ms or lane.limits.approval_ttl_ms,
            command_id=command.id, requested_by=principal.actor, self_approval=verdict.self_approval,
            groups=quorums(verdict), deny_threshold=verdict.deny_threshold, signed=verdict.signed,
        )
        record = msgspec.structs.replace(record, command=msgspec.structs.replace(command, approval_id=approval.id))
    kept = lane.keep(record)
    lane.tell_state(kept, None, who_is(principal), {"rule": verdict.rule, "digest": kept.command.payload_sha256 or ""},
                    {"reason": body.reason})
    return kept.command


def submit_cancel(lane: Lane, principal: Principal, body: CommandBody) -> Command:
    """Take a cancel: a command of its own, needs no approval (C-2). Raises Problem Conflict for one that has ended."""
    target = _cancel_target(lane, body.target.command_id)
    who = who_is(principal)
    command = Command(
        id=lane.new_id("cmd"), created_at=lane.at, updated_at=lane.at, tenant_id=lane.state.tenant_id,
        actor=principal.actor, type="cancel", state="queued", timeout_ms=lane.limits.timeout_ms,
        target=msgspec.structs.replace(_target(lane), command_id=target.command.id),
        idempotency_key=body.idempotency_key, reason=body.reason,
    )
    record = lane.keep(CommandRecord(command=command, session_id=lane.state.session_id, created_ms=lane.now))
    lane.tell_state(record, None, who, {"target": target.command.id}, {"reason": body.reason})
    record = lane.move(record, "dispatched", who)
    lane.move(record, "running", who, started_at=lane.at)
    lane.state.cancels.setdefault(target.command.id, []).append(command.id)
    cancel_command(lane, target, who["id"], "cancel")
    return lane.commands[command.id].command if command.id in lane.commands else _ended(lane, command.id)


def cancel_command(lane: Lane, record: CommandRecord, by: str, cause: str) -> None:
    """Stop a command: at once before it was sent, else through its agent, by force after CANCEL_FORCE_MS."""
    state = record.command.state
    if state == "canceling":
        return
    record = msgspec.structs.replace(record, canceled_by=by, cancel_cause="timeout" if cause == "timeout" else "cancel")
    if state in ("pending_approval", "queued"):
        end_canceled(lane, record)
        return
    unconfirmed = record.prompt_seq is not None and record.prompt_seq > lane.state.control_acked
    record = lane.move(record, "canceling", {"id": by, "role": "system" if cause == "timeout" else "operator"},
                       {"cause": cause}, cancel_deadline_ms=lane.now + CANCEL_FORCE_MS, running_since_ms=None)
    if state == "dispatched" and not lane.state.attached and unconfirmed:
        replace_prompt(lane, record)
    lane.control("control.turn.cancel", p.TurnCancel(reason=cause, turn_id=record.command.turn_id))


def close_session(lane: Lane, who: dict[str, str], reason: str) -> None:
    """Close a session's agent. What runs in it is canceled first."""
    record = lane.active
    if record is not None:
        cancel_command(lane, record, who["id"], "cancel")
    if lane.state.opening in ("opening", "open"):
        lane.control("control.session.close", p.SessionClose(reason=reason[:MAX_REASON_CHARS]))
        lane.state.opening = "closing"
        lane.audit("session_reset", who, {"reason": "close"}, personal={"reason": reason})


def _cancel_target(lane: Lane, command_id: str | None) -> CommandRecord:
    if command_id is not None:
        record = lane.commands.get(command_id)
        if record is None or record.command.type != "execute":
            raise Problem("Conflict", f"command {command_id} has already ended, or is not an execute")
        return record
    live = [r for r in lane.commands.values() if r.command.type == "execute"]
    if len(live) != 1:
        named = ", ".join(r.command.id for r in live) or "none"
        raise Problem("Conflict", f"the session must have exactly one live execute to cancel; it has: {named}",
                      hint="Name one with target.command_id.")
    return live[0]


def _target(lane: Lane) -> Target:
    state = lane.state
    return Target(agent_id=state.agent_id, session_id=state.session_id, session_key=state.session_key,
                  runner_id=state.runner_id, workspace=state.workspace or None)


def _ended(lane: Lane, command_id: str) -> Command:
    """Read back a command that began and ended in this very decision."""
    for write in reversed(lane.out.writes):
        record = getattr(write, "record", None)
        if isinstance(record, CommandRecord) and record.command.id == command_id:
            return record.command
    raise IllegalMove("queued", "succeeded")

