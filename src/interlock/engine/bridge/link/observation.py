"""Sessions that another gateway controls: followed and shown, not commanded; and how control is gained and lost (D-5).

While `state.controller` names another gateway, `Lane.control` sends nothing, so any response to a frame is left to the
controlling gateway.
"""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.commands.command_end import end_command, fail
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.resources import Notice
from interlock.session.turn import TURN_FRAMES, OpenTurn, Refusal


def control_changed(lane: Lane, gateway_id: str) -> None:
    """Record which gateway controls the session from here on, as the runner reports."""
    controller = "" if gateway_id == lane.gateway_id else gateway_id
    if controller == lane.state.controller:
        return
    lane.state.controller = controller
    who = {"id": lane.state.runner_id, "role": "runner"}
    if not controller:
        lane.audit("session_reset", who, {"reason": "control taken"})
        lane.notice(Notice(code="ControlTaken", message="this gateway controls the session now; what waits for an "
                           "answer is asked here again"))
        return
    lane.audit("lease_lost", who, {"controller": controller})
    lane.notice(Notice(code="ControlLost", message=f"gateway {controller} controls the session now; this one observes"))
    _give_up(lane, f"control passed to gateway {controller} before it was started")


def _give_up(lane: Lane, sentence: str) -> None:
    """End the commands that cannot start from here any more. A running turn is followed to its end, without this
    gateway's clock: no frame of this gateway would reach it."""
    for record in list(lane.commands.values()):
        command = record.command
        if command.type != "execute" or command.id not in lane.commands:
            continue
        if command.state in ("pending_approval", "queued"):
            end_command(lane, record, "canceled", SYSTEM, error=(Code.NOT_CONTROLLER, sentence))
        elif command.started_at is None:
            fail(lane, record, Code.NOT_CONTROLLER, sentence)
        else:
            lane.keep(msgspec.structs.replace(record, running_since_ms=None, remaining_ms=None))


def control_refused(lane: Lane, refusal: p.RefusedControl) -> None:
    """Handle a control frame that the runner did not act on. If another gateway controls the session, record that."""
    if refusal.error_code != Code.NOT_CONTROLLER:
        return  # Its own `session.error` arrives with the history and determines the outcome (C-8).
    if refusal.controller not in ("", lane.gateway_id):
        control_changed(lane, refusal.controller)
    lane.notice(Notice(code="ControlRefused", message=refusal.message[:1_000]))


def joined(lane: Lane, session: p.HelloSession) -> None:
    """Record which gateway controls the session, as the runner's hello states. If frames are still to come, they report
    it instead."""
    if session.controller and session.last_seq_sent <= lane.state.last_seq:
        control_changed(lane, session.controller)


def follow(lane: Lane, frame: Frame) -> bool:
    """Apply a frame that does not fit because this gateway joined while the session was under way; returns False if it
    still does not fit. Only observed sessions are followed like this."""
    machine = lane.state.machine
    turn_id = getattr(frame.payload, "turn_id", None)
    if frame.type in TURN_FRAMES and isinstance(turn_id, str):
        machine.enter_turn(OpenTurn(turn_id, 0, ""))
    elif frame.type in ("session.turn.start", "session.usage"):
        machine.leave_turn("idle")
    if machine.phase != "closed" and lane.state.opening == "closed":
        lane.state.mark_open()
    try:
        machine.apply(frame)
    except Refusal:
        return False
    return True
