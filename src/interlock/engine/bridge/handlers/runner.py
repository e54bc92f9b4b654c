"""Handle what a runner's link sends to a lane."""

from __future__ import annotations

from typing import Any

from interlock.engine.bridge.commands.progress import take_transient
from interlock.engine.bridge.inputs import runner as i
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.link import links
from interlock.engine.bridge.link.frames import refuse, refuse_wire, take_frame
from interlock.engine.bridge.link.ledger_restore import Setback, reconcile
from interlock.engine.bridge.link.losses import report_truncation
from interlock.engine.bridge.link.observation import control_refused, joined
from interlock.engine.bridge.link.orphans import returned
from interlock.protocol.codes import Code


def receive(lane: Lane, input_: i.FramesReceived) -> None:
    """Apply the frames in their order."""
    after, state, seen, policy = input_.after, lane.state, lane.recent.seen, lane.conditions.policy
    for frame, raw in input_.run.entries:
        seq = frame.seq
        if seq is None:
            take_transient(lane, frame, raw)
            continue
        if state.last_seq == after or _continues(lane, after):
            lane.apply(frame)
            if seen(frame.message_id):
                state.reach(seq)
                # Its number is used, and is acknowledged only once that is durable.
                lane.out.writes.append(lane.snapshot())
            else:
                take_frame(lane, frame, raw, policy)
        after = seq
    lane.apply(None)


def _continues(lane: Lane, after: int) -> bool:
    """Return whether the lane's position is the one that the link assumes. An older link of the same runner may have
    delivered more (then this frame is stored already); a failed commit may have left less (then this link is closed,
    and the frame is resent)."""
    at = lane.state.last_seq
    if at < after:
        lane.out.faults.append("frames before this one did not become durable")
    return at == after


def receive_poison(lane: Lane, input_: i.PoisonFrameReceived) -> None:
    """Refuse a frame at which the lane failed."""
    if _continues(lane, input_.after):
        refuse(lane, input_.raw, input_.message_id, Code.INTERNAL, "the gateway failed at this frame")
        lane.state.reach(input_.seq)


def receive_invalid(lane: Lane, input_: i.InvalidFrameReceived) -> None:
    """Refuse a frame that is invalid for its type (E-1)."""
    if input_.wire.seq is None or _continues(lane, input_.after):
        refuse_wire(lane, input_.wire, input_.raw, Code(input_.code), input_.sentence)


def give_up_gap(lane: Lane, input_: i.GapGivenUp) -> None:
    """End the session from this side (E-3)."""
    links.close_for_gap(lane, (input_.first, input_.last))


def begin_history(lane: Lane, input_: i.HistoryBegun) -> None:
    """Report the frames that the history declares lost (D-4)."""
    report_truncation(lane, input_.status, input_.ranges, input_.last_message_id, profile=input_.profile,
                      why=input_.why)


def confirm(lane: Lane, input_: i.ControlsConfirmed) -> None:
    """Drop the control frames that the runner has (D-7)."""
    links.confirm(lane, input_.seq)


def refuse_controls(lane: Lane, input_: i.ControlsRefused) -> None:
    """Record which control frames the runner did not act on (D-5)."""
    for one in input_.refused:
        control_refused(lane, one)


def take_report(lane: Lane, input_: i.AgentReported) -> None:
    """Count heartbeats that omit the agent (C-7)."""
    links.take_report(lane, is_live=input_.is_live, turn_id=input_.turn_id)


def attach(lane: Lane, input_: i.RunnerAttached) -> None:
    """Attach the runner, then compare control and the open turn with its hello (D-5, T-1)."""
    session = input_.session
    links.attach(lane, input_.control_seq, input_.offer, known=session is not None or input_.late)
    if session is not None:
        joined(lane, session)
        returned(lane, session.turn_id)


def detach(lane: Lane, input_: i.RunnerDetached) -> None:
    """Start the clock of the runner's absence (C-7)."""
    links.detach(lane, reopens=input_.reopens)


def compare(lane: Lane, input_: i.RunnerCompared) -> tuple[int, Setback | None]:
    """Return the last durable frame's number, and what the ledger lacks of the session (D-5)."""
    setback = reconcile(lane, input_.session) if input_.session is not None else None
    return lane.state.last_seq, setback


def begin_observation(lane: Lane, _input: i.ObservationBegun) -> None:
    """Write the row of a session that another gateway controls (D-5)."""
    lane.out.writes.append(lane.snapshot())


HANDLERS: dict[type[Any], Any] = {
    i.FramesReceived: receive, i.PoisonFrameReceived: receive_poison, i.InvalidFrameReceived: receive_invalid,
    i.GapGivenUp: give_up_gap, i.HistoryBegun: begin_history, i.ControlsConfirmed: confirm,
    i.ControlsRefused: refuse_controls, i.AgentReported: take_report, i.RunnerAttached: attach,
    i.RunnerDetached: detach, i.RunnerCompared: compare, i.ObservationBegun: begin_observation,
}
