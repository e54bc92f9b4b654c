"""Maintenance of the ledger on PostgreSQL: what one transaction deletes, and reads of its own (G-5)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.backends import sql_upkeep
from interlock.backends.postgres import queries
from interlock.backends.postgres.database import PostgresConnection, PostgresReaders
from interlock.backends.postgres.texts import encoded
from interlock.backends.postgres.writer import PostgresWriter
from interlock.ports.upkeep import PrunedRows


class _Incoming(msgspec.Struct):
    objects: list[str] = []


class _Machine(msgspec.Struct):
    """The part of a lane's state that deletion depends on."""

    control_acked: int = 0
    incoming: dict[str, _Incoming] = {}


_machine = msgspec.json.Decoder(_Machine)


class PostgresUpkeep(sql_upkeep.SqlUpkeep[PostgresReaders]):
    """See `interlock.ports.upkeep.Upkeep`."""

    _writer: PostgresWriter

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        found = await self._readers.row(queries.WOULD_FORGET, tenant_id, session_id)
        if found is None:
            return PrunedRows()
        machine, events, files, controls = found
        acked = _read(machine).control_acked
        return PrunedRows(events, files, sum(seq <= acked for seq in controls))

    async def named_objects(self) -> set[str]:
        names: set[str] = {row[0] for row in await self._readers.rows(queries.FILE_OBJECTS)}
        for (machine,) in await self._readers.rows(queries.UNDER_WAY):
            names.update(name for one in _read(machine).incoming.values() for name in one.objects)
        return names

    async def _forget_step(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        return await self._writer.run(
            lambda connection: _forget_step(connection, encoded(tenant_id), encoded(session_id), before_ms))

    async def _delete(self, statement: str, *values: str | int) -> int:
        stored = [encoded(one) if isinstance(one, str) else one for one in values]
        return await self._writer.run(lambda connection: _changed(connection, statement, *stored))


async def _forget_step(connection: PostgresConnection, tenant_id: str, name: str, before_ms: int) -> PrunedRows:
    old = await connection.fetchrow(queries.IF_OLD, tenant_id, before_ms, name)
    if old is None:
        return PrunedRows()
    step, events = sql_upkeep.STEP_ROWS, 0
    for (stream,) in await connection.fetch(queries.STREAMS_OF_SESSION, tenant_id, name):
        # Its own stream is last: while it has events, the session is found again after an interrupted run.
        events += await _changed(connection, queries.FORGET_EVENTS, tenant_id, stream, step - events)
        if events >= step:
            return PrunedRows(events)
    files = await _changed(connection, queries.FORGET_FILES, tenant_id, name, step)
    controls = await _changed(connection, queries.FORGET_CONTROLS, tenant_id, name, _read(old[0]).control_acked)
    return PrunedRows(events, files, controls)


async def _changed(connection: PostgresConnection, statement: str, *values: Any) -> int:
    return int((await connection.execute(statement, *values)).rpartition(" ")[2])


def _read(machine: bytes) -> _Machine:
    try:
        return _machine.decode(machine)
    except msgspec.DecodeError:
        return _Machine()
