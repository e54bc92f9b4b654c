"""Possible findings of an audit log's verification, and their sentences (U-5)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from interlock.command.audit.audit import FIRST_PREV


class Tampering(StrEnum):
    """A kind of tampering with a log."""

    BIT_FLIPPED = "bit flipped"
    RECORD_CHANGED = "record changed"
    HASH_CHANGED = "hash changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CUT_TAIL = "cut tail"
    ROLLED_BACK = "rolled back"
    REWRITTEN = "rewritten"
    FORKED = "forked"
    PERSONAL_CHANGED = "personal data changed"
    PERSONAL_MISSING = "personal data missing"
    BAD_SIGNATURE = "bad signature"
    HEAD_MISSING = "checkpoint missing"
    UNSIGNED = "unsigned tail"
    ROWS = "rows changed"
    """The log is intact, and rows of the database differ from it."""


def unbroken(records: int, unsigned: int, erased: int, tenants: int | None = None) -> str:
    """Return the sentence for an intact log of this number of records, and of tenants if that is known."""
    whole = plural(records, "record") + ("" if tenants is None else f" of {plural(tenants, 'tenant')}")
    # For one log, its last records; for several logs, the last of each.
    open_ = f"; {'the last ' if tenants is None else ''}{unsigned} not yet signed" if unsigned else ""
    gone = f"; personal data of {plural(erased, 'record')} was erased" if erased else ""
    return f"{whole}, all in order and unchanged{open_}{gone}."


def plural(number: int, noun: str) -> str:
    """Write "1 record", "3 records"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. `seq` is the first bad record, None if the checkpoint itself is at fault."""

    ok: bool
    tenant_id: str | None
    records: int
    """Number of good records, up to the first bad one."""
    last_hash: str = FIRST_PREV
    """Hash of the last good record."""
    not_yet_signed: int = 0
    """Good records after the checkpoint; no failure within the bounds of `audit`."""
    erased: int = 0
    """Records whose personal data was erased, documented by a record (U-4)."""
    signature_checked: bool = False
    """False if no public key was passed: then the checkpoint proves nothing by itself."""
    seq: int | None = None
    kind: Tampering | None = None
    message: str = ""
    """One sentence for people."""
    rows: list[str] = []
    """A sentence for each row of the database that differs from the log (H-5)."""
