"""The refusal of a malformed frame: nothing waits any longer for a frame that arrived and could not be used (T-3)."""

from __future__ import annotations

from interlock.engine.bridge import orphans
from interlock.engine.bridge.approving import void_interactions
from interlock.engine.bridge.ending import end_canceled, fail
from interlock.engine.bridge.lane import Lane
from interlock.protocol.codes import Code


def settle(lane: Lane, kind: str, prompt_id: object, sentence: str) -> bool:
    """Go on without the refused frame of type `kind`. True if it was the usage that a turn owes: then the turn is over,
    and its counts are unknown.

    A turn whose start is refused is canceled at the runner, and its command fails. So does the command of a turn whose
    end is refused; that turn is over.
    """
    state, record = lane.state, lane.active
    if state.controller:
        return False
    if kind == "session.usage" and state.machine.phase == "usage":
        state.machine.phase, state.machine.turn = "idle", None
        return True
    started = kind == "session.turn.start" and state.machine.phase == "idle"
    ended = kind == "session.turn.end" and state.machine.phase == "turn"
    if started and record is not None and record.prompt_id == prompt_id:
        orphans.adopt(lane)
    elif ended:
        state.machine.phase = "usage"
        if state.machine.turn is not None:
            state.machine.turn.interactions.clear()
        void_interactions(lane)
        if lane.transcriber is not None:
            lane.transcribe(lane.transcriber.fold.abandon(sentence, lane.now))
    else:
        return False
    if record is not None and record.command.state == "canceling":
        end_canceled(lane, record)
    elif record is not None:
        fail(lane, record, Code.INVALID_FRAME, sentence)
    return False
