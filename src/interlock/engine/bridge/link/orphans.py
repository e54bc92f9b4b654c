"""Turns that run at the runner and are not open here: canceled, and awaited before the next prompt (T-1, C-7).

A turn becomes an orphan if its agent was considered lost and then returns with the turn still running, or if the runner
refuses a prompt because of a turn that this gateway does not know.
"""

from __future__ import annotations

from interlock.engine.bridge.commands.command_end import close_agent
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import Orphan
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.session.turn import TURN_FRAMES

RESTING = ("idle", "terminated")
"""States of an agent in which no turn runs."""


def adopt(lane: Lane, turn_id: str | None = None) -> None:
    """Cancel a turn that runs at the runner, and send no prompt before its end. Without `turn_id` it is the session's
    current turn."""
    if lane.state.controller or lane.state.orphan is not None:
        return
    cancel = lane.control("control.turn.cancel", p.TurnCancel(reason="its command has ended", turn_id=turn_id))
    lane.state.lost_turn = ""
    lane.state.orphan = Orphan(turn_id, cancel.message_id, lane.now + CANCEL_FORCE_MS)
    lane.audit("late_event", SYSTEM, {"orphan": turn_id or ""})


def returned(lane: Lane, turn_id: str | None) -> None:
    """Check for a turn that was considered lost, now that the runner's hello or heartbeat names the session."""
    state = lane.state
    if state.lost_turn:
        if turn_id == state.lost_turn:
            adopt(lane, turn_id)
        else:
            _forget(lane)
    elif state.orphan is not None and turn_id is None:
        _forget(lane)


def lose(lane: Lane, turn_id: str) -> None:
    """Record the turn that was open when its agent was considered lost, "" for none; nothing else is awaited."""
    lane.state.lost_turn, lane.state.orphan = turn_id, None


def _forget(lane: Lane) -> None:
    lane.state.lost_turn, lane.state.orphan = "", None
    lane.out.writes.append(lane.snapshot())


def observe(lane: Lane, frame: Frame, *, refused: bool) -> None:
    """Check a frame of the runner, applied or refused, for a turn that was considered lost, and for an orphan's end."""
    state, payload = lane.state, frame.payload
    named = getattr(payload, "turn_id", None)
    if refused and state.lost_turn and named == state.lost_turn:
        if frame.type in TURN_FRAMES and not isinstance(payload, p.TurnEnd):
            adopt(lane, named)
        else:
            state.lost_turn = ""
    orphan = state.orphan
    if orphan is None:
        return
    match payload:
        case p.TurnEnd():
            over = orphan.turn_id in (None, named)
        case p.SessionClosed() | p.Compacted():
            over = True
        case p.StateChanged():
            over = payload.state in RESTING
        case p.SessionError():
            over = frame.metadata.get("in_reply_to") == orphan.cancel_id
        case _:
            over = False
    if over:
        state.orphan = None


def tick(lane: Lane) -> None:
    """Close the session's agent if an orphan does not obey its cancel in time (A-4). While the link is down it cannot
    obey, and the time restarts."""
    orphan = lane.state.orphan
    if orphan is None or orphan.deadline_ms > lane.now:
        return
    if not lane.state.attached:
        orphan.deadline_ms = lane.now + CANCEL_FORCE_MS
        return
    lane.state.orphan = None
    if lane.state.opening == "closed":
        lane.state.mark_open()  # Its agent runs, contrary to the assumption.
    close_agent(lane, SYSTEM, "the cancel was not obeyed")
    lane.state.must_close_by(lane.now + CANCEL_FORCE_MS)
