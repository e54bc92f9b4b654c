"""The ledger of `tamper-database`: a file of SQLite, or a database of PostgreSQL, copied for each trial."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import apsw
import asyncpg

from interlock.backends.postgres import audit_rows as in_postgres
from interlock.backends.postgres.database import PostgresConnection, PostgresSettings, connect
from interlock.backends.postgres.ledger import open_ledger as open_database
from interlock.backends.sqlite.audit_rows import audit_rows
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import open_ledger
from interlock.gateway.audit.row_state import StoredRows
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger


class Refused(Exception):
    """The database does not take an edit."""


class Editing(Protocol):
    """A connection of an attacker who edits the database. In statements each value is a `?`."""

    async def keys(self, table: str) -> list[str]: ...

    async def columns(self, table: str) -> list[str]: ...

    async def rows(self, statement: str, *values: Any) -> list[Sequence[Any]]: ...

    async def change(self, statement: str, *values: Any) -> None:
        """Make an edit. Raises Refused."""
        ...

    async def insert(self, table: str, values: dict[str, Any]) -> None:
        """Insert a row, in the place of one with the same key. Raises Refused."""
        ...


class Store(Protocol):
    """What is there before each trial, and a copy of it that a trial works on."""

    async def open_base(self, clock: Clock) -> Ledger: ...

    async def copy(self) -> None:
        """Start the trial with what is there before each."""
        ...

    async def open_trial(self, clock: Clock) -> Ledger: ...

    def editing(self) -> AbstractAsyncContextManager[Editing]:
        """Open the trial's database past the ledger; triggers are out of the way."""
        ...

    def base_rows(self) -> AbstractContextManager[StoredRows]: ...

    def trial_rows(self) -> AbstractContextManager[StoredRows]:
        """Read the trial's rows without an event loop, as `audit verify --database` does."""
        ...


class SqliteStore:
    """Two files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._base, self._trial = folder / "base.db", folder / "trial.db"

    async def open_base(self, clock: Clock) -> Ledger:
        return await open_ledger(self._base, clock)

    async def copy(self) -> None:
        for left in self._trial.parent.glob(f"{self._trial.name}*"):
            left.unlink()
        shutil.copy(self._base, self._trial)

    async def open_trial(self, clock: Clock) -> Ledger:
        return await open_ledger(self._trial, clock)

    @asynccontextmanager
    async def editing(self) -> AsyncGenerator[Editing]:
        connection = cast("SqliteDatabase", apsw.Connection(str(self._trial)))
        connection.set_busy_timeout(5_000)
        try:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            yield _InFile(connection)
        finally:
            connection.close()

    def base_rows(self) -> AbstractContextManager[StoredRows]:
        return audit_rows(self._base)

    def trial_rows(self) -> AbstractContextManager[StoredRows]:
        return audit_rows(self._trial)


class _InFile:
    def __init__(self, connection: SqliteDatabase) -> None:
        self._connection = connection

    async def keys(self, table: str) -> list[str]:
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall() if row[5]]

    async def columns(self, table: str) -> list[str]:
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall()]

    async def rows(self, statement: str, *values: Any) -> list[Sequence[Any]]:
        return list(self._connection.execute(statement, values).fetchall())

    async def change(self, statement: str, *values: Any) -> None:
        try:
            self._connection.execute(statement, values)
        except apsw.ConstraintError as error:
            raise Refused from error

    async def insert(self, table: str, values: dict[str, Any]) -> None:
        await self.change(f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) "
                          f"VALUES ({','.join('?' * len(values))})", *values.values())


class PostgresStore:
    """Two databases of a server; the trial's is made of the other as its template."""

    def __init__(self, server: str, name: str) -> None:
        """`server` is the address of the server's database `postgres`."""
        self._server, self._base, self._trial = server, f"{name}_base", f"{name}_trial"

    async def open_base(self, clock: Clock) -> Ledger:
        await self._run(f"CREATE DATABASE {self._base}")
        return await open_database(self._settings(self._base), clock)

    async def copy(self) -> None:
        await self.remove_trial()
        await self._run(f"CREATE DATABASE {self._trial} TEMPLATE {self._base}")

    async def remove_trial(self) -> None:
        """Remove the trial's database."""
        await self._run(f"DROP DATABASE IF EXISTS {self._trial} WITH (FORCE)")

    async def open_trial(self, clock: Clock) -> Ledger:
        return await open_database(self._settings(self._trial), clock)

    @asynccontextmanager
    async def editing(self) -> AsyncGenerator[Editing]:
        connection = await connect(self._settings(self._trial))
        try:
            await connection.execute("SET session_replication_role = replica")  # Triggers of the tables do not fire.
            yield _InDatabase(connection)
        finally:
            await connection.close()

    def base_rows(self) -> AbstractContextManager[StoredRows]:
        return in_postgres.audit_rows(self._settings(self._base))

    def trial_rows(self) -> AbstractContextManager[StoredRows]:
        return in_postgres.audit_rows(self._settings(self._trial))

    def _settings(self, name: str) -> PostgresSettings:
        return PostgresSettings(self._server.replace("/postgres?", f"/{name}?"))

    async def _run(self, statement: str) -> None:
        connection = await connect(PostgresSettings(self._server))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


_KEYS = """
SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = $1::regclass AND indisprimary ORDER BY attnum
"""
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped " \
    "ORDER BY attnum"


class _InDatabase:
    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def keys(self, table: str) -> list[str]:
        return [row[0] for row in await self._connection.fetch(_KEYS, table)]

    async def columns(self, table: str) -> list[str]:
        return [row[0] for row in await self._connection.fetch(_COLUMNS, table)]

    async def rows(self, statement: str, *values: Any) -> list[Sequence[Any]]:
        return [tuple(row) for row in await self._connection.fetch(_numbered(statement), *values)]

    async def change(self, statement: str, *values: Any) -> None:
        try:
            await self._connection.execute(_numbered(statement), *values)
        except (asyncpg.PostgresError, asyncpg.DataError, asyncpg.InterfaceError) as error:
            raise Refused from error  # A column has one type here, and a generated one only the server's values.

    async def insert(self, table: str, values: dict[str, Any]) -> None:
        others = ", ".join(f"{name} = excluded.{name}" for name in values if name != "place")
        await self.change(
            f"INSERT INTO {table} ({', '.join(values)}) OVERRIDING SYSTEM VALUE VALUES ({','.join('?' * len(values))}) "
            f"ON CONFLICT ({', '.join(await self.keys(table))}) DO UPDATE SET {others}", *values.values())


def _numbered(statement: str) -> str:
    first, *rest = statement.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
