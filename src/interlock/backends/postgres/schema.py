"""Bringing a database's schema up to date, in numbered steps that older gateways go on beside.

A rolling upgrade has gateways of two versions on one database. So a migration only adds: tables, indexes, columns with
a default. Its first line says `-- oldest: N`, the oldest program (by its own newest migration) that works on what it
leaves. A program older than that refuses the database, and so does one newer than the schema where it may not migrate.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

import asyncpg

from interlock.backends import entity_rows
from interlock.backends.postgres import entities
from interlock.backends.postgres.database import PostgresConnection, shown
from interlock.backends.postgres.faults import NotAPostgresLedger, WrongSchema

MIGRATION_LOCK = 0x496C6B31
"""One gateway migrates at a time; the others wait for it, then find that nothing is left to do."""
STEP_TIMEOUT_S = 6 * 3_600.0
"""One step that fills a column of every row takes as long as there are rows."""
MOVED = "moved_to"
"""The fact by which a database says that its ledger is elsewhere now."""
_OLDEST = re.compile(r"-- oldest: (\d+)\n")
_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
_HAS_VERSION = "SELECT to_regclass('schema_version') IS NOT NULL"
_VERSION = "SELECT version, oldest FROM schema_version ORDER BY version DESC LIMIT 1"
_NOTE = "INSERT INTO schema_version (version, oldest) VALUES ($1, $2)"


class Migration(NamedTuple):
    """One step. `oldest` is the oldest program that works beside it."""

    name: str
    sql: str
    oldest: int


def migrations() -> list[Migration]:
    """Give the steps; the first makes version 1 out of an empty database."""
    folder = resources.files(__package__ or "interlock.backends.postgres") / "migrations"
    named = sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir()
                   if entry.name.endswith(".sql"))
    return [_migration(name, sql) for name, sql in named]


def _migration(name: str, sql: str) -> Migration:
    oldest = _OLDEST.match(sql)
    assert oldest is not None, f"{name} does not begin with the oldest program that works beside it"
    return Migration(name, sql, int(oldest[1]))


async def migrate(connection: PostgresConnection, dsn: str, *, may: bool = True) -> None:
    """Bring the schema up to date, all of it or nothing. With `may` false only look. Raises NotALedger, WrongSchema."""
    steps = migrations()
    async with _Transaction(connection):
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK, timeout=STEP_TIMEOUT_S)
        version, oldest = await _standing(connection, dsn)
        if oldest > len(steps):
            raise WrongSchema(f"The ledger at {shown(dsn)} has schema {version}, which programs before schema {oldest} "
                              f"do not understand, and this one knows {len(steps)}: use the newer program.")
        if version < len(steps) and not may:
            raise WrongSchema(f"The ledger at {shown(dsn)} has schema {version}, and this program needs {len(steps)}: "
                              "start a gateway of this version on it once.")
        for number, step in enumerate(steps[version:], version + 1):
            await _change(connection, dsn, step.sql, step.name)
            await connection.execute(_NOTE, number, step.oldest)
        await _make_missing_tables(connection, dsn, may=may)


async def _make_missing_tables(connection: PostgresConnection, dsn: str, *, may: bool) -> None:
    """Make the tables of entities that no migration has made. A program that does not know them works beside them."""
    for entity in await entities.missing_tables(connection):
        if not may:
            raise WrongSchema(f"The ledger at {shown(dsn)} has no table {entity.table}: start a gateway of this "
                              "version on it once.")
        await _change(connection, dsn, entity_rows.table_sql(entity, "postgres"), f"table {entity.table}")


async def _change(connection: PostgresConnection, dsn: str, sql: str, name: str) -> None:
    try:
        await connection.execute(sql, timeout=STEP_TIMEOUT_S)
    except asyncpg.InsufficientPrivilegeError as error:
        raise WrongSchema(f"The schema at {shown(dsn)} must be changed ({name}), and this user may not: "
                          f"{error}. Grant it CREATE on the schema, or start once as its owner.") from error


async def _standing(connection: PostgresConnection, dsn: str) -> tuple[int, int]:
    if await connection.fetchval(_HAS_VERSION):
        row = await connection.fetchrow(_VERSION)
        return (int(row[0]), int(row[1])) if row is not None else (0, 0)
    if await connection.fetchval(_TABLES):
        raise NotAPostgresLedger(f"The database at {shown(dsn)} holds tables of another program, and is not a ledger: "
                                 f"name an "
                                 "empty one.")
    return 0, 0


class _Transaction:
    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        await self._connection.execute("BEGIN")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
