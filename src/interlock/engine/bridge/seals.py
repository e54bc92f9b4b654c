"""Digests of a lane's control frames and of its deciding state, in the audit record of its decision (H-5).

A control frame is stored in a row until its runner has it (D-7), and the lane's own state in another. The record of the
decision that wrote them has a digest of each; a row that differs from it is neither sent nor used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from interlock.command.audit.audit import leaf_hash
from interlock.command.audit.record_seal import progress_sha256
from interlock.command.machine import TERMINAL
from interlock.engine.bridge.approvals import held
from interlock.engine.bridge.approvals.approvals import restart_clock
from interlock.engine.bridge.commands.cancellation import cancel_command
from interlock.engine.bridge.commands.command_end import end_command
from interlock.engine.bridge.commands.dispatch import replace_by_nothing, replace_prompt
from interlock.engine.bridge.lane import SYSTEM, UNSEALED, Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.ports.ledger import AuditAppend, DropControls, PutCommand
from interlock.protocol.records import AuditRecord, ControlRecord
from interlock.protocol.resources import Notice

MARK = b'"frames_of":"'
"""In the body of each record that seals, and of no other: within a string its quotes would be escaped."""
MAX_NAMED = 32
"""Maximum number of frames that one notice names."""
SENTENCE = "what is stored of the session differs from the audit record, so it is not used: {}"
_encode = msgspec.json.Encoder().encode


class _Meta(msgspec.Struct, frozen=True):
    frames_of: str = ""
    frames: dict[str, str] = {}
    state_sha256: str = ""


class _Body(msgspec.Struct, frozen=True):
    meta: _Meta
    session_id: str = ""


class Sealed(NamedTuple):
    """The log's digests of a session: of each control frame by its number, and of its state."""

    frames: Mapping[int, str]
    state: str | None


class SealedBy(NamedTuple):
    """What one record seals: digests of control frames by number, and of the session's state."""

    session_id: str
    frames: Mapping[int, str]
    state: str


class SealMismatch(NamedTuple):
    """The differences: numbers of changed or missing control frames, of frames that were never sent, whether the state
    differs, and numbers of frames that are stored although their session has them as confirmed."""

    changed: tuple[int, ...] = ()
    inserted: tuple[int, ...] = ()
    state: bool = False
    skipped: tuple[int, ...] = ()


_decoder = msgspec.json.Decoder(_Body)


def frames_of(session_id: str) -> str:
    """Return the name of a session in the index of records: 32 hex digits, whatever form its id has."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:32]


def deciding(state: LaneState) -> bytes:
    """Encode the state that a lane decides by, or sends to its agent, over a restart: including how its agent is held,
    its box, the controlling gateway, the agent's own conversation that it continues, whether there is one, and the mode
    that was set."""
    return _encode((*_with_box(state), state.turn_start_n > 0, state.entry.mode_override))


def is_sealed(state: LaneState, digest: str) -> bool:
    """Return whether the log's digest matches what a lane decides by, also for logs from before boxes, or the begin of
    a conversation, were sealed. The forms differ in length, so one never passes for another."""
    return digest in (_sha256(deciding(state)), _sha256(_encode(_with_box(state))), _sha256(_encode(_of_before(state))))


def _with_box(state: LaneState) -> tuple[Any, ...]:
    return (_of_before(state), state.holding, state.offered_box, state.box, state.controller, state.agent_session,
            state.unasked)


def _of_before(state: LaneState) -> tuple[Any, ...]:
    entry = state.entry
    return (state.agent_id, state.runner_id, state.workspace, state.workspace_access, state.permission,
            state.trusted_kinds, state.fell, state.turn_raised, state.held_answers, entry.model_override,
            entry.provider_override, entry.thinking_level, entry.elevated_level, entry.auth_profile_override)


def seal(lane: Lane) -> None:
    """Add the digests of this decision's control frames and of its state changes to its last audit record, or to a
    record `control` of its own if it has none. Call it last, before the commit."""
    _seal_progress(lane)
    now = deciding(lane.state)
    if now == lane.sealed and not lane.controls:
        return
    lane.note_sealed(now)
    meta: dict[str, Any] = {"frames_of": frames_of(lane.state.session_id), "state_sha256": _sha256(now)}
    if lane.controls:
        meta["frames"] = {str(seq): _sha256(raw) for seq, raw in lane.controls.items()}
    _add_to_last(lane, meta)


def _seal_progress(lane: Lane) -> None:
    """Add the progress digest of each command of this decision, if it changed, to the command's last audit record, or
    to a record `control` of its own."""
    written = {write.record.command.id: write.record for write in lane.out.writes if isinstance(write, PutCommand)}
    for command_id, record in written.items():
        if record.command.state in TERMINAL:
            lane.progress.pop(command_id, None)
            continue
        now = progress_sha256(record)
        if lane.progress.get(command_id) != now:
            lane.progress[command_id] = now
            _add_to_last(lane, {"progress_sha256": now}, command_id)


def _add_to_last(lane: Lane, meta: dict[str, Any], command_id: str | None = None) -> None:
    """Add to this decision's last audit record about the session, or about a command of it."""
    writes = lane.out.writes
    for place in range(len(writes) - 1, -1, -1):
        write = writes[place]
        if isinstance(write, AuditAppend) and write.draft.session_id == lane.state.session_id and (
                command_id in (None, write.draft.command_id)):
            draft = msgspec.structs.replace(write.draft, meta={**write.draft.meta, **meta})
            writes[place] = AuditAppend(draft)
            return
    lane.audit("control", SYSTEM, meta, command_id=command_id)


def read(session_id: str, records: Sequence[AuditRecord], adopted: Sealed) -> Sealed:
    """Return what a session's records seal, in order, on top of what was adopted."""
    frames, state = dict(adopted.frames), adopted.state
    for found in map(sealed_by, records):
        if found is not None and found.session_id == session_id:
            frames.update(found.frames)
            state = found.state
    return Sealed(frames, state)


def sealed_by(record: AuditRecord) -> SealedBy | None:
    """Return what one record seals; None if it seals nothing, or does not match its hash."""
    if MARK not in record.body or leaf_hash(record.body) != record.hash:
        return None
    try:
        body = _decoder.decode(record.body)
        frames = {int(seq): digest for seq, digest in body.meta.frames.items()}
    except (msgspec.MsgspecError, ValueError):
        return None
    if not body.session_id or body.meta.frames_of != frames_of(body.session_id):
        return None
    return SealedBy(body.session_id, frames, body.meta.state_sha256)


def examine(state: LaneState, controls: Sequence[ControlRecord], sealed: Sealed) -> SealMismatch:
    """Compare the stored rows of a session with the log. `controls` are all stored ones: confirmed frames are removed
    in the same transaction, so a remaining one was never confirmed."""
    skipped = tuple(sorted(control.seq for control in controls if control.seq <= state.control_acked))
    controls = [control for control in controls if control.seq > state.control_acked]
    there = {control.seq: _sha256(control.body) for control in controls}
    waiting = [seq for seq in sealed.frames if state.control_acked < seq <= state.control_seq]
    known = [seq for seq in there if seq <= state.control_seq]
    changed = {seq for seq in waiting if there.get(seq) != sealed.frames[seq]}
    changed |= {seq for seq in known if seq not in sealed.frames and not _harmless(controls, seq)}
    inserted = tuple(sorted(seq for seq in there if seq > state.control_seq))
    # A session from before records were sealed, which was closed then: its next opening sets its deciding state.
    differs = state.opening != "closed" if sealed.state is None else not is_sealed(state, sealed.state)
    return SealMismatch(tuple(sorted(changed)), inserted, differs, skipped)


def adopted(state: LaneState, controls: Sequence[ControlRecord]) -> dict[str, str]:
    """Return names and digests of a session's rows, as `Rows.adopt` binds them once."""
    return {f"session/{state.session_id}": _sha256(deciding(state)),
            **{f"frame/{state.session_id}/{control.seq}": _sha256(control.body) for control in controls}}


def from_adopted(state: LaneState, rows: Mapping[str, str]) -> Sealed:
    """Return what was adopted of a session."""
    name = state.session_id
    found = {seq: rows.get(f"frame/{name}/{seq}") for seq in range(state.control_acked + 1, state.control_seq + 1)}
    return Sealed({seq: digest for seq, digest in found.items() if digest is not None}, rows.get(f"session/{name}"))


def refuse(lane: Lane, broken: SealMismatch) -> None:
    """Send nothing that differs, end the work that depended on it, and hold the session's commands from now on."""
    how = how_broken(broken)
    lane.audit("tampered", SYSTEM, {"about": lane.state.session_id, "how": how})
    lane.notice(Notice(code="Tampered", message=SENTENCE.format(how)))
    state, active = lane.state, lane.active
    if broken.skipped:
        lane.out.writes.append(DropControls(state.tenant_id, state.session_id, state.control_acked))
    if broken.state:
        held.distrust(state)
        state.forget_grants()
    if not (broken.changed or broken.state):
        return
    for record in list(lane.commands.values()):
        if record.command.state in ("pending_approval", "queued"):
            end_command(lane, record, "canceled", SYSTEM, error=("Conflict", SENTENCE.format(how)))
    for seq in broken.changed:
        if active is not None and seq == active.prompt_seq:
            replace_prompt(lane, active)
        else:
            replace_by_nothing(lane, seq)
    lane.order_unconfirmed()
    if active is not None:
        cancel_command(lane, active, SYSTEM["id"], "tampered")
        restart_clock(lane)


def how_broken(broken: SealMismatch) -> str:
    """Return the differences as a phrase without a full stop."""
    parts: list[str] = []
    for seqs, what in ((broken.changed, "was changed or removed"), (broken.inserted, "was inserted"),
                       (broken.skipped, "waits, but is stored as confirmed by the runner")):
        if seqs:
            parts.append(f"control frame {', '.join(map(str, seqs[:MAX_NAMED]))} {what}")
    if broken.state:
        parts.append("its state (agent, workspace, permission, box, overrides or held answers) was changed")
    return "; ".join(parts)


def _harmless(controls: Sequence[ControlRecord], seq: int) -> bool:
    """Return whether a frame that is not in the log is of an unsealed kind: it informs, and requests nothing."""
    body = next(control.body for control in controls if control.seq == seq)
    try:
        return msgspec.json.decode(body, type=_Kind).type in UNSEALED
    except msgspec.MsgspecError:
        return False


class _Kind(msgspec.Struct, frozen=True):
    type: str


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
