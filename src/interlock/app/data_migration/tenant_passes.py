"""Copying a tenant from a database in use: all of it, then repeatedly the changes since.

Each pass reads one snapshot. A row that an earlier pass did not see was written by a transaction that is not older than
the oldest one open then: PostgreSQL stores the number of that transaction with each row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from interlock.app.data_migration.audit_comparison import agree, database_end
from interlock.app.data_migration.report import ANOTHER, MoveRefused, compared
from interlock.app.data_migration.tables import columns_there
from interlock.app.data_migration.tenant_rows import TENANT_TABLES, TRANSCRIPTS, TRANSCRIPTS_WHERE, where
from interlock.backends.postgres.audit_rows import BEGIN_READING
from interlock.backends.postgres.database import PostgresConnection, Row
from interlock.backends.postgres.texts import encoded

PREFETCH = 500
STREAMS_AT_ONCE = 5_000
LONG_S = 3_600.0
"""Timeout of one statement of a copy."""
_SINCE = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text"
_CHANGED = "age({name}.xmin) <= age($2::text::xid)"
_PUT_STREAMS = """
INSERT INTO stream (tenant_id, name, head) SELECT $3, * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT (tenant_id, name) DO UPDATE SET head = excluded.head RETURNING id, name
"""
_GROWN_EVENTS = """
SELECT {columns} FROM event JOIN unnest($1::bigint[], $2::bigint[]) AS grown (id, head)
ON event.stream_id = grown.id AND event.n > grown.head ORDER BY event.stream_id, event.n
"""
_KEYS = """
SELECT attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = $1::text::regclass AND indisprimary
"""
_HEAD = "SELECT count, last_hash, peaks FROM audit_head WHERE tenant_id = $1"
_TAIL = "SELECT seq, hash, body FROM audit WHERE tenant_id = $1 AND seq > $2 ORDER BY seq"
_STAYS = ("audit", "audit_node", "audit_head", "audit_personal")
"""Remains of a tenant that was here before are continued: a log is never deleted."""
_APPENDED = ("audit", "audit_personal")


class CopiedTable(NamedTuple):
    """A table, the columns that are copied, and the condition for the tenant's rows."""

    name: str
    columns: tuple[str, ...]
    where: str
    order: str


def _tables() -> list[CopiedTable]:
    found = [CopiedTable(table.name, tuple(one for one in columns_there(table) if one != table.counter),
                         where(table, "postgres"), "stream_id, n" if table.name == "event" else table.order)
             for table in TENANT_TABLES]
    return found + [CopiedTable(name, columns, TRANSCRIPTS_WHERE.format(t="$1::text"), ", ".join(columns[:3]))
                    for name, columns in TRANSCRIPTS.items()]


TABLES = _tables()
_EMPTIED = sorted(TABLES, key=lambda table: table.name in ("session", "command"))
"""The order in which rows are deleted: others belong to a tenant by its sessions and commands."""


class TenantCopy:
    """Copies one tenant between two connections. All its writes are one open transaction of `target`."""

    def __init__(self, source: PostgresConnection, target: PostgresConnection, tenant_id: str) -> None:
        self._source = source
        self._target = target
        self._tenant_id = encoded(tenant_id)
        self._since: str | None = None
        self._streams: dict[int, int] = {}
        self._heads: dict[int, int] = {}
        self._grown: dict[int, int] = {}
        self._audited = self._verified = 0
        self._keys: dict[str, list[str]] = {}

    async def clear(self) -> None:
        """Delete the remains of the tenant from before it was moved away. Raises MoveRefused if its log was
        continued."""
        head = await self._target.fetchrow(_HEAD, self._tenant_id)
        if head is not None and head[0]:
            known = await self._source.fetchval("SELECT hash FROM audit WHERE tenant_id = $1 AND seq = $2",
                                                self._tenant_id, head[0])
            if known != head[1]:
                raise MoveRefused("The destination has a log of this tenant that is not the beginning of the one to "
                                  "move, so nothing was moved.")
            self._audited = int(head[0])
        for table in _EMPTIED:
            if table.name not in _STAYS:
                await self._target.execute(f"DELETE FROM {table.name} WHERE {table.where}", self._tenant_id,
                                           timeout=LONG_S)

    async def run(self, *, last: bool = False) -> int:
        """Copy what has changed since the last pass, and with `last` compare both sides; returns how many rows were
        copied. Raises MoveRefused."""
        await self._source.execute(BEGIN_READING)
        try:
            since = await self._source.fetchval(_SINCE)
            copied = 0
            for table in TABLES:
                copied += await self._copied(table)
            if self._since is None:
                agree({"": await database_end(self._source, self._tenant_id)},
                      {"": await database_end(self._target, self._tenant_id)})
                self._verified = self._audited
            for table in _EMPTIED:
                await self._remove(table)
            if last:
                await self._compare()
            self._since = str(since)
            return copied
        finally:
            await self._source.execute("ROLLBACK")

    async def counts(self, connection: PostgresConnection) -> dict[str, int]:
        """Count the tenant's rows by table."""
        return {table.name: int(await connection.fetchval(
            f"SELECT count(*) FROM {table.name} WHERE {table.where}", self._tenant_id)) for table in TABLES}

    async def _copied(self, table: CopiedTable) -> int:
        if table.name == "stream":
            return await self._copy_streams(table)
        rows = self._rows(table)
        if table.name == "event":
            rows = self._renumbered(rows)
        if self._since is None and table.name not in _STAYS:
            return await self._write(table.name, table.columns, rows)
        return await self._merge(table, rows)

    def _rows(self, table: CopiedTable) -> AsyncIterator[Row]:
        columns = ", ".join(table.columns)
        values: list[Any] = [self._tenant_id]
        statement = f"SELECT {columns} FROM {table.name} WHERE {table.where}"
        if table.name == "audit":
            statement, values = f"{statement} AND seq > $2", [*values, self._audited]
        elif table.name == "event" and self._since is not None:
            return self._read(_GROWN_EVENTS.format(columns=columns), list(self._grown), list(self._grown.values()))
        elif self._since is not None:
            statement, values = f"{statement} AND {_CHANGED.format(name=table.name)}", [*values, self._since]
        return self._read(f"{statement} ORDER BY {table.order}", *values)

    async def _read(self, sql: str, *values: Any) -> AsyncIterator[Row]:
        async for row in cast("Any", self._source).cursor(sql, *values, prefetch=PREFETCH):
            yield tuple(row)

    async def _copy_streams(self, table: CopiedTable) -> int:
        changed = "" if self._since is None else f" AND {_CHANGED.format(name='stream')}"
        values = [self._tenant_id] if self._since is None else [self._tenant_id, self._since]
        found = await self._source.fetch(f"SELECT id, name, head FROM stream WHERE {table.where}{changed} ORDER BY id",
                                         *values, timeout=LONG_S)
        self._grown = {}
        for start in range(0, len(found), STREAMS_AT_ONCE):
            page = found[start:start + STREAMS_AT_ONCE]
            put = await self._target.fetch(_PUT_STREAMS, [row[1] for row in page], [row[2] for row in page],
                                           self._tenant_id)
            there = {row[1]: row[0] for row in put}
            for number, name, head in page:
                self._streams[number] = there[name]
                self._grown[number] = self._heads.get(number, 0)
                self._heads[number] = head
        return len(found)

    async def _renumbered(self, rows: AsyncIterator[Row]) -> AsyncIterator[Row]:
        async for stream, *rest in rows:
            yield self._streams[stream], *rest

    async def _write(self, name: str, columns: Sequence[str], rows: AsyncIterator[Row]) -> int:
        count = 0

        async def counted() -> AsyncIterator[Row]:
            nonlocal count
            async for row in rows:
                count += 1
                if name in ("audit", "moving_audit"):
                    self._audited = row[1]
                yield row

        await cast("Any", self._target).copy_records_to_table(name, records=counted(), columns=list(columns),
                                                              timeout=LONG_S)
        return count

    async def _merge(self, table: CopiedTable, rows: AsyncIterator[Row]) -> int:
        """Write rows, replacing those with the same key. Raises MoveRefused if one is another tenant's."""
        draft, columns = f"moving_{table.name}", ", ".join(table.columns)
        await self._target.execute(f"CREATE TEMP TABLE IF NOT EXISTS {draft} ON COMMIT DROP AS "
                                   f"SELECT {columns} FROM {table.name} WITH NO DATA")
        await self._target.execute(f"TRUNCATE {draft}")
        count = await self._write(draft, table.columns, rows)
        if not count:
            return 0
        keys = await self._key(table.name)
        rest = [] if table.name in _APPENDED else [column for column in table.columns if column not in keys]
        own = f" WHERE {table.name}.tenant_id = excluded.tenant_id" if "tenant_id" in rest else ""
        then = f"UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in rest)}{own}" if rest else "NOTHING"
        tag = await self._target.execute(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {draft} "
                                         f"ON CONFLICT ({', '.join(keys)}) DO {then}", timeout=LONG_S)
        if rest and int(tag.rsplit(" ", 1)[1]) != count:
            raise MoveRefused(f"The destination has a row of {table.name} under the same name as one of this tenant, "
                              f"so nothing was moved. {ANOTHER}")
        return count

    async def _remove(self, table: CopiedTable) -> None:
        """Delete what no longer exists at the source. That is rare, so only the count is compared first."""
        if table.name in _STAYS and table.name != "audit_personal":
            return
        count = f"SELECT count(*) FROM {table.name} WHERE {table.where}"
        if await self._source.fetchval(count, self._tenant_id) == await self._target.fetchval(count, self._tenant_id):
            return
        keys, draft = await self._key(table.name), f"kept_{table.name}"
        columns = ", ".join(keys)
        await self._target.execute(f"CREATE TEMP TABLE IF NOT EXISTS {draft} ON COMMIT DROP AS "
                                   f"SELECT {columns} FROM {table.name} WITH NO DATA")
        await self._target.execute(f"TRUNCATE {draft}")
        rows = self._read(f"SELECT {columns} FROM {table.name} WHERE {table.where}", self._tenant_id)
        await self._write(draft, keys, self._renumbered(rows) if table.name == "event" else rows)
        same = " AND ".join(f"kept.{one} = {table.name}.{one}" for one in keys)
        await self._target.execute(f"DELETE FROM {table.name} WHERE {table.where} AND NOT EXISTS "
                                   f"(SELECT FROM {draft} AS kept WHERE {same})", self._tenant_id, timeout=LONG_S)

    async def _compare(self) -> None:
        compared(await self.counts(self._source), await self.counts(self._target))
        sides = [(await connection.fetchrow(_HEAD, self._tenant_id),
                  await connection.fetch(_TAIL, self._tenant_id, self._verified))
                 for connection in (self._source, self._target)]
        if msgspec.msgpack.encode([tuple(row) for row in sides[0][1]]) != \
                msgspec.msgpack.encode([tuple(row) for row in sides[1][1]]) \
                or tuple(sides[0][0] or ()) != tuple(sides[1][0] or ()):
            raise MoveRefused("The audit log did not arrive as it was, so nothing was moved.")

    async def _key(self, name: str) -> list[str]:
        if name not in self._keys:
            found = [row[0] for row in await self._target.fetch(_KEYS, name)]
            # In the order in which rows have them: that of a stream is first.
            self._keys[name] = sorted(found, key=lambda one: one != "stream_id")
        return self._keys[name]
