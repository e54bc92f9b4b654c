"""Pause and resume of a command (C-6): requests to the agent, its reports, and the clocks meanwhile (C-1)."""

from __future__ import annotations

from interlock.engine.bridge.approvals.approvals import restart_clock, stop_clock
from interlock.engine.bridge.commands.budgets import asked
from interlock.engine.bridge.commands.command_end import MAX_REASON_CHARS
from interlock.engine.bridge.commands.control_commands import (
    as_decided,
    await_agent,
    begin_order,
    end_holds,
    end_order,
    ordered,
)
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Command, CommandBody


def submit_pause(lane: Lane, principal: Principal, body: CommandBody) -> Command:
    """Accept a pause of a running command; it ends when the agent is paused. Raises Problem Conflict."""
    target = ordered(lane, body)
    if target.command.state != "running":
        raise Problem("Conflict", f"Command {target.command.id} is {target.command.state}; only a running one can be "
                      "paused")
    order = begin_order(lane, principal, body, target)
    await_agent(lane, target.command.id, order.command.id)
    lane.move(target, "pausing", principal.who)
    frame = lane.control("control.turn.pause", p.TurnPause(reason=body.reason and body.reason[:MAX_REASON_CHARS]))
    lane.state.note_pause(frame.message_id)
    return as_decided(lane, order.command.id)


def submit_resume(lane: Lane, principal: Principal, body: CommandBody) -> Command:
    """Accept a resume of a paused command; it ends when the agent works again. Raises Problem Conflict.

    A command that is still pausing continues at once: its agent may not reach a boundary for long.
    """
    target, who = ordered(lane, body), principal.who
    state = target.command.state
    if state not in ("paused", "pausing"):
        raise Problem("Conflict", f"Command {target.command.id} is {state}; only a paused one can be resumed")
    for hold in asked(lane):
        raise Problem("ApprovalRequired", f"{hold.approval.title} Approval {hold.approval.id} decides it",
                      approval_id=hold.approval.id,
                      hint=f"Vote on it: interlock approve {hold.approval.id}, or deny it to end the command.")
    order = begin_order(lane, principal, body, target)
    if state == "pausing":
        end_holds(lane, target.command.id, ("Conflict", "the command was resumed before its agent stood still"))
        lane.move(target, "running", who)
        restart_clock(lane)
    else:
        lane.move(target, "resuming", who, pause_deadline_ms=None)
    lane.control("control.turn.resume", p.TurnResume())
    if state == "pausing":
        end_order(lane, order.command.id)
    else:
        await_agent(lane, target.command.id, order.command.id)
    return as_decided(lane, order.command.id)


def agent_state(lane: Lane, change: p.StateChanged) -> None:
    """Handle `agent.state.changed`: pausing → paused, resuming → running; the timeout's clock follows (C-1)."""
    record = lane.active
    if record is None:
        return
    runner = {"id": lane.state.runner_id, "role": "runner"}
    if change.state == "paused" and record.command.state == "pausing":
        stop_clock(lane)
        # A command paused by a budget waits for the end of its question, which has a clock of its own.
        until_ms = None if lane.state.budget_pause else lane.now + lane.limits.pause_ttl_ms
        lane.move(lane.commands[record.command.id], "paused", runner, pause_deadline_ms=until_ms)
        end_holds(lane, record.command.id)
    elif change.state != "paused" and record.command.state == "resuming":
        lane.move(record, "running", runner)
        restart_clock(lane)
        end_holds(lane, record.command.id)


def pause_refused(lane: Lane, answered: object, code: str, sentence: str) -> bool:
    """Handle the runner's refusal of a pause, by message_id: the command continues (C-6). Returns False for another
    answer."""
    record = lane.active
    if not answered or answered != lane.state.pause_message_id:
        return False
    lane.state.forget_pause()
    if record is not None and record.command.state == "pausing":
        known = {"UNSUPPORTED_CAPABILITY": "UnsupportedCapability", "UNKNOWN_TURN": "Conflict"}
        end_holds(lane, record.command.id, (known.get(code, code), sentence))
        lane.move(record, "running", {"id": lane.state.runner_id, "role": "runner"}, {"code": code})
        restart_clock(lane)
    return True
