"""Maintenance of the ledger on SQLite: what one transaction deletes, and reads of its own (G-5)."""

from __future__ import annotations

from interlock.backends import sql_upkeep
from interlock.backends.sqlite import queries
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.writer import SqliteWriter
from interlock.ports.upkeep import PrunedRows


class SqliteUpkeep(sql_upkeep.SqlUpkeep[SqliteReaders]):
    """See `interlock.ports.upkeep.Upkeep`."""

    _writer: SqliteWriter

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        found = await self._readers.row(queries.WOULD_FORGET, session_id, tenant_id)
        return PrunedRows(*found) if found else PrunedRows()

    async def named_objects(self) -> set[str]:
        return {row[0] for row in await self._readers.rows(queries.NAMED_OBJECTS)}

    async def _forget_step(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        return await self._writer.run(
            lambda transaction: _forget_step(transaction.connection, tenant_id, session_id, before_ms))

    async def _delete(self, statement: str, *values: str | int) -> int:
        return await self._writer.run(lambda transaction: _changed(transaction.connection, statement, *values))


def _forget_step(connection: SqliteDatabase, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
    if not connection.execute(queries.IS_OLD, (session_id, before_ms, tenant_id)).get:
        return PrunedRows()
    step, events = sql_upkeep.STEP_ROWS, 0
    for (stream,) in connection.execute(queries.STREAMS_OF_SESSION, (session_id,)).fetchall():
        # Its own stream is last: while it has events, the session is found again after an interrupted run.
        events += _changed(connection, queries.FORGET_EVENTS, stream, step - events)
        if events >= step:
            return PrunedRows(events)
    files = _changed(connection, queries.FORGET_FILES, session_id, step)
    return PrunedRows(events, files, _changed(connection, queries.FORGET_CONTROLS, session_id))


def _changed(connection: SqliteDatabase, statement: str, *values: str | int) -> int:
    connection.execute(statement, values)
    return connection.changes()
