"""The demonstration's audit log: checked with the code of `interlock audit verify`, and tampered with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.command.audit.audit_check import AuditReport, verify
from interlock.gateway.audit.audit_state import verify_ledger_file
from interlock.gateway.audit.signing_key import PUBLIC_NAME, load_public_key

_TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'"
_MIDDLE = "SELECT tenant_id, seq, body FROM audit ORDER BY seq LIMIT 1 OFFSET (SELECT count(*) / 2 FROM audit)"
_CHANGE = "UPDATE audit SET body = ? WHERE tenant_id = ? AND seq = ?"


class _Record(msgspec.Struct):
    action: str = ""
    approval_id: str | None = None


class _Line(msgspec.Struct):
    record: _Record = msgspec.field(default_factory=_Record)


class Checked(NamedTuple):
    """Both checks: of the exported file, and of the state directory's own database."""

    exported: AuditReport
    stored: AuditReport


def check(state: Path, export: Path) -> Checked:
    """Check both; raises LedgerError, KeyUnusable, OSError."""
    with export.open("rb") as lines:
        exported = verify(lines, load_public_key(state / PUBLIC_NAME))
    return Checked(exported, verify_ledger_file(state))


def approved(export: Path) -> set[str]:
    """Return the approvals whose grant is recorded in an exported log."""
    decoder = msgspec.json.Decoder(_Line)
    found: set[str] = set()
    for line in export.read_bytes().splitlines():
        try:
            record = decoder.decode(line).record
        except msgspec.DecodeError:
            continue  # A tampered line proves nothing.
        if record.action == "approve" and record.approval_id is not None:
            found.add(record.approval_id)
    return found


def flip(state: Path, export: Path) -> None:
    """Change one bit of one byte, in the exported file and, past the triggers, in the database."""
    raw = bytearray(export.read_bytes())
    raw[len(raw) // 2] ^= 1
    export.write_bytes(raw)
    with closing(sqlite3.connect(state / LEDGER_NAME)) as database, database:
        for (name,) in database.execute(_TRIGGERS).fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        tenant_id, seq, body = database.execute(_MIDDLE).fetchone()
        changed = bytearray(body)
        changed[len(changed) // 2] ^= 1
        database.execute(_CHANGE, (bytes(changed), tenant_id, seq))
