"""A command's progress: its stage and the agent's own figure, at most one event a second (S-5).

A change within the second is not lost: the next event includes it, and a stage without a successor is reported by the
clock.
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
    """Forward a transient frame; the first text of a block starts the stage `chat`, long before the block's end."""
    if lane.transient(frame, raw) and lane.state.stage != "chat" and frame.type == "agent.text.delta":
        at_stage(lane, "chat")


def begin(lane: Lane) -> None:
    """Record that a command's first turn has started: none of its progress is reported yet."""
    lane.state.stage_told, lane.state.percent_told_ms = "", 0


def reset(lane: Lane) -> None:
    """Clear the progress: no turn is under way, or nothing is known of it yet."""
    lane.state.stage, lane.state.percent = "", None


def at_stage(lane: Lane, stage: Stage) -> None:
    """Record the turn's stage."""
    lane.state.stage = stage
    report(lane)


def at_percent(lane: Lane, percent: float) -> None:
    """Record the agent's figure of how much is done."""
    percent = min(max(percent, 0.0), 100.0)
    changed, lane.state.percent = percent != lane.state.percent, percent
    if changed:
        report(lane, figure=True)


def report(lane: Lane, *, figure: bool = False) -> None:
    """Report a stage that is not reported yet, or with `figure` a new figure, unless an event was sent within the
    second."""
    state, record = lane.state, lane.active
    if record is None or record.command.started_at is None or not state.stage:
        return
    if not (figure or state.stage != state.stage_told) or lane.now - state.percent_told_ms < PROGRESS_INTERVAL_MS:
        return
    state.stage_told, state.percent_told_ms = state.stage, lane.now
    lane.status(StatusEvent(event="progress", command_id=record.command.id, at=lane.at, stage=state.stage,
                            percent=state.percent))

