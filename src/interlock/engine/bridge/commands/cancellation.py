"""Stopping commands: a cancel, an interrupt, a session's close (C-2, C-3)."""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.commands.command_end import await_end, close_agent, end_canceled
from interlock.engine.bridge.commands.control_commands import as_decided, begin_order, ordered
from interlock.engine.bridge.commands.dispatch import queued, replace_prompt
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.records import CancelCause, CommandRecord, Principal
from interlock.protocol.resources import Command, CommandBody


def submit_cancel(lane: Lane, principal: Principal, body: CommandBody) -> Command:
    """Accept a cancel, which is a command itself and needs no approval (C-2). Raises Problem Conflict if its target has
    ended."""
    target = ordered(lane, body)
    order = begin_order(lane, principal, body, target)
    await_end(lane, target.command.id, order.command.id)
    cancel_command(lane, target, principal.who["id"], "cancel")
    return as_decided(lane, order.command.id)


def cancel_command(lane: Lane, record: CommandRecord, by: str, cause: CancelCause) -> None:
    """Stop a command: at once if it was not sent yet, otherwise through its agent, by force after CANCEL_FORCE_MS."""
    state = record.command.state
    if state == "canceling":
        return
    record = msgspec.structs.replace(record, canceled_by=by, cancel_cause=cause)
    if state in ("pending_approval", "queued"):
        end_canceled(lane, record)
        return
    unconfirmed = record.prompt_seq is not None and record.prompt_seq > lane.state.control_acked
    role = "operator" if cause == "cancel" else "system"
    record = lane.move(record, "canceling", {"id": by, "role": role}, {"cause": cause},
                       cancel_deadline_ms=lane.now + CANCEL_FORCE_MS, running_since_ms=None, pause_deadline_ms=None)
    if state == "dispatched" and not lane.state.attached and unconfirmed:
        replace_prompt(lane, record)
    lane.control("control.turn.cancel", p.TurnCancel(reason=cause, turn_id=record.command.turn_id))


def interrupt(lane: Lane) -> None:
    """End the running command for a waiting execute with `on_busy` interrupt, once that may run itself (C-3)."""
    record = lane.active
    if record is None or record.command.state == "canceling" or lane.draining:
        return
    waiting = next((r for r in queued(lane) if r.command.on_busy == "interrupt"), None)
    if waiting is not None:
        actor = waiting.command.actor
        cancel_command(lane, record, f"{actor.type}:{actor.id}", "cancel")


def close_session(lane: Lane, who: dict[str, str], reason: str) -> None:
    """Close a session's agent. Running and waiting commands are canceled first: an abandoned command must not open the
    agent again. Raises Problem."""
    stop_all(lane, who)
    close_agent(lane, who, reason)


def stop_all(lane: Lane, who: dict[str, str]) -> int:
    """Cancel the waiting and the running commands; returns their number. The waiting ones are first, so that none
    starts. Raises Problem."""
    lane.check_controlled()
    stopped = [*queued(lane), *(r for r in lane.commands.values() if r.command.state == "pending_approval")]
    if lane.active is not None and lane.active.command.state != "canceling":
        stopped.append(lane.active)
    for record in stopped:
        cancel_command(lane, record, who["id"], "cancel")
    return len(stopped)
