"""The refusal of a malformed frame, so that nothing waits for a frame that arrived but could not be used (T-3)."""

from __future__ import annotations

from interlock.engine.bridge.commands.command_end import end_canceled, fail
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.link import orphans
from interlock.protocol.codes import Code


def settle(lane: Lane, kind: str, prompt_id: object, sentence: str) -> bool:
    """Continue without the refused frame of type `kind`. Returns True if it was the usage that a turn owes: then the
    turn is over, and its counts are unknown.

    A turn whose start is refused is canceled at the runner, and its command fails. A refused end changes nothing: the
    runner may send another one, and the command's timeout runs.
    """
    state, record = lane.state, lane.active
    if state.controller:
        return False
    if kind == "session.usage" and state.machine.phase == "usage":
        state.machine.leave_turn("idle")
        return True
    started = kind == "session.turn.start" and state.machine.phase == "idle"
    if started and record is not None and record.prompt_id == prompt_id:
        orphans.adopt(lane)
        if record.command.state == "canceling":
            end_canceled(lane, record)
        else:
            fail(lane, record, Code.INVALID_FRAME, sentence)
    return False
