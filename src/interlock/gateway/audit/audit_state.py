"""Verification of the audit logs of a state directory, with the gateway running or stopped (U-5)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.sqlite.audit_rows import audit_rows
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.command.audit.audit import noted_line, record_line
from interlock.command.audit.audit_check import verify_records
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.audit_report import AuditReport, Tampering, plural, unbroken
from interlock.command.audit.note import Checkpoint, is_genuine
from interlock.gateway.audit.checkpoints import begun_empty, newest
from interlock.gateway.audit.row_state import StoredRows, compare_rows
from interlock.gateway.audit.signing_key import PUBLIC_NAME, load_public_key

CHECKPOINTS_NAME = "audit"
"""The folder of a state directory that has the checkpoints."""


class LedgerRows(StoredRows, Protocol):
    """The tables of a ledger at one instant."""

    def head(self, tenant_id: str) -> tuple[int, str]: ...

    def noted(self, tenant_id: str) -> str | None: ...


def verify_ledger_file(state: Path, store: str | None = None) -> AuditReport:
    """Verify the audit logs of all tenants in a state directory, with the gateway running or stopped (U-2); with
    `store` those in that database, by the key and the checkpoints of the state directory.

    Returns the report of the first tenant with a bad log, otherwise one with the sums. Raises LedgerError if the
    database cannot be read, KeyUnusable if the public key cannot.
    """
    reports = verify_tenants(state, store)
    bad = next((report for report in reports if not report.ok), None)
    if bad is not None:
        return bad
    with _rows(state, store) as rows:
        differing = compare_rows(rows)
    if differing:
        differ = f"{plural(len(differing), 'row')} of the database {'differs' if len(differing) == 1 else 'differ'}"
        return AuditReport(ok=False, tenant_id=None, records=sum(report.records for report in reports),
                           kind=Tampering.ROWS,
                           signature_checked=True, rows=differing,
                           message=f"the log is whole, and {differ} from it.")
    records = sum(report.records for report in reports)
    unsigned = sum(report.not_yet_signed for report in reports)
    erased = sum(report.erased for report in reports)
    message = unbroken(records, unsigned, erased, len(reports))
    return AuditReport(ok=True, tenant_id=reports[0].tenant_id if len(reports) == 1 else None, records=records,
                       not_yet_signed=unsigned, erased=erased, signature_checked=True, message=message)


def verify_tenants(state: Path, store: str | None = None) -> list[AuditReport]:
    """Verify each tenant's audit log; returns one report each, by tenant."""
    key = load_public_key(state / PUBLIC_NAME)
    sink = CheckpointFiles(state / CHECKPOINTS_NAME)
    # The checkpoints are read before the rows: a later signature must not look like a truncated log.
    kept = {tenant_id: sink.lines(tenant_id) for tenant_id in sink.tenants()}
    with _rows(state, store) as rows:
        return [_Kept(rows, tenant_id, kept.get(tenant_id, []), key, None if store is not None else sink).verify()
                for tenant_id in sorted({*rows.tenants(), *kept})]


def _rows(state: Path, store: str | None) -> AbstractContextManager[LedgerRows]:
    if store is None:
        return audit_rows(state / LEDGER_NAME)
    from interlock.backends.postgres.audit_rows import audit_rows as rows_in_database
    from interlock.backends.postgres.database import read_settings

    return rows_in_database(read_settings(store))


class _Kept:
    """A tenant's log in a database, and its stored checkpoints: lines of a file, a copy in the database."""

    def __init__(self, rows: LedgerRows, tenant_id: str, lines: list[bytes], key: Ed25519PublicKey,
                 sink: CheckpointFiles | None) -> None:
        """Create the check; `sink` is that of the only gateway on the database: its file has every checkpoint. None
        with several gateways."""
        self._rows = rows
        self._tenant_id = tenant_id
        self._lines = lines
        self._key = key
        self._sink = sink

    def verify(self) -> AuditReport:
        """Verify the log against all of them."""
        head = newest(self._lines)
        earlier, unreadable = _earlier(self._lines, head)
        if unreadable is not None:
            return self._bad(Tampering.BAD_SIGNATURE, f"Line {unreadable} of the checkpoints of {self._tenant_id} is "
                             "not in the form it was written in.")
        noted = self._rows.noted(self._tenant_id)
        if noted is None and begun_empty(self._lines) and self._rows.head(self._tenant_id)[0]:
            return self._bad(Tampering.HEAD_MISSING, f"The database's copy of the last checkpoint of {self._tenant_id} "
                             "was removed.")
        if noted is not None:
            line = noted_line(noted)
            copy = parse_checkpoint_line(line)
            if copy is None or not is_genuine(copy, self._key):
                return self._bad(Tampering.BAD_SIGNATURE, f"The database's copy of the last checkpoint of "
                                 f"{self._tenant_id} does not bear the signature of the gateway's key.")
            last = parse_checkpoint_line(head) if head is not None else None
            if head is not None and (last is None or last.origin != copy.origin or not is_genuine(last, self._key)):
                return self._bad(Tampering.BAD_SIGNATURE, f"The last line of the checkpoints of {self._tenant_id} does "
                                 "not bear the signature of the gateway's key for this log.")
            if last is not None and last.size >= copy.size:
                earlier = [*earlier, copy]
            else:
                if (found := self._behind(copy)) is not None:
                    return found
                head, earlier = line, [*earlier, *(() if last is None else (last,))]
        return self._verify(head, earlier)

    def _verify(self, head: bytes | None, earlier: list[Checkpoint]) -> AuditReport:
        whole = None
        if head is not None:
            lines = chain(map(record_line, self._rows.records(self._tenant_id)), (head,))
            whole = is_whole(lines, head, self._key, earlier, rows=True)
        report = whole or verify_records(self._rows.records(self._tenant_id), head, self._key, earlier)
        report = msgspec.structs.replace(report, tenant_id=self._tenant_id)
        return _against_noted(report, *self._rows.head(self._tenant_id))

    def _behind(self, copy: Checkpoint) -> AuditReport | None:
        """Return a report if the file ends before the database's copy. A checkpoint is written to the file before the
        database: such a file was truncated, removed or replaced by an older one."""
        if self._sink is None:
            return None
        now = newest(self._sink.lines(self._tenant_id))
        last = parse_checkpoint_line(now) if now is not None else None
        if last is not None and last.size >= copy.size:
            return None
        ends = "is missing" if last is None else f"ends at record {last.size}"
        return self._bad(Tampering.HEAD_MISSING, f"The file of checkpoints of {self._tenant_id} {ends}, and the "
                         f"database has a copy of one at record {copy.size}: the file was removed, cut or replaced by "
                         "an older one.")

    def _bad(self, kind: Tampering, message: str) -> AuditReport:
        return AuditReport(ok=False, tenant_id=self._tenant_id, records=0, kind=kind, signature_checked=True,
                           message=message)


def _earlier(kept: list[bytes], head: bytes | None) -> tuple[list[Checkpoint], int | None]:
    """Return the checkpoints before the last; a torn line is accepted only where a power cut leaves one: before
    another."""
    read: list[Checkpoint] = []
    for number, line in enumerate(kept, 1):
        if line is head:
            break
        found = parse_checkpoint_line(line)
        if found is None:
            return read, number
        read.append(found)
    return read, None


def _against_noted(report: AuditReport, noted: int, last_hash: str) -> AuditReport:
    """Compare with the end of the log according to the database itself."""
    tenant_id = report.tenant_id
    if report.kind is Tampering.CUT_TAIL and noted == report.records:
        message = (f"The database of {tenant_id} agrees with itself and ends at record {noted}, but more had been "
                   "signed: an older copy of it was put back.")
        return msgspec.structs.replace(report, kind=Tampering.ROLLED_BACK, message=message)
    if not report.ok or (noted, last_hash) == (report.records, report.last_hash):
        return report
    kind = Tampering.REWRITTEN
    if noted != report.records:
        kind = Tampering.CUT_TAIL if noted > report.records else Tampering.INSERTED
    return msgspec.structs.replace(
        report, ok=False, kind=kind, seq=min(noted, report.records) + (noted != report.records),
        message=f"The database of {tenant_id} has {report.records} records, and has noted another end of the log "
        f"(record {noted}).",
    )
