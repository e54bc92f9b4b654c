"""A fatal `session.error` of the runner ends its session (T-5, RAWP-DPS 7.4.1): turn, command, agent."""

from __future__ import annotations

from interlock.engine.bridge.command_end import close_agent, end_canceled, fail
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.links import lose_agent
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.records import CommandRecord


def begin(lane: Lane, code: str, message: str) -> None:
    """Make the runner end the session. A command whose turn is open fails with this error at the turn's end, so that
    its result holds all of the answer; another one fails now."""
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
    """End the active command with the fatal error, if there was one; whether that is so."""
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
    """The session is closed."""
    lane.state.end_closing()


def tick(lane: Lane) -> None:
    """A runner that does not close the session in time has lost it. While the link is down the time begins again."""
    state = lane.state
    if state.close_deadline_ms is None or state.close_deadline_ms > lane.now:
        return
    if not state.attached:
        state.must_close_by(lane.now + CANCEL_FORCE_MS)
        return
    lose_agent(lane, "the session was not closed in time")
