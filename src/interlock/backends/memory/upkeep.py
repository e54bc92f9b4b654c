"""Maintenance of the ledger in memory (G-5)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from interlock.backends.memory.entities import Table
from interlock.backends.memory.events import Streams
from interlock.command.machine import TERMINAL
from interlock.ports.entities import DELIVERIES
from interlock.ports.upkeep import Counts, PrunedRows, Upkeep
from interlock.protocol.clock import parse_iso
from interlock.protocol.identifiers import command_stream, session_stream, tenant_stream
from interlock.protocol.records import (
    ApprovalRecord,
    CommandRecord,
    ControlRecord,
    FileRecord,
    SessionRecord,
)


class MemoryUpkeep(Upkeep):
    """See `interlock.ports.upkeep.Upkeep`."""

    _commands: dict[str, CommandRecord]
    _approvals: dict[str, ApprovalRecord]
    _tables: dict[str, Table]
    _sessions: dict[str, SessionRecord]
    _controls: dict[tuple[str, str, int], ControlRecord]
    _files: dict[tuple[str, str, str], FileRecord]
    _streams: Streams

    async def counts(self) -> Counts:
        commands = Counter(record.command.state for record in self._commands.values())
        approvals = Counter(record.approval.state for record in self._approvals.values())
        deliveries = Counter(record.delivery.state for record in self._tables[DELIVERIES.table].values())
        return Counts(
            {state: count for state, count in commands.items() if state not in TERMINAL},
            {state: approvals[state] for state in ("pending", "granted") if approvals[state]},
            {state: deliveries[state] for state in ("pending", "dead") if deliveries[state]},
            len(self._sessions),
        )

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        found = [session_id for session_id, record in sorted(self._sessions.items())
                 if record.tenant_id == tenant_id and session_id > after and self._is_old(session_id, before_ms)
                 and self._would_forget(session_id)._replace(controls=0) != PrunedRows()]
        return found[:limit]

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        return self._would_forget(session_id) if self._is_of(tenant_id, session_id) else PrunedRows()

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        if not self._is_of(tenant_id, session_id) or not self._is_old(session_id, before_ms):
            return PrunedRows()
        gone = self._would_forget(session_id)
        for name in self._names(session_id):
            self._streams.forget(name, self._streams.kept(name))
        for key in self._files_of(session_id):
            del self._files[key]
        for key in self._confirmed(session_id):
            del self._controls[key]
        return gone

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        name, old = tenant_stream(tenant_id), 0
        for event in self._streams.after(name, 0, self._streams.kept(name)):
            if event.at_ms >= before_ms:
                break
            old += 1
        if not dry:
            self._streams.forget(name, old)
        return old

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        old = [key for key, record in self._tables[DELIVERIES.table].items() if record.delivery.tenant_id == tenant_id
               and record.due_ms is None and parse_iso(record.delivery.created_at) < before_ms]
        for key in () if dry else old:
            del self._tables[DELIVERIES.table][key]
        return len(old)

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        newest: dict[str, SessionRecord] = {}
        for record in self._sessions.values():
            if (record.tenant_id == tenant_id and record.session_key > after
                    and record.session_key.startswith(f"agent:{agent_id}:")
                    and newest.get(record.session_key, record).created_ms <= record.created_ms):
                newest[record.session_key] = record
        return [newest[key] for key in sorted(newest)[:limit]]

    async def named_objects(self) -> set[str]:
        named = {name for record in self._files.values() for name in record.objects}
        for record in self._sessions.values():
            for under_way in _machine(record).get("incoming", {}).values():
                named.update(under_way["objects"])
        return named

    def _is_of(self, tenant_id: str, session_id: str) -> bool:
        record = self._sessions.get(session_id)
        return record is not None and record.tenant_id == tenant_id

    def _is_old(self, session_id: str, before_ms: int) -> bool:
        record = self._sessions.get(session_id)
        if record is None or record.created_ms >= before_ms:
            return False
        commands = [one.command for one in self._commands.values() if one.session_id == session_id]
        if not commands:
            return record.updated_ms < before_ms
        return all(one.state in TERMINAL and parse_iso(one.ended_at or one.updated_at) < before_ms for one in commands)

    def _names(self, session_id: str) -> list[str]:
        return [*(command_stream(one.command.id) for one in self._commands.values() if one.session_id == session_id),
                session_stream(session_id)]

    def _confirmed(self, session_id: str) -> list[tuple[str, str, int]]:
        session = self._sessions[session_id]
        acked = _machine(session).get("control_acked", 0)
        return [key for key in self._controls if key[:2] == (session.tenant_id, session_id) and key[2] <= acked]

    def _files_of(self, session_id: str) -> list[tuple[str, str, str]]:
        tenant_id = self._sessions[session_id].tenant_id
        return [key for key in self._files if key[:2] == (tenant_id, session_id)]

    def _would_forget(self, session_id: str) -> PrunedRows:
        return PrunedRows(sum(self._streams.kept(name) for name in self._names(session_id)),
                          len(self._files_of(session_id)), len(self._confirmed(session_id)))


def _machine(record: SessionRecord) -> dict[str, Any]:
    return msgspec.json.decode(record.machine, type=dict[str, Any]) if record.machine else {}
