"""Migration of a database's schema, in numbered steps that older gateways can work beside.

During a rolling upgrade, gateways of two versions use one database. So a migration only adds: tables, indexes, columns
with a default. Its first line is `-- oldest: N`, the oldest program (by its own newest migration) that works with its
result. A program older than that refuses the database, and so does one newer than the schema that may not migrate.

A step is one transaction, and the creation of an empty database is a single one. A step that fills a column of large
tables is in parts, so that older gateways do not wait long for any of them: `-- in batches of TABLE by KEY` begins an
UPDATE that is done for FILL_ROWS rows at a time, and `-- apart` a part of its own. Each batch and each part is a
transaction. Its version is recorded with the last of them; after a kill all parts are repeated, so each must be
repeatable, and an UPDATE selects only rows that are not filled. Triggers of the first part fill rows that are added
meanwhile.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, NamedTuple

import asyncpg

from interlock.backends import entity_rows
from interlock.backends.postgres import entities
from interlock.backends.postgres.database import PostgresConnection, shown
from interlock.backends.postgres.faults import NotAPostgresLedger, WrongSchema

MIGRATION_LOCK = 0x496C6B31
"""One gateway migrates at a time; the others wait for it, then find that nothing is left to do."""
STEP_TIMEOUT_S = 6 * 3_600.0
"""Timeout for a part that builds an index, or waits for another gateway's migration: it takes as long as there are
rows."""
FILL_ROWS = 2_000
"""Rows of one batch; an older gateway that writes to the table waits for one."""
MOVED = "moved_to"
"""The fact by which a database states that its ledger has moved."""
_OLDEST = re.compile(r"-- oldest: (\d+)\n")
_PART = re.compile(r"^-- (?:apart|in batches of (\w+) by ([\w, ]+))\n", re.MULTILINE)
_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
_HAS_VERSION = "SELECT to_regclass('schema_version') IS NOT NULL"
_VERSION = "SELECT version, oldest FROM schema_version ORDER BY version DESC LIMIT 1"
_NOTE = "INSERT INTO schema_version (version, oldest) VALUES ($1, $2)"


class MigrationPart(NamedTuple):
    """SQL that is run as it is, or if it has a table: an UPDATE that is done for some rows at a time, in the order of
    `key`."""

    sql: str
    table: str = ""
    key: tuple[str, ...] = ()

    def last_of_next(self, *, after: bool) -> str:
        """Return the query for the key of the last of the next FILL_ROWS rows; no row if fewer are left. With `after`
        they follow the key in the parameters."""
        columns = ", ".join(self.key)
        return (f"SELECT {columns} FROM {self.table} WHERE {self._within(after=after)} ORDER BY {columns} "
                f"OFFSET {FILL_ROWS - 1} LIMIT 1")

    def fill(self, *, after: bool, up_to: bool) -> str:
        """Return the UPDATE of the rows that follow a key and go up to another, in the parameters in this order."""
        return f"{self.sql.strip().removesuffix(';')} AND {self._within(after=after, up_to=up_to)}"

    def _within(self, *, after: bool, up_to: bool = False) -> str:
        columns = ", ".join(f"{self.table}.{column}" for column in self.key)
        bounds, number = ["true"], 1
        for bound, sign in ((after, ">"), (up_to, "<=")):
            if bound:
                bounds.append(f"({columns}) {sign} ({', '.join(f'${number + at}' for at in range(len(self.key)))})")
                number += len(self.key)
        return " AND ".join(bounds)


class Migration(NamedTuple):
    """A step. `oldest` is the oldest program that works beside it."""

    name: str
    sql: str
    oldest: int

    @property
    def parts(self) -> list[MigrationPart]:
        """Return its transactions; an UPDATE in batches is one for each batch."""
        first, *others = _PART.split(self.sql)
        named = [others[at:at + 3] for at in range(0, len(others), 3)]
        return [MigrationPart(first), *(MigrationPart(sql, table or "", tuple(key.split(", ")) if key else ())
                               for table, key, sql in named)]


def migrations() -> list[Migration]:
    """Return the steps; the first creates version 1 from an empty database."""
    folder = resources.files(__package__ or "interlock.backends.postgres") / "migrations"
    named = sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir()
                   if entry.name.endswith(".sql"))
    return [_migration(name, sql) for name, sql in named]


def _migration(name: str, sql: str) -> Migration:
    oldest = _OLDEST.match(sql)
    assert oldest is not None, f"{name} does not begin with the oldest program that works beside it"
    return Migration(name, sql, int(oldest[1]))


async def migrate(connection: PostgresConnection, dsn: str, *, may: bool = True) -> None:
    """Upgrade the schema; the next call continues one that was interrupted. With `may` false only check. Raises
    NotAPostgresLedger, WrongSchema."""
    while (number := await _migrate_whole_steps(connection, dsn, may=may)) is not None:
        for part in migrations()[number - 1].parts:
            await (_fill if part.table else _run_part)(connection, dsn, number, part)
        async with _Turn(connection):
            if (await _standing(connection, dsn))[0] < number:
                await connection.execute(_NOTE, number, migrations()[number - 1].oldest)


async def _migrate_whole_steps(connection: PostgresConnection, dsn: str, *, may: bool) -> int | None:
    """Run the steps that are one transaction, up to one that is not; returns that one's number, or None if the schema
    is up to date."""
    steps = migrations()
    async with _Turn(connection):
        version, oldest = await _standing(connection, dsn)
        if oldest > len(steps):
            raise WrongSchema(f"The ledger at {shown(dsn)} has schema {version}, which programs before schema {oldest} "
                              f"do not understand, and this one knows {len(steps)}: use the newer program.")
        if version < len(steps) and not may:
            raise WrongSchema(f"The ledger at {shown(dsn)} has schema {version}, and this program needs {len(steps)}: "
                              "start a gateway of this version on it once.")
        for number, step in enumerate(steps[version:], version + 1):
            if version and len(step.parts) > 1:
                return number
            await _change(connection, dsn, step.sql, step.name)
            await connection.execute(_NOTE, number, step.oldest)
        await _make_missing_tables(connection, dsn, may=may)
    return None


async def _run_part(connection: PostgresConnection, dsn: str, number: int, part: MigrationPart) -> None:
    async with _Turn(connection):
        if (await _standing(connection, dsn))[0] < number:
            await _change(connection, dsn, part.sql, migrations()[number - 1].name)


async def _fill(connection: PostgresConnection, dsn: str, number: int, part: MigrationPart) -> None:
    """Fill a table, a batch per transaction. Another gateway that starts meanwhile does the same, and finds rows that
    are filled; in the end one of them finds that the other has recorded the version."""
    after: tuple[Any, ...] = ()
    while True:
        async with _Turn(connection):
            if (await _standing(connection, dsn))[0] >= number:
                return
            # Without it, this and a writer that locks rows in another order could wait for each other.
            await connection.execute(f"LOCK TABLE {part.table} IN SHARE ROW EXCLUSIVE MODE", timeout=STEP_TIMEOUT_S)
            row = await connection.fetchrow(part.last_of_next(after=bool(after)), *after, timeout=STEP_TIMEOUT_S)
            up_to = tuple(row) if row is not None else ()
            fill = part.fill(after=bool(after), up_to=bool(up_to))
            await connection.fetch(fill, *after, *up_to, timeout=STEP_TIMEOUT_S)
        if not up_to:
            return
        after = up_to


async def _make_missing_tables(connection: PostgresConnection, dsn: str, *, may: bool) -> None:
    """Create the tables of entities that no migration has created. A program that does not know them works beside
    them."""
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


class _Turn:
    """A transaction in which no other gateway migrates."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        await self._connection.execute("BEGIN")
        try:
            await self._connection.execute("SET LOCAL statement_timeout = 0")
            await self._connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK, timeout=STEP_TIMEOUT_S)
        except Exception:
            await self._connection.execute("ROLLBACK")
            raise

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
