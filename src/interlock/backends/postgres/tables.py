"""The statement for each write of a batch: what many batches write to one table is one statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.backends import rows
from interlock.backends.postgres import entities, statements
from interlock.backends.postgres.operations import (
    Keyed,
    Row,
    RowOperation,
    TableStatement,
    keep_first,
    keyed,
    unkeyed,
)
from interlock.ports.entities import ENTITIES
from interlock.ports.ledger import Fenced
from interlock.ports.writes import (
    AdvanceFact,
    BeginLane,
    DropControls,
    DropTranscript,
    EraseAudit,
    LedgerWrite,
    PutApproval,
    PutCommand,
    PutControl,
    PutFact,
    PutFile,
    PutIdempotency,
    PutSession,
    PutTranscript,
)


def _command(write: PutCommand) -> Row:
    return (*rows.command_row(write.record), write.record.created_ms)


def _file(write: PutFile) -> Row:
    return (write.tenant_id, *rows.file_row(write.record), "\n".join(write.record.objects))


def _control(write: PutControl) -> Row:
    record = write.record
    return write.tenant_id, record.session_id, record.seq, record.message_id, record.body


def _line(write: PutTranscript) -> Row:
    return write.line.tenant_id, write.line.session_id, write.line.entry_id, write.line.line


def _dropped_lines(write: DropTranscript) -> Keyed:
    return ((row, row) for row in ((write.tenant_id, write.session_id, one) for one in write.entry_ids))


def _erased(write: EraseAudit) -> Keyed:
    return (((write.tenant_id, seq), (write.tenant_id, seq)) for seq in write.seqs)


OPS: dict[type[LedgerWrite], RowOperation] = {
    BeginLane: RowOperation("lane", statements.BEGIN_LANES, unkeyed(lambda write: tuple(write.lane)),
                  every=lambda: Fenced("A lane is begun that has been taken before.")),
    PutSession: RowOperation("session", statements.PUT_SESSION, keyed(lambda write: rows.session_row(write.record))),
    PutCommand: RowOperation("command", statements.PUT_COMMAND, keyed(_command)),
    PutApproval: RowOperation("approval", statements.PUT_APPROVAL,
                              keyed(lambda write: rows.approval_row(write.record))),
    PutControl: RowOperation("control", statements.PUT_CONTROL, keyed(_control, 3)),
    DropControls: RowOperation("control", statements.DROP_CONTROLS,
                               keyed(lambda write: (write.tenant_id, write.session_id, write.seq), 3)),
    PutFile: RowOperation("file", statements.ADD_FILE, keyed(_file, 3), keep_first),
    PutIdempotency: RowOperation("idempotency", statements.ADD_IDEMPOTENCY,
                       unkeyed(lambda write: (write.record.tenant_id, *rows.idempotency_row(write.record)))),
    AdvanceFact: RowOperation("store", statements.ADVANCE_FACT, keyed(lambda write: (write.name, write.value))),
    PutFact: RowOperation("store", statements.PUT_FACT, keyed(lambda write: (write.name, write.value))),
    EraseAudit: RowOperation("audit_personal", statements.ERASE_PERSONAL, _erased),
    PutTranscript: RowOperation("transcript_pending", statements.PUT_PENDING, keyed(_line, 3)),
    DropTranscript: RowOperation("transcript_pending", statements.DROP_PENDING, _dropped_lines),
}
_BEHIND = ("store", "audit_personal", "transcript_pending")
TABLES = [*(table for table in dict.fromkeys(op.table for op in OPS.values()) if table not in _BEHIND),
          *(entity.table for entity in ENTITIES), *_BEHIND]
"""The order in which every transaction accesses them, so that two seldom wait for each other."""


def operation_of(write: LedgerWrite) -> RowOperation | None:
    """Return the statement of a write; None for one that does not concern a row."""
    return OPS.get(type(write)) or entities.operation_of(write)


def controls_apart(steps: Iterable[TableStatement]) -> list[TableStatement] | None:
    """Merge writes of control frames and their confirmations, if no frame is confirmed by the group that writes it."""
    puts, drops = TableStatement(OPS[PutControl]), TableStatement(OPS[DropControls])
    for step in steps:
        (puts if step.op is puts.op else drops).add(step.rows.items())
    upto: dict[Any, int] = {}
    for _, session_id, seq in drops.rows.values():
        upto[session_id] = max(seq, upto.get(session_id, seq))
    if any(seq <= upto.get(session_id, 0) for _, session_id, seq, *_ in puts.rows.values()):
        return None
    return [step for step in (puts, drops) if step.rows]
