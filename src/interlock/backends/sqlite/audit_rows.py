"""The audit table of the file, read without the ledger: for verification, with the gateway running or stopped."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from interlock.backends.bound_rows import BoundRows
from interlock.backends.rows import Row, personal_of
from interlock.backends.sqlite import queries
from interlock.backends.sqlite.connect import connect
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.faults import translate
from interlock.command.audit.audit import CHECKPOINT_FACT, FIRST_PREV
from interlock.ports.ledger import LedgerError
from interlock.protocol.records import AuditRecord, ControlRecord, StoredSession

_TENANTS = "SELECT tenant_id FROM audit_head UNION SELECT tenant_id FROM audit ORDER BY 1"
_ALL_BEFORE = "SELECT seq, hash, body FROM audit WHERE tenant_id = ? AND (seq < 1 OR typeof(seq) <> 'integer')"
_WITHOUT_PERSONAL = "SELECT seq, hash, body, NULL FROM audit WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_HAS_PERSONAL = "SELECT count(*) FROM sqlite_schema WHERE name = 'audit_personal'"
_PAGE = 1_000
_SESSIONS = """
SELECT session_id, tenant_id, session_key, agent_id, runner_id, workspace, usage, machine FROM session
WHERE session_id > ? ORDER BY session_id LIMIT ?
"""


class AuditRows(BoundRows):
    """A snapshot of the audit tables. A value of a wrong type, which only tampering leaves, yields a bad record."""

    _engine = "sqlite"

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        # A file of an older version has no personal values yet.
        self._records = queries.AUDIT_AFTER if database.execute(_HAS_PERSONAL).get else _WITHOUT_PERSONAL

    def tenants(self) -> list[str]:
        """Return every tenant that has records or a head."""
        return [str(row[0]) for row in self._database.execute(_TENANTS).fetchall()]

    def records(self, tenant_id: str) -> Iterator[AuditRecord]:
        """Yield a tenant's rows in the order of `seq`."""
        for seq, hash_, body in self._database.execute(_ALL_BEFORE, (tenant_id,)).fetchall():
            yield _record(tenant_id, seq, hash_, body, None)
        after = 0
        while page := self._database.execute(self._records, (tenant_id, after, _PAGE)).fetchall():
            for seq, hash_, body, personal in page:
                if not isinstance(seq, int):
                    return
                after = seq
                yield _record(tenant_id, seq, hash_, body, personal)

    def head(self, tenant_id: str) -> tuple[int, str]:
        """Return the count and last hash that the database itself has stored."""
        found = self._database.execute(queries.AUDIT_HEAD, (tenant_id,)).fetchone()
        return (int(found[0]), str(found[1])) if found else (0, FIRST_PREV)

    def noted(self, tenant_id: str) -> str | None:
        """Return the database's copy of the last checkpoint, as its fact has it."""
        found = self._database.execute(queries.STORE_VALUE, (CHECKPOINT_FACT + tenant_id,)).fetchone()
        return str(found[0]) if found else None

    def sessions(self) -> Iterator[StoredSession]:
        """Read every session's row, with its control frames. A value of a wrong type is kept as unreadable."""
        after = ""
        while page := self._database.execute(_SESSIONS, (after, _PAGE)).fetchall():
            for session_id, *texts, usage, machine in page:
                after = session_id
                tenant_id, session_key, agent_id, runner_id, workspace = map(str, texts)
                controls = self._database.execute(queries.CONTROLS_AFTER, (session_id, texts[0], -1)).fetchall()
                yield StoredSession(
                    session_id=str(session_id), tenant_id=tenant_id, session_key=session_key, agent_id=agent_id,
                    runner_id=runner_id, workspace=workspace, usage=_bytes(usage), machine=_bytes(machine),
                    controls=[ControlRecord(session_id=str(session_id), seq=seq, message_id=str(message_id),
                                            body=_bytes(body))
                              for seq, message_id, body in controls if isinstance(seq, int)])

    def _rows(self, sql: str) -> list[Row]:
        return self._database.execute(sql).fetchall()


@contextmanager
def audit_rows(path: Path) -> Generator[AuditRows]:
    """Open a ledger's file for verification. Raises LedgerError if it is missing, damaged or unreadable."""
    if not path.is_file():
        raise LedgerError(f"There is no ledger at {path}.")
    try:
        database = connect(path, read_only=True)
        try:
            database.execute("BEGIN")
            yield AuditRows(database)
        finally:
            database.close()
    except apsw.Error as error:
        raise translate(error) from error


def _record(tenant_id: str, seq: object, hash_: object, body: object, personal: str | None) -> AuditRecord:
    raw = _bytes(body)
    try:
        opened = personal_of(personal)
    except msgspec.MsgspecError:
        opened = {"": ("", "")}  # A value that no record commits to.
    return AuditRecord(tenant_id=tenant_id, seq=seq if isinstance(seq, int) else 0, hash=str(hash_), body=raw,
                       personal=opened)


def _bytes(value: object) -> bytes:
    """Read a column of bytes; a value of another type, which tampering left, yields other bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
