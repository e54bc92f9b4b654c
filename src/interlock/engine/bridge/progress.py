"""How far a command is: its stage, and the agent's own figure, one event a second at most (S-5).

What changes within the second is not lost: the next event carries it, and a stage that nothing follows is reported by
the clock.
"""

from __future__ import annotations

from typing import Literal

from interlock.engine.bridge.lane import Lane
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import PROGRESS_INTERVAL_MS
from interlock.protocol.resources import StatusEvent

Stage = Literal["retrieval", "tool", "chat"]
RETRIEVAL_KINDS = frozenset({"read", "search", "fetch"})


def take_transient(lane: Lane, frame: Frame, raw: bytes) -> None:
    """Pass a transient frame on; the first text of a block is the beginning of `chat`, long before the block's end."""
    if lane.transient(frame, raw) and lane.state.stage != "chat" and frame.type == "agent.text.delta":
        at_stage(lane, "chat")


def begin(lane: Lane) -> None:
    """Note that a command's first turn has started: nothing of it is reported yet."""
    lane.state.stage_told, lane.state.percent_told_ms = "", 0


def reset(lane: Lane) -> None:
    """Nothing is under way, or nothing is known of it yet."""
    lane.state.stage, lane.state.percent = "", None


def at_stage(lane: Lane, stage: Stage) -> None:
    """The turn is at this stage now."""
    lane.state.stage = stage
    tell(lane)


def at_percent(lane: Lane, percent: float) -> None:
    """The agent says how much is done."""
    percent = min(max(percent, 0.0), 100.0)
    changed, lane.state.percent = percent != lane.state.percent, percent
    if changed:
        tell(lane, figure=True)


def tell(lane: Lane, *, figure: bool = False) -> None:
    """Report a stage that is not reported yet, or with `figure` a new one, unless something was reported within the
    second."""
    state, record = lane.state, lane.active
    if record is None or record.command.started_at is None or not state.stage:
        return
    if not (figure or state.stage != state.stage_told) or lane.now - state.percent_told_ms < PROGRESS_INTERVAL_MS:
        return
    state.stage_told, state.percent_told_ms = state.stage, lane.now
    lane.status(StatusEvent(event="progress", command_id=record.command.id, at=lane.at, stage=state.stage,
                            percent=state.percent))

