"""Maintenance of the ledger on PostgreSQL: counts, and deletion of old data in small steps (G-5)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.backends import rows
from interlock.backends.postgres import queries
from interlock.backends.postgres.database import PostgresConnection, PostgresReaders
from interlock.backends.postgres.texts import held
from interlock.backends.postgres.writer import PostgresWriter
from interlock.ports.upkeep import Counts, PrunedRows, Upkeep
from interlock.protocol.clock import iso
from interlock.protocol.records import SessionRecord

STEP_ROWS = 1_000
"""Rows that one transaction deletes: others' commits wait for milliseconds only."""


class _Incoming(msgspec.Struct):
    objects: list[str] = []


class _Machine(msgspec.Struct):
    """The part of a lane's state that deletion depends on."""

    control_acked: int = 0
    incoming: dict[str, _Incoming] = {}


_machine = msgspec.json.Decoder(_Machine)


class PostgresUpkeep(Upkeep):
    """See `interlock.ports.upkeep.Upkeep`."""

    _writer: PostgresWriter
    _readers: PostgresReaders

    async def counts(self) -> Counts:
        by_kind: dict[str, dict[str, int]] = {"command": {}, "approval": {}, "delivery": {}, "session": {}}
        for kind, state, count in await self._readers.rows(queries.COUNTS):
            by_kind[kind][state] = count
        return Counts(by_kind["command"], by_kind["approval"], by_kind["delivery"], by_kind["session"].get("", 0))

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        return [row[0] for row in await self._readers.rows(queries.OLD_SESSIONS, tenant_id, before_ms, after, limit)]

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        found = await self._readers.row(queries.WOULD_FORGET, tenant_id, session_id)
        if found is None:
            return PrunedRows()
        machine, events, files, controls = found
        acked = _read(machine).control_acked
        return PrunedRows(events, files, sum(seq <= acked for seq in controls))

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        total, named = PrunedRows(), (held(tenant_id), held(session_id))
        while True:
            now = await self._writer.run(lambda connection: _forget_session(connection, *named, before_ms))
            total += now
            if now == PrunedRows():
                return total

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        if dry:
            found = await self._readers.row(queries.OLD_FEED, tenant_id, before_ms)
            return int(found[0]) if found else 0
        return await self._in_steps(queries.FORGET_FEED, tenant_id, before_ms)

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        if dry:
            found = await self._readers.row(queries.OLD_DELIVERIES, tenant_id, iso(before_ms))
            return int(found[0]) if found else 0
        return await self._in_steps(queries.FORGET_DELIVERIES, tenant_id, iso(before_ms))

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        # A semicolon follows a colon in order: all keys of the agent are between the two.
        found = await self._readers.rows(queries.CURRENT_SESSIONS, tenant_id, max(after, f"agent:{agent_id}:"),
                                         f"agent:{agent_id};", limit)
        return [rows.session_of(row) for row in found]

    async def named_objects(self) -> set[str]:
        names: set[str] = {row[0] for row in await self._readers.rows(queries.FILE_OBJECTS)}
        for (machine,) in await self._readers.rows(queries.UNDER_WAY):
            names.update(name for one in _read(machine).incoming.values() for name in one.objects)
        return names

    async def _in_steps(self, statement: str, name: str, before: int | str) -> int:
        total = 0
        while True:
            now = await self._writer.run(lambda connection: changed(connection, statement, held(name), before,
                                                                    STEP_ROWS))
            total += now
            if now < STEP_ROWS:
                return total


async def _forget_session(connection: PostgresConnection, tenant_id: str, name: str, before_ms: int) -> PrunedRows:
    """Do one step; nothing if the session is not old, or all is done."""
    old = await connection.fetchrow(queries.IF_OLD, tenant_id, before_ms, name)
    if old is None:
        return PrunedRows()
    events = 0
    for (stream,) in await connection.fetch(queries.STREAMS_OF_SESSION, tenant_id, name):
        # Its own stream is last: while it has events, the session is found again after an interrupted run.
        events += await changed(connection, queries.FORGET_EVENTS, tenant_id, stream, STEP_ROWS - events)
        if events >= STEP_ROWS:
            return PrunedRows(events)
    files = await changed(connection, queries.FORGET_FILES, tenant_id, name, STEP_ROWS)
    controls = await changed(connection, queries.FORGET_CONTROLS, tenant_id, name, _read(old[0]).control_acked)
    return PrunedRows(events, files, controls)


async def changed(connection: PostgresConnection, statement: str, *values: Any) -> int:
    """Run a statement; returns how many rows it has changed."""
    return int((await connection.execute(statement, *values)).rpartition(" ")[2])


def _read(machine: bytes) -> _Machine:
    try:
        return _machine.decode(machine)
    except msgspec.DecodeError:
        return _Machine()
