"""Conversion between records and rows: index columns beside a body in JSON, or plain columns.

The databases differ in their statements, not in the content of a row.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.machine import TERMINAL
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    FileRecord,
    IdempotencyRecord,
    SessionRecord,
)

Row = tuple[Any, ...]
_encode = msgspec.json.Encoder().encode
_usage = msgspec.json.Decoder(dict[str, Any])
_headers = msgspec.json.Decoder(dict[str, str])
_command = msgspec.json.Decoder(CommandRecord)
_approval = msgspec.json.Decoder(ApprovalRecord)
_file = msgspec.json.Decoder(FileRecord)


def session_row(record: SessionRecord) -> Row:
    """Columns of PUT_SESSION."""
    return (
        record.session_id, record.tenant_id, record.session_key, record.agent_id, record.runner_id, record.workspace,
        record.state, record.created_ms, record.updated_ms, record.deadline_ms, _encode(record.usage), record.machine,
    )  # fmt: skip


def session_touch(record: SessionRecord) -> Row:
    """Columns of TOUCH_SESSION."""
    return (
        record.updated_ms, _encode(record.usage), record.machine, record.session_id, record.tenant_id,
        record.session_key, record.agent_id, record.runner_id, record.workspace, record.state, record.created_ms,
        record.deadline_ms,
    )  # fmt: skip


def session_of(row: Row) -> SessionRecord:
    """Read SESSION_COLUMNS."""
    (session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms, deadline_ms,
     usage, machine) = row  # fmt: skip
    return SessionRecord(
        session_id=session_id, tenant_id=tenant_id, session_key=session_key, agent_id=agent_id, runner_id=runner_id,
        workspace=workspace, state=state, created_ms=created_ms, updated_ms=updated_ms, deadline_ms=deadline_ms,
        machine=machine, usage=_usage_of(usage),
    )  # fmt: skip


def _usage_of(stored: Any) -> dict[str, Any]:
    """Parse the counts of a session, a copy of those in its state: an unreadable copy must not make the session
    unreadable, and the next write replaces it. `audit verify` reports it (H-5)."""
    try:
        return _usage.decode(stored)
    except (msgspec.MsgspecError, TypeError):
        return {}


def ended_ms(record: CommandRecord) -> int | None:
    """Return when a command reached its terminal state; None if it has not."""
    command = record.command
    if command.state not in TERMINAL:
        return None
    return parse_iso(command.ended_at or command.updated_at)


def command_row(record: CommandRecord) -> Row:
    """Columns of PUT_COMMAND."""
    command = record.command
    return (
        command.id, command.tenant_id, record.session_id, command.state, command.target.agent_id, command.actor.id,
        ended_ms(record), command.type, _encode(record),
    )  # fmt: skip


def command_of(row: Row) -> CommandRecord:
    """Read a command's body."""
    return _command.decode(row[0])


def approval_row(record: ApprovalRecord) -> Row:
    """Columns of PUT_APPROVAL."""
    approval = record.approval
    return approval.id, approval.tenant_id, approval.session_id, approval.state, _encode(record)


def approval_of(row: Row) -> ApprovalRecord:
    """Read an approval's body."""
    return _approval.decode(row[0])


def idempotency_row(record: IdempotencyRecord) -> Row:
    """Columns of ADD_IDEMPOTENCY but for the tenant."""
    return (
        record.scope, record.fingerprint, record.status, _encode(record.headers), record.body, record.created_ms,
        record.command_id,
    )  # fmt: skip


def idempotency_of(tenant_id: str, scope: str, row: Row) -> IdempotencyRecord:
    """Read the columns of IDEMPOTENCY."""
    fingerprint, status, headers, body, created_ms, command_id = row
    return IdempotencyRecord(
        tenant_id=tenant_id, scope=scope, fingerprint=fingerprint, status=status, headers=_headers.decode(headers),
        body=body, created_ms=created_ms, command_id=command_id,
    )  # fmt: skip


def file_row(record: FileRecord) -> Row:
    """Columns of ADD_FILE."""
    return record.session_id, record.transfer_id, _encode(record)


def file_of(body: bytes) -> FileRecord:
    """Read a file's body."""
    return _file.decode(body)


_personal = msgspec.json.Decoder(dict[str, tuple[str, str]])


def audit_of(tenant_id: str, row: Row) -> AuditRecord:
    """Read (seq, hash, body, personal values as JSON or None)."""
    seq, hash_, body, personal = row
    return AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body,
                       personal=personal_of(personal))


def personal_of(shown: str | None) -> dict[str, tuple[str, str]]:
    """Parse the personal values of a record, as the query returns them. Raises msgspec.MsgspecError."""
    return _personal.decode(shown) if shown is not None else {}
