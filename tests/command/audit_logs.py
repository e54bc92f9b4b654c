"""Audit logs as tests write them, and both checks of one log, which must agree."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.audit.audit import FIRST_PREV, checkpoint_line, record_line, seal
from interlock.command.audit.audit_check import verify, verify_records
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.audit_report import AuditReport
from interlock.command.audit.audit_tree import root_of
from interlock.command.audit.note import Checkpoint, origin_of, sign_checkpoint
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, AuditRecord

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key()
SALT = bytes(range(32))


def draft(i: int, **changes: Any) -> AuditDraft:
    fields: dict[str, Any] = {
        "tenant_id": "t1", "at": iso(1_000 * i), "who": {"id": "user:é", "role": "owner"}, "action": "vote",
        "command_id": f"cmd_{i}", "meta": {"decision": "grant", "n": i, "list": [True, {"b": "\n", "a": "😀"}]},
    }  # fmt: skip
    return AuditDraft(**{**fields, **changes})


def log(count: int, **changes: Any) -> list[AuditRecord]:
    return chained([draft(i, **changes) for i in range(1, count + 1)])


def chained(drafts: list[AuditDraft]) -> list[AuditRecord]:
    records: list[AuditRecord] = []
    prev = FIRST_PREV
    for seq, one in enumerate(drafts, 1):
        records.append(seal(one, seq, prev))
        prev = records[-1].hash
    return records


def checkpoint_of(records: list[AuditRecord], key: Ed25519PrivateKey = KEY, tenant_id: str = "t1") -> Checkpoint:
    root = root_of([bytes.fromhex(record.hash) for record in records])
    return sign_checkpoint(key, origin_of("gw_1", tenant_id), len(records), root)


def head_of(records: list[AuditRecord], count: int | None = None) -> bytes:
    return checkpoint_line(checkpoint_of(records[: len(records) if count is None else count]))


def check(records: list[AuditRecord], head: bytes | None) -> AuditReport:
    """The slow check, and that the quick one is of the same opinion."""
    report = verify_records(records, head, PUBLIC)
    if head is not None:
        lines = [*map(record_line, records), head]
        assert is_whole(lines, head, PUBLIC, rows=True) == (report if report.ok else None)
    return report


def check_lines(whole: bytes) -> AuditReport:
    lines = list(io.BytesIO(whole))
    report = verify(lines, PUBLIC)
    assert is_whole(lines, lines[-1] if lines else b"", PUBLIC) == (report if report.ok else None)
    return report


def personal_log(*, erased: bool, recorded: bool) -> list[AuditRecord]:
    drafts = [draft(1), draft(2, personal={"comment": "Ann said: \"go\"", "ip": "::1"}), draft(3)]
    drafts += [draft(4, action="redact", meta={"records": [2]})] if recorded else []
    records, prev = list[AuditRecord](), FIRST_PREV
    for seq, one in enumerate(drafts, 1):
        records.append(seal(one, seq, prev, [SALT] * len(one.personal)))
        prev = records[-1].hash
    if erased:
        records[1] = msgspec.structs.replace(records[1], personal={})
    return records
