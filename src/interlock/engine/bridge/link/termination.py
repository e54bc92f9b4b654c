"""The end of a session after a runner's fatal `session.error` (T-5, RAWP-DPS 7.4.1): turn, command, agent."""

from __future__ import annotations

from interlock.engine.bridge.commands.command_end import close_agent, end_canceled, fail
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.link.links import lose_agent
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.records import CommandRecord


def begin(lane: Lane, code: str, message: str) -> None:
    """Request that the runner ends the session. A command with an open turn fails with this error at the turn's end, so
    that its result holds the complete answer; any other fails now."""
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
        over(lane)


def fail_fatally(lane: Lane) -> bool:
    """End the active command with the fatal error, if there was one; returns whether there was."""
    record, error = lane.active, lane.state.fatal
    if record is None or error is None:
        return False
    _end(lane, record, error)
    return True


def _end(lane: Lane, record: CommandRecord, error: tuple[str, str]) -> None:
    if record.command.state == "canceling":
        end_canceled(lane, record)
    else:
        fail(lane, record, *error)


def over(lane: Lane) -> None:
    """Clear the state of the termination: the session is closed."""
    lane.state.end_closing()


def tick(lane: Lane) -> None:
    """Treat the session as lost if the runner does not close it in time. While the link is down the time restarts."""
    state = lane.state
    if state.close_deadline_ms is None or state.close_deadline_ms > lane.now:
        return
    if not state.attached:
        state.must_close_by(lane.now + CANCEL_FORCE_MS)
        return
    lose_agent(lane, "the session was not closed in time")
