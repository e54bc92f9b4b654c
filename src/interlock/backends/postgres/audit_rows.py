"""The audit tables in PostgreSQL, read without the ledger: for verification, with gateways running or stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from interlock.backends.bound_rows import BoundRows
from interlock.backends.postgres import queries
from interlock.backends.postgres.database import (
    PostgresConnection,
    PostgresSettings,
    Row,
    close_quietly,
    first_connection,
)
from interlock.backends.postgres.faults import NotAPostgresLedger, translate
from interlock.backends.postgres.texts import decoded, encoded
from interlock.backends.rows import Row as Columns
from interlock.command.audit.audit import CHECKPOINT_FACT, FIRST_PREV
from interlock.protocol.records import AuditRecord, ControlRecord, StoredSession

T = TypeVar("T")

PAGE = 1_000
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TENANTS = "SELECT tenant_id FROM audit_head WHERE count > 0 UNION SELECT tenant_id FROM audit ORDER BY 1"
FIRST = "SELECT coalesce(min(seq), 1) - 1 FROM audit WHERE tenant_id = $1"
SESSIONS = """
SELECT session_id, tenant_id, session_key, agent_id, runner_id, workspace, usage, machine FROM session
WHERE session_id > $1 ORDER BY session_id LIMIT $2
"""
CONTROLS_OF = """
SELECT c.session_id, c.seq, c.message_id, c.body
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, session_id)
JOIN control AS c ON c.tenant_id = wanted.tenant_id AND c.session_id = wanted.session_id ORDER BY c.session_id, c.seq
"""
HAS_AUDIT = "SELECT to_regclass('audit_head') IS NOT NULL"


class Runs(Protocol):
    """Runs asynchronous code for synchronous callers."""

    def __call__(self, reading: Coroutine[Any, Any, T], /) -> T: ...


class PostgresAuditRows(BoundRows):
    """One snapshot of the audit tables, as `backends.sqlite.audit_rows.AuditRows` shows those of a file."""

    _engine = "postgres"

    def __init__(self, connection: PostgresConnection, run: Runs) -> None:
        self._connection = connection
        self._run = run

    def tenants(self) -> list[str]:
        """Return every tenant that has records or a head."""
        return [decoded(row[0]) for row in self._run(self._connection.fetch(TENANTS))]

    def records(self, tenant_id: str) -> Iterator[AuditRecord]:
        """Yield a tenant's rows in the order of `seq`."""
        name = encoded(tenant_id)
        after = int(self._run(self._connection.fetchval(FIRST, name)))
        while page := self._run(self._connection.fetch(queries.AUDIT_AFTER, name, after, PAGE)):
            for row in page:
                after = row[0]
                yield record_of(tenant_id, row)

    def head(self, tenant_id: str) -> tuple[int, str]:
        """Return the count and last hash that the database itself has stored."""
        found = self._run(self._connection.fetchrow(queries.AUDIT_HEAD, encoded(tenant_id)))
        return (int(found[0]), str(found[1])) if found is not None else (0, FIRST_PREV)

    def noted(self, tenant_id: str) -> str | None:
        """Return the database's copy of the last checkpoint, as its fact has it."""
        found = self._run(self._connection.fetchval(queries.STORE_VALUE, encoded(CHECKPOINT_FACT + tenant_id)))
        return decoded(str(found)) if found is not None else None

    def sessions(self) -> Iterator[StoredSession]:
        """Read every session's row, with its control frames."""
        after = ""
        while page := self._run(self._connection.fetch(SESSIONS, after, PAGE)):
            controls: dict[str, list[ControlRecord]] = {name: [] for name, *_ in page}
            tenants = [tenant_id for _, tenant_id, *_ in page]
            for name, seq, message_id, body in self._run(
                    self._connection.fetch(CONTROLS_OF, tenants, list(controls))):
                controls[name].append(ControlRecord(
                    session_id=decoded(name), seq=seq, message_id=decoded(message_id), body=body))
            for name, *texts, usage, machine in page:
                after = name
                tenant_id, session_key, agent_id, runner_id, workspace = map(decoded, texts)
                yield StoredSession(
                    session_id=decoded(name), tenant_id=tenant_id, session_key=session_key, agent_id=agent_id,
                    runner_id=runner_id, workspace=workspace, usage=usage, machine=machine, controls=controls[name])

    def _rows(self, sql: str) -> Iterator[Columns]:
        for row in self._run(self._connection.fetch(sql)):
            yield tuple(decoded(one) if isinstance(one, str) else one for one in row)


def record_of(tenant_id: str, row: Row) -> AuditRecord:
    """Read a row of AUDIT_AFTER."""
    seq, hash_, body, names, salts, values = row
    return AuditRecord(
        tenant_id=tenant_id, seq=seq, hash=hash_, body=body,
        personal={decoded(name): (salt, value.decode("utf-8", "replace"))
                  for name, salt, value in zip(names, salts, values, strict=True)},
    )  # fmt: skip


@contextmanager
def audit_rows(settings: PostgresSettings) -> Generator[PostgresAuditRows]:
    """Open a database for verification, when no loop runs. Raises LedgerError."""
    with asyncio.Runner() as runner:
        connection = runner.run(first_connection(settings))
        try:
            runner.run(connection.execute(BEGIN_READING))
            if not runner.run(connection.fetchval(HAS_AUDIT)):
                raise NotAPostgresLedger("There is no ledger in this database.")
            yield PostgresAuditRows(connection, runner.run)
        except OSError as error:
            raise translate(error) from error
        finally:
            runner.run(close_quietly(connection))
