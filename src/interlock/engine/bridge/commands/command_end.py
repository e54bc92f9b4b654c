"""The end of a command, or its return to the queue, in one place, so that its result, event and audit record agree; the
end of its agent and of its session."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from interlock.command.machine import ACTIVE
from interlock.engine.bridge.commands import progress
from interlock.engine.bridge.commands.control_commands import end_holds, end_order
from interlock.engine.bridge.commands.denials import with_refused
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS, MAX_DISPATCH_ATTEMPTS
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import CommandState, Failure, Output, Result, StatusEvent

MAX_REASON_CHARS = 1_000
"""Length of a reason as sent to the runner: it must fit a frame (L-2)."""


def end_command(
    lane: Lane,
    record: CommandRecord,
    to: CommandState,
    who: dict[str, str],
    *,
    output: Output | None = None,
    error: tuple[str, str] | None = None,
) -> None:
    """Move a command into a terminal state with its result or error; its approvals and cancels end with it.

    The state event is the stream's last: a viewer that has seen it has seen everything.
    """
    command = record.command
    result = Result(ok=to == "succeeded", output=output) if output is not None else None
    failure = Failure(code=error[0], message=error[1]) if error is not None else None
    if result is not None:
        lane.status(StatusEvent(event="result", command_id=command.id, at=lane.at, ok=result.ok, output=output))
    if failure is not None:
        lane.status(StatusEvent(event="error", command_id=command.id, at=lane.at, code=failure.code,
                                message=failure.message))
    meta: dict[str, Any] = {"code": failure.code} if failure is not None else {}
    denials = command.denials
    if output is not None:
        meta |= lane.fold.digests(output)
        denials = with_refused(record, lane.fold.refused, lane.at)
    _void_approvals(lane, command.id)
    lane.move(
        record, to, who, meta, result=result, error=failure, denials=denials, queue_deadline_ms=None,
        cancel_deadline_ms=None, detach_deadline_ms=None, running_since_ms=None, approval_deadline_ms=None,
        pause_deadline_ms=None,
    )
    ran_here = lane.state.active == command.id
    if lane.state.active == command.id:
        lane.state.release()
        progress.reset(lane)
        lane.state.forget_noop()
    _finish_cancels(lane, command.id, to)
    end_holds(lane, command.id, ("Conflict", f"the command ended as {to} first"))
    if ran_here and record.close_after and not any(r.command.type == "execute" for r in lane.commands.values()):
        close_agent(lane, SYSTEM, "the command has ended")


def close_agent(lane: Lane, who: dict[str, str], reason: str) -> None:
    """Ask the runner to end the session's agent (A-4), if there is one."""
    if lane.state.opening in ("opening", "open"):
        lane.control("control.session.close", p.SessionClose(reason=reason[:MAX_REASON_CHARS]))
        lane.state.begin_closing()
        lane.audit("session_reset", who, {"reason": "close"}, personal={"reason": reason})


def terminate(lane: Lane, code: str, message: str) -> None:
    """Request that the runner ends the session after a fatal error (T-5, RAWP-DPS 7.4.1). A command with an open turn
    fails with this error at the turn's end, so that its result holds the complete answer; any other fails now."""
    state = lane.state
    state.note_error((code, message))
    state.note_fatal((code, message))
    if state.controller:
        return
    close_agent(lane, SYSTEM, f"{code}: {message}")
    if state.opening != "closed":
        state.must_close_by(lane.now + CANCEL_FORCE_MS)
    if state.machine.phase not in ("turn", "usage"):
        fail_fatally(lane)
    if state.opening == "closed":
        state.end_closing()


def fail_fatally(lane: Lane) -> bool:
    """End the active command with the session's fatal error, if there was one; returns whether there was."""
    record, error = lane.active, lane.state.fatal
    if record is None or error is None:
        return False
    if record.command.state == "canceling":
        end_canceled(lane, record)
    else:
        fail(lane, record, *error)
    return True


def fail(lane: Lane, record: CommandRecord, code: str, message: str, *, exit_code: int | None = None) -> None:
    """End a command as failed; if a cancel or a timeout was requested for it, end it as that instead."""
    if record.command.state == "canceling" and code in ("RUNNER_RESTARTED", "AgentLost", "SIGNAL_EXIT", "PROCESS_EXIT"):
        end_canceled(lane, record)
        return
    output = _turn_output(lane, record, exit_code) if record.command.started_at else None
    end_command(lane, record, "failed", SYSTEM, output=output, error=(code, message))


def files_not_allowed(by: str) -> str:
    """Return why an agent whose files configure it was not started; `by` denied it, or is the gateway if the question
    expired."""
    why = "no one allowed it in time" if by == SYSTEM["id"] else f"{by} did not allow it"
    return f"files in the workspace configure its agent, and {why}"


def end_canceled(lane: Lane, record: CommandRecord, reason: str = "") -> None:
    """End a command that was requested to stop: timed_out if the timer requested it, otherwise canceled (C-8).

    A turn also ends `cancelled` without a request from the gateway: its agent gave up, or its runner canceled it for
    `reason`.
    """
    own_reason = ""
    if record.command.state in ACTIVE and record.command.state != "canceling":
        own_reason = f": {reason}" if reason else ""
        by = record.canceled_by or ("its runner" if reason else "the agent or its runner")
        record = lane.move(record, "canceling", {"id": lane.state.runner_id, "role": "runner"},
                           canceled_by=by, running_since_ms=None)
    output = _turn_output(lane, record) if record.command.started_at else None
    if record.cancel_cause in ("timeout", "pause_ttl"):
        why = (f"it did not end within {record.command.timeout_ms / 1000:g} s" if record.cancel_cause == "timeout"
               else "it was paused for too long")
        error = ("Timeout", why)
        end_command(lane, record, "timed_out", SYSTEM, output=output, error=error)
        return
    if record.cancel_cause == "tampered":
        end_command(lane, record, "canceled", SYSTEM, output=output,
                    error=("Conflict", "its stored row differs from the audit record"))
        return
    by = record.canceled_by or "somebody"
    if record.cancel_cause == "workspace":
        end_command(lane, record, "canceled", SYSTEM, output=output, error=("Forbidden", files_not_allowed(by)))
        return
    if record.cancel_cause == "budget":
        why = "no one raised it in time" if by == SYSTEM["id"] else f"{by} did not let it go on"
        end_command(lane, record, "canceled", SYSTEM, output=output,
                    error=("QuotaExceeded", f"a budget is used up, and {why}"))
        return
    end_command(lane, record, "canceled", SYSTEM, output=output, error=("Canceled", f"canceled by {by}{own_reason}"))


def requeue(lane: Lane, record: CommandRecord, meta: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Return a command that the runner refused before its start to the queue (C-8)."""
    lane.state.release()
    if record.command.state == "canceling":
        end_canceled(lane, record)
    elif record.command.attempt >= MAX_DISPATCH_ATTEMPTS:
        fail(lane, record, "AgentLost", f"the runner refused the prompt {record.command.attempt} times")
    else:
        lane.move(record, "queued", SYSTEM, {"attempt": record.command.attempt, **meta}, prompt_id=None,
                  prompt_seq=None, queue_deadline_ms=lane.now + lane.limits.queue_ttl_ms, detach_deadline_ms=None)


def _turn_output(lane: Lane, record: CommandRecord, exit_code: int | None = None) -> Output:
    """Return the turn's output up to its end, however it ended."""
    return lane.fold.output(lane.state.session_id, record.command.notices, exit_code=exit_code)


def _void_approvals(lane: Lane, command_id: str) -> None:
    """Void the approvals of an ended command, even if its agent never reports it (P-6). A yes to a tool call stays
    until its runner reports the outcome."""
    for record in list(lane.approvals.values()):
        approval = record.approval
        if approval.command_id == command_id and (approval.door == "command" or approval.state == "pending"):
            lane.move_approval(record, "void", SYSTEM, decided_at=approval.decided_at or lane.at)


def await_end(lane: Lane, command_id: str, cancel_id: str) -> None:
    """Make a cancel wait for the command's end."""
    lane.state.cancels.setdefault(command_id, []).append(cancel_id)


def _finish_cancels(lane: Lane, command_id: str, to: CommandState) -> None:
    for cancel_id in lane.state.cancels.pop(command_id, []):
        late = ("Conflict", f"the command had ended as {to} before the cancel reached it")
        end_order(lane, cancel_id, None if to in ("canceled", "timed_out") else late)
