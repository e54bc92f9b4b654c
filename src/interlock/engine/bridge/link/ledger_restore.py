"""Sessions whose runner has more than the ledger: an older copy of the ledger was restored, or a database failed over
without its last commits (D-5, C-7).

A gateway sends a control frame, and acknowledges a frame, only after the commit. So a runner with a control frame or an
acknowledgement that the ledger does not have proves that commits were lost. The runner does not keep acknowledged
frames: they are not sent again.
"""

from __future__ import annotations

from typing import NamedTuple

from interlock.engine.bridge.approvals.approvals import restart_clock, void_interactions
from interlock.engine.bridge.commands.command_end import close_agent, end_command
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.link import orphans
from interlock.engine.bridge.link.links import lose_agent
from interlock.engine.bridge.link.losses import report_loss
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.payloads import HelloSession

CODE = "LedgerRestored"
"""Code of a command that cannot be followed any more."""
LOST = "they had been acknowledged, and the gateway's ledger is an older copy that does not have them"
"""Why the frames are missing, in a notice `Truncated`."""
ENDED = ("The gateway's ledger is an older copy: what this command did since then is not known. Look at its workspace "
         "before you send it again.")
NOT_BEGUN = ("The gateway's ledger is an older copy: this command may have run since then, so it is not run by itself. "
             "Look at its workspace before you send it again.")


class Setback(NamedTuple):
    """What the ledger lacks of one session."""

    session_id: str
    frames: int
    """Frames that had been acknowledged."""
    controls: int
    """Number of control frames that the runner has and the ledger does not."""
    commands: list[str]
    """The commands that were closed because of it."""


def reconcile(lane: Lane, session: HelloSession) -> Setback | None:
    """Compare a session with its runner's hello, before `links.attach`. Returns None if the ledger lacks nothing.

    The loss is reported once, and the session continues after it. The command whose turn still runs is kept; every
    other one is closed, and so is the agent, so that the next command starts from a state that both sides know.
    """
    state = lane.state
    frames = max(session.acked_seq - state.last_seq, 0)
    controls = max(session.control_seq - state.control_seq, 0)
    if state.controller or not (frames or controls):
        return None
    if frames:
        report_loss(lane, frames, LOST)
        state.skip_to(session.acked_seq)
        state.lose_up_to(max(state.lost_above, session.acked_seq))
    # Numbers that the runner has seen are not reused: it would take a new frame for an old one (D-7).
    state.number_controls_after(session.control_seq)
    state.doubt_answers()
    if _still_runs(lane, session):
        if frames and session.state != "waiting_approval":
            _void_answered(lane)
        closed: list[str] = []
    else:
        closed = _give_up_agent(lane, is_open=session.state != "terminated")
    closed += close_unstarted(lane)
    lane.audit("ledger_restored", SYSTEM, {"runner": state.runner_id, "frames": frames, "controls": controls,
                                           "closed": len(closed)})
    lane.out.writes.append(lane.snapshot())
    return Setback(state.session_id, frames, controls, closed)


def _still_runs(lane: Lane, session: HelloSession) -> bool:
    """Return whether the ledger's open turn runs at the runner."""
    state, record, turn = lane.state, lane.active, lane.state.machine.turn
    started = record is not None and record.command.started_at is not None
    return started and state.machine.phase == "turn" and turn is not None and turn.turn_id == session.turn_id


def _void_answered(lane: Lane) -> None:
    """Void approvals that the ledger holds open although they were answered: the runner's report of it is among the
    lost frames."""
    if lane.state.machine.turn is not None:
        lane.state.machine.turn.interactions.clear()
    void_interactions(lane)
    restart_clock(lane)


def close_unstarted(lane: Lane) -> list[str]:
    """Close the commands that the ledger believes not to have begun; returns their ids."""
    closed: list[str] = []
    for record in list(lane.commands.values()):
        if record.command.type == "execute" and record.command.state in ("pending_approval", "queued"):
            end_command(lane, record, "canceled", SYSTEM, error=(CODE, NOT_BEGUN))
            closed.append(record.command.id)
    return closed


def _give_up_agent(lane: Lane, *, is_open: bool) -> list[str]:
    """End the work that the ledger believes to be under way, and have the runner close the session's agent if one is
    open. Returns the command that ended with it."""
    state = lane.state
    active = state.active if lane.active is not None else None
    state.note_fatal((CODE, ENDED))
    lose_agent(lane, ENDED)
    orphans.lose(lane, "")  # A turn that the ledger does not know ends with the agent.
    if is_open:
        state.mark_open()
        close_agent(lane, SYSTEM, "the gateway's ledger is an older copy")
        state.must_close_by(lane.now + CANCEL_FORCE_MS)
    return [active] if active is not None else []
