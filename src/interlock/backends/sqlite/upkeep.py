"""What operators ask of the ledger on SQLite: counts, and forgetting what is old in small steps (G-5)."""

from __future__ import annotations

from collections.abc import Callable

from interlock.backends import rows
from interlock.backends.sqlite import queries
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.transaction import Transaction
from interlock.backends.sqlite.writer import SqliteWriter
from interlock.ports.upkeep import Counts, PrunedRows, Upkeep
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import tenant_stream
from interlock.protocol.records import SessionRecord

STEP_ROWS = 1_000
"""Rows that one transaction deletes: others' commits wait for milliseconds only."""


class SqliteUpkeep(Upkeep):
    """See `interlock.ports.upkeep.Upkeep`."""

    _writer: SqliteWriter
    _readers: SqliteReaders

    async def counts(self) -> Counts:
        found = await self._readers.rows(queries.COUNTS)
        by_kind: dict[str, dict[str, int]] = {"command": {}, "approval": {}, "delivery": {}, "session": {}}
        for kind, state, count in found:
            by_kind[kind][state] = count
        return Counts(by_kind["command"], by_kind["approval"], by_kind["delivery"], by_kind["session"].get("", 0))

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        found = await self._readers.rows(queries.OLD_SESSIONS, tenant_id, before_ms, after, limit)
        return [row[0] for row in found]

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        found = await self._readers.row(queries.WOULD_FORGET, session_id, tenant_id)
        return PrunedRows(*found) if found else PrunedRows()

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        total = PrunedRows()
        while True:
            now: PrunedRows = await self._writer.run(
                lambda transaction: _forget_session(transaction, tenant_id, session_id, before_ms))
            total += now
            if now == PrunedRows():
                return total

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        stream = tenant_stream(tenant_id)
        if dry:
            found = await self._readers.row(queries.OLD_FEED, stream, before_ms)
            return int(found[0]) if found else 0
        return await self._in_steps(queries.FORGET_FEED, (stream, before_ms))

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        if dry:
            found = await self._readers.row(queries.OLD_DELIVERIES, tenant_id, iso(before_ms))
            return int(found[0]) if found else 0
        return await self._in_steps(queries.FORGET_DELIVERIES, (tenant_id, iso(before_ms)))

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        # A semicolon is what follows a colon: all keys of the agent lie between the two.
        found = await self._readers.rows(queries.CURRENT_SESSIONS, tenant_id, max(after, f"agent:{agent_id}:"),
                                         f"agent:{agent_id};", limit)
        return [rows.session_of(row) for row in found]

    async def named_objects(self) -> set[str]:
        return {row[0] for row in await self._readers.rows(queries.NAMED_OBJECTS)}

    async def _in_steps(self, statement: str, bindings: tuple[str | int, ...]) -> int:
        total = 0
        while True:
            step: Callable[[Transaction], int] = lambda transaction: _changed(  # noqa: E731
                transaction.connection, statement, (*bindings, STEP_ROWS))
            now: int = await self._writer.run(step)
            total += now
            if now < STEP_ROWS:
                return total


def _forget_session(transaction: Transaction, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
    """Take one step; nothing where the session is not old, or all is done."""
    connection = transaction.connection
    if not connection.execute(queries.IS_OLD, (session_id, before_ms, tenant_id)).get:
        return PrunedRows()
    events = 0
    for (stream,) in connection.execute(queries.STREAMS_OF_SESSION, (session_id,)).fetchall():
        # Its own stream comes last: while it holds something, the session is found again after a broken run.
        events += _changed(connection, queries.FORGET_EVENTS, (stream, STEP_ROWS - events))
        if events >= STEP_ROWS:
            return PrunedRows(events)
    files = _changed(connection, queries.FORGET_FILES, (session_id, STEP_ROWS))
    return PrunedRows(events, files, _changed(connection, queries.FORGET_CONTROLS, (session_id,)))


def _changed(connection: SqliteDatabase, statement: str, bindings: tuple[str | int, ...]) -> int:
    connection.execute(statement, bindings)
    return connection.changes()
