"""Comparison of a database's rows with its audit logs, with the gateway running or stopped (H-5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from interlock.command.audit.record_seal import BrokenRecord, SealedFields, changed_approval, changed_command, read
from interlock.command.audit.register import BoundRecord, Register, differs, log_of, missing, row_of, sentence
from interlock.command.machine import STATES, TERMINAL
from interlock.engine.bridge import seals
from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.records import ApprovalRecord, AuditRecord, CommandRecord, DrainRecord, StoredSession

MAX_SENTENCES = 1_000
"""Maximum number of rows that are listed."""


_COPIES = ("tenant_id", "session_key", "agent_id", "runner_id", "workspace")
_state_decoder = msgspec.json.Decoder(LaneState)
_usage_decoder = msgspec.json.Decoder(dict[str, Any])


class StoredRows(Protocol):
    """The tables of a ledger at one instant."""

    def tenants(self) -> list[str]: ...

    def records(self, tenant_id: str) -> Iterator[AuditRecord]: ...

    def bound(self) -> list[BoundRecord]: ...

    def live_commands(self) -> list[CommandRecord]: ...

    def sessions(self) -> Iterator[StoredSession]: ...

    def live_approvals(self) -> list[ApprovalRecord]: ...


def compare_rows(rows: StoredRows) -> list[str]:
    """Compare keys, rules, signing keys, tenants, runners, live commands, live approvals, sessions and the unconfirmed
    control frames with the logs; returns one sentence for each that differs. Nothing is compared before the first start
    of a gateway that binds rows."""
    waits_after = {one.session_id: _acked(one) for one in rows.sessions()}
    logs = {tenant_id: _Log(rows, tenant_id, waits_after) for tenant_id in sorted({OWNER_TENANT, *rows.tenants()})}
    owners = logs[OWNER_TENANT].register
    sentences: list[str] = []
    if owners.begun:
        bound = rows.bound()
        for record in bound:
            if isinstance(record, DrainRecord):
                continue  # One that was inserted only stops work, as `status` shows; a missing one is named below.
            log = logs.get(log_of(record))
            how = differs(row_of(record), Register() if log is None else log.register, owners)
            if how is not None:
                sentences.append(sentence(row_of(record).name, how))
        sentences += [sentence(name, "was removed, or cannot be read")
                      for name in missing(map(row_of, bound), (log.register for log in logs.values()))]
    for log in logs.values():
        sentences += log.compare()
    if owners.begun:
        sentences += _compare_sessions(rows, logs, owners)
    shown = sentences[:MAX_SENTENCES]
    return shown if shown == sentences else [*shown, f"{len(sentences) - len(shown)} more rows differ"]


def _acked(session: StoredSession) -> int:
    """Return up to which number the runner has a session's control frames; 0 if its row cannot be read."""
    try:
        return _state_decoder.decode(session.machine).control_acked
    except msgspec.MsgspecError:
        return 0


def _compare_sessions(rows: StoredRows, logs: dict[str, _Log], owners: Register) -> Iterator[str]:
    """Compare each session's deciding state, and its unconfirmed frames, with what its log has sealed."""
    for session in rows.sessions():
        name = f"the stored row of the session {session.session_id}"
        try:
            state = _state_decoder.decode(session.machine)
        except msgspec.MsgspecError:
            yield f"{name} cannot be read"
            continue
        if state.session_id != session.session_id:
            yield f"{name} is that of another session"
            continue
        log = logs.get(state.tenant_id)
        adopted = seals.from_adopted(state, owners.rows)
        sealed = adopted if log is None else log.sealed(session.session_id, adopted)
        broken = seals.examine(state, session.controls, sealed)
        if any(broken):
            yield f"{name} differs from its audit record: {seals.how_broken(broken)}"
        elif wrong := _wrong_copies(session, state):
            yield f"{name} differs from its own state: {', '.join(wrong)}"


def _wrong_copies(session: StoredSession, state: LaneState) -> list[str]:
    """Return the columns that copy the state and differ from it."""
    wrong = [name for name in _COPIES if getattr(session, name) != getattr(state, name)]
    try:
        counts = _usage_decoder.decode(session.usage)
    except msgspec.MsgspecError:
        return [*wrong, "usage, which cannot be read"]
    if any(getattr(state, name, None) != count for name, count in counts.items()):
        wrong.append("usage")
    return wrong


class _Log:
    """A tenant's log, as far as rows are compared with it."""

    def __init__(self, rows: StoredRows, tenant_id: str, waits_after: dict[str, int]) -> None:
        """Create the log; `waits_after` has, by session, the number after which its control frames are unconfirmed."""
        self.register = Register()
        self._waits_after = waits_after
        self._frames: dict[str, dict[int, str]] = {}
        self._sealed_states: dict[str, str] = {}
        self._commands = [one for one in rows.live_commands() if one.command.tenant_id == tenant_id]
        self._approvals = [one for one in rows.live_approvals() if one.approval.tenant_id == tenant_id]
        self._about: dict[str, list[SealedFields]] = {
            **{one.command.id: [] for one in self._commands},
            **{one.approval.command_id or one.approval.id: [] for one in self._approvals}}
        self._states: dict[str, str] = {}
        for record in rows.records(tenant_id):
            self.register.read((record,))
            self._take(record)

    def sealed(self, session_id: str, adopted: seals.Sealed) -> seals.Sealed:
        """Return what the log has sealed of a session, added to what was adopted."""
        return seals.Sealed({**adopted.frames, **self._frames.get(session_id, {})},
                            self._sealed_states.get(session_id, adopted.state))

    def _take(self, record: AuditRecord) -> None:
        found = seals.sealed_by(record)
        if found is not None and found.session_id in self._waits_after:
            after = self._waits_after[found.session_id]
            waiting = {seq: digest for seq, digest in found.frames.items() if seq > after}
            if waiting:
                self._frames.setdefault(found.session_id, {}).update(waiting)
            self._sealed_states[found.session_id] = found.state
        try:
            (recorded,) = read((record,))
        except BrokenRecord:
            return  # The verification of the log itself reports it.
        about = recorded.command_id or recorded.approval_id or ""
        if about in self._about:
            self._about[about].append(recorded)
        to = recorded.meta.get("to")
        if recorded.command_id is not None and recorded.approval_id is None and to in STATES:
            if to in TERMINAL:
                self._states.pop(recorded.command_id, None)
            else:
                self._states[recorded.command_id] = to

    def compare(self) -> Iterator[str]:
        """Compare the live commands and approvals."""
        for approval in self._approvals:
            name = approval.approval.id
            how = changed_approval(approval, self._about[approval.approval.command_id or name])
            if how is not None:
                yield f"the stored row of the approval {name} differs from its audit record: {how}"
        for command in self._commands:
            name = command.command.id
            how = (changed_command(command, self._approvals, self._about[name])
                   if command.command.type == "execute" else None)
            if how is not None:
                yield f"the stored row of the command {name} differs from its audit record: {how}"
        for command in self._commands:
            if command.command.type == "execute" and command.session_id not in self._waits_after:
                yield f"the stored row of the session of the command {command.command.id} was removed"
        there = {one.command.id for one in self._commands}
        for name in sorted(self._states.keys() - there):
            yield (f"the stored row of the command {name} is missing or in an end state, and by the audit "
                   f"log it is {self._states[name]}")
