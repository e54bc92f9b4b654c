"""The link's reports to a lane: the runner attached, detached, confirmed, refused, vouched (C-7, D-7)."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from interlock.engine.bridge.approvals import held
from interlock.engine.bridge.approvals.approvals import void_interactions
from interlock.engine.bridge.commands.command_end import end_canceled, fail
from interlock.engine.bridge.commands.dispatch import start_detach_clock
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.link import orphans
from interlock.engine.bridge.link.losses import report_loss
from interlock.ports.ledger import DropControls
from interlock.protocol.clock import iso
from interlock.protocol.codes import Code
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.payloads import AgentOffer, SessionError
from interlock.protocol.resources import Notice

SILENT_HEARTBEATS = 2
"""Consecutive heartbeats that must omit an agent before its command is lost (C-7): one may cross its last frames."""

REOPEN_MS = 5_000
"""Maximum time between a link that its runner closed in order to reopen it, and the new one; after it the loss is
reported."""


def attach(lane: Lane, control_seq: int, offer: AgentOffer | None, *, known: bool) -> None:
    """Attach the runner, which has all control frames up to `control_seq`. `known`: its hello listed the session, or
    is older than it."""
    state = lane.state
    if offer is not None and state.opening == "closed":
        held.take_offer(state, offer)
    # A gateway whose ledger is behind its runner continues the numbers from the larger of the two, as a runner does
    # (D-6).
    state.number_controls_after(control_seq)
    _confirm_noop(lane, control_seq)
    confirm(lane, control_seq)
    if state.detached_since_ms is not None:
        lane.notice(Notice(code="Reattached", message="the runner is back", since=iso(state.detached_since_ms)))
    state.detached_since_ms = None
    state.note_link(attached=True)
    state.count_heartbeat(silent=False)
    record = lane.active
    if record is not None and record.detach_deadline_ms is not None:
        lane.keep(msgspec.structs.replace(record, detach_deadline_ms=None))
    if not known and _must_be_known(lane):
        lose_agent(lane, "the runner came back without this session: its outbox was lost, or this "
                   "gateway's ledger is an older copy")


def _must_be_known(lane: Lane) -> bool:
    """Return whether the runner must know the session: it forgets one only after it has reported its close, otherwise
    it has lost its outbox."""
    state = lane.state
    return state.machine.phase != "closed" or (
        state.opening != "closed" and state.control_acked >= state.control_seq
    )


def _confirm_noop(lane: Lane, control_seq: int) -> None:
    """Determine at the reattach whether the runner gets the prompt or the no-op that replaces it (D-7)."""
    state = lane.state
    if state.noop_seq is None:
        return
    if control_seq < state.noop_seq:
        state.choose_noop()
        lane.out.writes.append(lane.snapshot())  # The choice is durable before the no-op is sent.
    elif not state.noop_chosen:
        state.forget_noop()


def detach(lane: Lane, *, reopens: bool = False) -> None:
    """Record that the link is down, which does not mean that the agent has ended (C-7). With `reopens` its runner opens
    another at once, so people are notified of the loss only if it does not."""
    state = lane.state
    if not state.attached:
        return
    state.note_link(attached=False)
    if lane.active is None:
        return
    start_detach_clock(lane)
    state.reopen_deadline_ms = lane.now + REOPEN_MS if reopens else None
    if not reopens:
        _notice_loss(lane, lane.wall)


def tick(lane: Lane) -> None:
    """Report the loss of a link that was not reopened in time (C-7)."""
    deadline_ms = lane.state.reopen_deadline_ms
    if deadline_ms is None or deadline_ms > lane.now:
        return
    lane.state.reopen_deadline_ms = None
    if lane.active is not None and not lane.state.attached:  # Attached: it returned, here or at another gateway.
        _notice_loss(lane, lane.wall - (lane.now - deadline_ms) - REOPEN_MS)


def _notice_loss(lane: Lane, since_ms: int) -> None:
    lane.state.detached_since_ms = since_ms
    lane.notice(Notice(code="Detached", message="the link to the runner is down; what still runs there works on",
                       since=iso(since_ms)))


def confirm(lane: Lane, seq: int) -> None:
    """Drop the control frames up to `seq`, which the runner has stored (D-7)."""
    state = lane.state
    if seq <= state.control_acked:
        return
    state.control_acked = min(seq, state.control_seq)
    lane.out.writes.append(DropControls(state.tenant_id, state.session_id, state.control_acked))
    for stored in list(takewhile(lambda known: known <= state.control_acked, lane.unconfirmed)):  # By number.
        del lane.unconfirmed[stored]
    record = lane.active
    if state.noop_seq is not None and state.noop_chosen and seq >= state.noop_seq:
        state.forget_noop()
        if record is not None and record.command.state == "canceling" and record.command.started_at is None:
            end_canceled(lane, record)


def take_report(lane: Lane, *, is_live: bool, turn_id: str | None = None) -> None:
    """Process a heartbeat that names the session's agent, or omits it (C-7)."""
    state = lane.state
    if is_live:
        orphans.returned(lane, turn_id)
    record = lane.active
    started = record is not None and record.command.started_at is not None
    if is_live or record is None or not started or state.machine.phase != "turn":
        state.count_heartbeat(silent=False)
        return
    if state.count_heartbeat(silent=True) >= SILENT_HEARTBEATS:
        lose_agent(lane, "the runner no longer has this agent")


def lose_agent(lane: Lane, sentence: str) -> None:
    """End what the agent left open: it is gone, and will report nothing more (C-7, P-6, T-3)."""
    state, record = lane.state, lane.active
    state.mark_closed()
    state.take_end()
    lane.out.writes.append(lane.snapshot())  # Even if nothing else is to be written.
    compaction.dropped(lane)
    turn = state.machine.turn if state.machine.phase == "turn" else None
    orphans.lose(lane, turn.turn_id if turn is not None else "")
    state.machine.leave_turn("closed")
    if lane.transcriber is not None:
        lane.transcribe(lane.transcriber.fold.abandon(sentence, lane.wall))
    void_interactions(lane)
    if record is not None:
        lane.audit("lease_lost", SYSTEM, {"runner": state.runner_id}, command_id=record.command.id)
        fail(lane, record, *(state.fatal or ("AgentLost", sentence)))
    state.end_closing()


def close_overdue(lane: Lane) -> None:
    """Treat the session as lost if the runner does not close it in time (T-5). While the link is down the time
    restarts."""
    state = lane.state
    if state.close_deadline_ms is None or state.close_deadline_ms > lane.now:
        return
    if not state.attached:
        state.must_close_by(lane.now + CANCEL_FORCE_MS)
        return
    lose_agent(lane, "the session was not closed in time")


def close_for_gap(lane: Lane, missing: tuple[int, int]) -> None:
    """End the session from this side after the same gap occurred twice (E-3, T-5); its command fails."""
    sentence = "frames of this session are missing for good"
    report_loss(lane, missing[1] - missing[0] + 1)
    lane.state.lose_up_to(missing[1])
    lane.state.skip_to(missing[1])
    lane.control("session.error", SessionError(error_code=Code.INTERNAL, fatal=True, message=sentence))
    if lane.state.opening in ("opening", "open"):
        lane.state.begin_closing()
    record = lane.active
    if record is not None:
        fail(lane, record, Code.INTERNAL, sentence)
