"""Verification of both sides' audit records: the file's as a chain, both sides' byte by byte against each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from interlock.app.data_migration.report import MoveRefused
from interlock.backends.postgres import queries
from interlock.backends.postgres.audit_rows import FIRST, PAGE, TENANTS, record_of
from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.texts import decoded
from interlock.backends.sqlite.audit_rows import AuditRows
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.command.audit.audit_check import verify_records
from interlock.command.audit.audit_report import Tampering
from interlock.protocol.records import AuditRecord


class End(NamedTuple):
    """The number of a log's records, the hash of the last, and one over all of them with the data beside them."""

    records: int
    last_hash: str
    digest: str


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def take(self, records: Iterable[AuditRecord]) -> Iterator[AuditRecord]:
        """Yield records unchanged."""
        for record in records:
            personal = sorted(record.personal.items())
            for part in (str(record.seq).encode(), record.hash.encode(), record.body, repr(personal).encode()):
                self._hash.update(len(part).to_bytes(8, "big") + part)
            yield record

    def hex(self) -> str:
        return self._hash.hexdigest()


def file_ends(source: SqliteDatabase) -> dict[str, End]:
    """Check the logs in a file, by tenant. Raises MoveRefused."""
    rows, ends = AuditRows(source), dict[str, End]()
    for tenant in rows.tenants():
        digest, noted = _Digest(), rows.head(tenant)
        report = verify_records(digest.take(rows.records(tenant)), None)
        # The checkpoints stay where they are, with the key that signed them: they are not affected by a move.
        if not report.ok and report.kind is not Tampering.HEAD_MISSING:
            raise MoveRefused(f"The audit log of {tenant} was changed, so nothing was moved: {report.message}")
        if noted != (report.records, report.last_hash):
            raise MoveRefused(f"The audit log of {tenant} does not end at the position stored in the ledger, so "
                              "nothing was moved.")
        ends[tenant] = End(*noted, digest.hex())
    return ends


async def database_ends(connection: PostgresConnection) -> dict[str, End]:
    """Read the logs in PostgreSQL, in the open transaction."""
    return {decoded(name): await database_end(connection, name) for (name,) in await connection.fetch(TENANTS)}


async def database_end(connection: PostgresConnection, name: str) -> End:
    """Read one tenant's log in PostgreSQL, in the open transaction. `name` is as stored in the database."""
    digest = _Digest()
    after = int(await connection.fetchval(FIRST, name))
    while page := await connection.fetch(queries.AUDIT_AFTER, name, after, PAGE):
        for record in digest.take(record_of(decoded(name), row) for row in page):
            after = record.seq
    head = await connection.fetchrow(queries.AUDIT_HEAD, name)
    return End(int(head[0]) if head is not None else 0, str(head[1]) if head is not None else "", digest.hex())


def file_end(source: SqliteDatabase, tenant_id: str) -> End:
    """Read one tenant's log in a file."""
    rows, digest = AuditRows(source), _Digest()
    for _ in digest.take(rows.records(tenant_id)):
        pass
    return End(*rows.head(tenant_id), digest.hex())


def agree(source: dict[str, End], target: dict[str, End]) -> int:
    """Compare both sides; returns the total of records. Raises MoveRefused."""
    wrong = sorted(name for name in {*source, *target} if source.get(name) != target.get(name))
    if wrong:
        raise MoveRefused(f"The audit log of {', '.join(wrong)} did not arrive as it was, so nothing was moved.")
    return sum(end.records for end in source.values())
