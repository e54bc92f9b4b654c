"""The source of a tenant's move: a state directory's file, or a database, while no gateway uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol, cast

from interlock.app.data_migration.audit_comparison import End, database_end, file_end
from interlock.app.data_migration.into_postgres import copy_rows, copy_transcripts, transcript_files
from interlock.app.data_migration.report import MoveRefused
from interlock.app.data_migration.tables import MigratedTable, columns_there, row_there
from interlock.app.data_migration.tenant_rows import TRANSCRIPTS, TRANSCRIPTS_WHERE, where
from interlock.backends.postgres.database import (
    PostgresConnection,
    close_quietly,
    first_connection,
    read_settings,
    shown,
)
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite.connect import connect
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.backends.sqlite.lock import StateLock, lock_state
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger

Row = tuple[Any, ...]
PREFETCH = 500
_AT_WORK = (
    "SELECT count(*) FROM command WHERE tenant_id = {t} AND ended_ms IS NULL",
    "SELECT count(*) FROM approval WHERE tenant_id = {t} AND state IN ('pending', 'granted')",
    "SELECT count(*) FROM delivery WHERE tenant_id = {t} AND due_ms IS NOT NULL",
)
HAS_INSTANCES = "SELECT to_regclass('instance') IS NOT NULL"
_ALIVE = "SELECT count(*) FROM instance WHERE expires_ms > interlock_now_ms()"


class TenantSource(Protocol):
    """The ledger that has the tenant; no other program writes to it."""

    ledger: Ledger
    gateway_id: str
    shown: str
    store: str | None
    """The database's address, None for a file."""

    def rows(self, table: MigratedTable, tenant_id: str) -> AsyncIterator[Row]:
        """Return a tenant's rows in PostgreSQL's form, in order."""
        ...

    async def count(self, table: MigratedTable, tenant_id: str) -> int: ...

    async def at_work(self, tenant_id: str) -> list[int]:
        """Count commands, approvals and deliveries that have not ended."""
        ...

    async def end(self, tenant_id: str) -> End: ...

    async def copy_transcripts(self, target: PostgresConnection, tenant_id: str) -> None: ...

    async def close(self) -> None: ...


class FileSource(TenantSource):
    """The ledger of a state directory whose gateway is stopped; it is locked until it is closed."""

    store = None

    def __init__(self, state: Path, clock: Clock, ledger: Ledger, gateway_id: str, lock: StateLock) -> None:
        self._lock = lock
        self._state = state
        self._clock = clock
        self._database = connect(state / LEDGER_NAME, read_only=True)
        self.ledger = ledger
        self.gateway_id = gateway_id
        self.shown = str(state)

    async def rows(self, table: MigratedTable, tenant_id: str) -> AsyncIterator[Row]:
        found = self._database.execute(
            f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {where(table, 'sqlite')} "
            f"ORDER BY {table.order}", (tenant_id,))
        for row in cast("Any", found):
            yield row_there(table, tuple(row))

    async def count(self, table: MigratedTable, tenant_id: str) -> int:
        return int(self._database.execute(
            f"SELECT count(*) FROM {table.name} WHERE {where(table, 'sqlite')}", (tenant_id,)).get)

    async def at_work(self, tenant_id: str) -> list[int]:
        return [int(self._database.execute(sql.format(t="?"), (tenant_id,)).get) for sql in _AT_WORK]

    async def end(self, tenant_id: str) -> End:
        return file_end(self._database, tenant_id)

    async def copy_transcripts(self, target: PostgresConnection, tenant_id: str) -> None:
        sessions = {row[0]: row[1:] for row in self._database.execute(
            "SELECT session_id, agent_id, workspace, created_ms FROM session WHERE tenant_id = ?",
            (tenant_id,)).fetchall()}
        await copy_transcripts(self._database, target, self._state, self._clock, sessions,
                               transcript_files(self._state), sessions)

    async def close(self) -> None:
        self._database.close()
        await self.ledger.close()
        self._lock.release()


class DatabaseSource(TenantSource):
    """The ledger of a cluster whose gateways are stopped."""

    def __init__(self, dsn: str, connection: PostgresConnection, ledger: Ledger, gateway_id: str) -> None:
        self._connection = connection
        self.ledger = ledger
        self.gateway_id = gateway_id
        self.shown = shown(dsn)
        self.store = dsn

    async def rows(self, table: MigratedTable, tenant_id: str) -> AsyncIterator[Row]:
        order = "stream_id, n" if table.name == "event" else table.order
        found = cast("Any", self._connection).cursor(
            f"SELECT {', '.join(columns_there(table))} FROM {table.name} WHERE {where(table, 'postgres')} "
            f"ORDER BY {order}", tenant_id, prefetch=PREFETCH)
        async for row in found:
            yield tuple(row)

    async def count(self, table: MigratedTable, tenant_id: str) -> int:
        return int(await self._connection.fetchval(
            f"SELECT count(*) FROM {table.name} WHERE {where(table, 'postgres')}", tenant_id))

    async def at_work(self, tenant_id: str) -> list[int]:
        return [int(await self._connection.fetchval(sql.format(t="$1"), tenant_id)) for sql in _AT_WORK]

    async def end(self, tenant_id: str) -> End:
        return await database_end(self._connection, tenant_id)

    async def copy_transcripts(self, target: PostgresConnection, tenant_id: str) -> None:
        for name, columns in TRANSCRIPTS.items():
            found = await self._connection.fetch(
                f"SELECT {', '.join(columns)} FROM {name} WHERE {TRANSCRIPTS_WHERE.format(t='$1::text')}", tenant_id)
            await copy_rows(target, name, columns, (tuple(row) for row in found))

    async def close(self) -> None:
        await close_quietly(self._connection)
        await self.ledger.close()


async def at_work(dsn: str) -> bool:
    """Return whether gateways use the ledger of a database. Raises LedgerError."""
    connection = await first_connection(read_settings(dsn))
    try:
        return bool(await connection.fetchval(HAS_INSTANCES) and await connection.fetchval(_ALIVE))
    finally:
        await close_quietly(connection)


async def open_source(state: Path, dsn: str | None, clock: Clock) -> TenantSource:
    """Open the ledger that a tenant is moved from. Raises MoveRefused, LedgerError, AlreadyRunning."""
    if dsn is None:
        return await _open_file(state, clock)
    ledger = await open_in_postgres(read_settings(dsn), clock, keeps_transcripts=True)
    try:
        connection = await first_connection(read_settings(dsn))
    except BaseException:
        await ledger.close()
        raise
    source = DatabaseSource(dsn, connection, ledger, await ledger.gateway_id())
    try:
        # No gateway starts there meanwhile: its first statements write to this table.
        await connection.execute("BEGIN; LOCK TABLE store IN SHARE ROW EXCLUSIVE MODE")
        if await connection.fetchval(_ALIVE):
            raise MoveRefused(f"Gateways work on the ledger at {source.shown}: stop them first.")
    except BaseException:
        await source.close()
        raise
    return source


async def _open_file(state: Path, clock: Clock) -> TenantSource:
    if not (state / LEDGER_NAME).is_file():
        raise MoveRefused(f"There is no ledger in {state}, so there is nothing to move: name its directory with "
                          "--state, or its database with --from.")
    lock = lock_state(state)
    try:
        ledger = await open_ledger(state / LEDGER_NAME, clock)
        return FileSource(state, clock, ledger, await ledger.gateway_id(), lock)
    except BaseException:
        lock.release()
        raise
