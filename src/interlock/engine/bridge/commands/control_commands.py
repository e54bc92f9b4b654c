"""Control commands about another command: cancel, pause, resume (C-2). How they start and end."""

from __future__ import annotations

import msgspec

from interlock.command.machine import TERMINAL
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem, malformed
from interlock.protocol.records import CommandRecord, Principal
from interlock.protocol.resources import Command, CommandBody, Failure, Output, Result, StatusEvent


def ordered(lane: Lane, body: CommandBody) -> CommandRecord:
    """Return the execute that a control command is about: the one it names, otherwise the session's only live one.
    Raises Problem."""
    lane.check_controlled()
    if body.approval is not None and body.approval.required > 0:
        raise malformed("/approval", f"a {body.type} does not wait for an approval that it asks for itself",
                        hint="A rule of policy that names its type holds a pause or a resume; a cancel is never held.")
    command_id = body.target.command_id
    if command_id is not None:
        record = lane.commands.get(command_id)
        if record is None or record.command.type != "execute":
            raise Problem("Conflict", f"Command {command_id} has already ended, or is not an execute")
        return record
    live = [r for r in lane.commands.values() if r.command.type == "execute"]
    if len(live) != 1:
        named = ", ".join(r.command.id for r in live) or "none"
        raise Problem("Conflict", f"The session must have exactly one live execute to {body.type}; it has: {named}",
                      hint="Name one with target.command_id.")
    return live[0]


def begin_order(lane: Lane, principal: Principal, body: CommandBody, about: CommandRecord) -> CommandRecord:
    """Start a control command; it ends when its effect has happened, or cannot happen."""
    who = principal.who
    command = Command(
        id=lane.new_id("cmd"), created_at=lane.at, updated_at=lane.at, tenant_id=lane.state.tenant_id,
        actor=principal.actor, type=body.type, state="queued", timeout_ms=lane.limits.timeout_ms,
        target=msgspec.structs.replace(lane.state.target, command_id=about.command.id),
        idempotency_key=body.idempotency_key, reason=body.reason,
    )
    record = lane.keep(CommandRecord(command=command, session_id=lane.state.session_id, created_ms=lane.now))
    lane.record_state(record, None, who, {"target": about.command.id}, {"reason": body.reason})
    record = lane.move(record, "dispatched", who)
    return lane.move(record, "running", who, started_at=lane.at)


def end_order(lane: Lane, order_id: str, error: tuple[str, str] | None = None) -> None:
    """End a control command as succeeded, or as failed with code and sentence. Does nothing if it has ended."""
    record = lane.commands.get(order_id)
    if record is None or record.command.state in TERMINAL:
        return
    if error is None:
        result = Result(ok=True, output=Output(output=[], session_id=lane.state.session_id))
        lane.status(StatusEvent(event="result", command_id=order_id, at=lane.at, ok=True, output=result.output))
        lane.move(record, "succeeded", SYSTEM, result=result)
        return
    failure = Failure(code=error[0], message=error[1])
    lane.status(StatusEvent(event="error", command_id=order_id, at=lane.at, code=failure.code,
                            message=failure.message))
    lane.move(record, "failed", SYSTEM, {"code": failure.code}, error=failure)


def await_agent(lane: Lane, command_id: str, order_id: str) -> None:
    """Make a pause or a resume wait for the report of the command's agent."""
    lane.state.holds.setdefault(command_id, []).append(order_id)


def end_holds(lane: Lane, command_id: str, error: tuple[str, str] | None = None) -> None:
    """End all pauses and resumes that wait for this command."""
    for order_id in lane.state.holds.pop(command_id, []):
        end_order(lane, order_id, error)


def as_decided(lane: Lane, command_id: str) -> Command:
    """Return a command including the changes of this decision, even if it has ended in it."""
    record = lane.commands.get(command_id)
    if record is not None:
        return record.command
    for write in reversed(lane.out.writes):
        kept = getattr(write, "record", None)
        if isinstance(kept, CommandRecord) and kept.command.id == command_id:
            return kept.command
    raise AssertionError(f"{command_id} was not decided here")


def release_session(lane: Lane, who: dict[str, str], to: str) -> None:
    """Request that the runner passes control to another gateway; it reports when it has (D-5). Raises Problem."""
    lane.check_controlled()
    if to == lane.gateway_id:
        raise Problem("Conflict", f"Gateway {to} is this one, and controls the session already")
    lane.control("control.session.release", p.SessionRelease(to=to))
    lane.audit("session_reset", who, {"reason": "release", "to": to})
