"""How records become rows of a database and rows become records: index columns beside a body in JSON, or plain columns.

The databases differ in their statements, not in what a row says.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.machine import TERMINAL
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    BrowserLoginRecord,
    CommandRecord,
    DeliveryRecord,
    DrainRecord,
    FileRecord,
    IdempotencyRecord,
    KeyRecord,
    PairingRecord,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    UsageRecord,
)

Row = tuple[Any, ...]
_encode = msgspec.json.Encoder().encode
_usage = msgspec.json.Decoder(dict[str, Any])
_headers = msgspec.json.Decoder(dict[str, str])
_command = msgspec.json.Decoder(CommandRecord)
_approval = msgspec.json.Decoder(ApprovalRecord)
_delivery = msgspec.json.Decoder(DeliveryRecord)
_rule = msgspec.json.Decoder(RuleRecord)
_drain = msgspec.json.Decoder(DrainRecord)
_runner = msgspec.json.Decoder(RunnerRecord)
_signing_key = msgspec.json.Decoder(SigningKeyRecord)
_file = msgspec.json.Decoder(FileRecord)
_pairing = msgspec.json.Decoder(PairingRecord)
_browser_login = msgspec.json.Decoder(BrowserLoginRecord)
_key = msgspec.json.Decoder(KeyRecord)
_tenant = msgspec.json.Decoder(TenantRecord)


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
    """Read the counts of a session, a copy of those in its state: a copy that cannot be read must not make the session
    unreadable, and the next write replaces it. `audit verify` names it (H-5)."""
    try:
        return _usage.decode(stored)
    except (msgspec.MsgspecError, TypeError):
        return {}


def ended_ms(record: CommandRecord) -> int | None:
    """When a command reached its terminal state; None while it has not."""
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
    """Columns of ADD_IDEMPOTENCY."""
    return (
        record.scope, record.fingerprint, record.status, _encode(record.headers), record.body, record.created_ms,
        record.command_id,
    )  # fmt: skip


def idempotency_of(scope: str, row: Row) -> IdempotencyRecord:
    """Read the columns of IDEMPOTENCY."""
    fingerprint, status, headers, body, created_ms, command_id = row
    return IdempotencyRecord(
        scope=scope, fingerprint=fingerprint, status=status, headers=_headers.decode(headers), body=body,
        created_ms=created_ms, command_id=command_id,
    )  # fmt: skip


def delivery_row(record: DeliveryRecord) -> Row:
    """Columns of PUT_DELIVERY."""
    return record.delivery.id, record.delivery.tenant_id, record.delivery.state, record.due_ms, _encode(record)


def delivery_of(row: Row) -> DeliveryRecord:
    """Read a question's body."""
    return _delivery.decode(row[0])


def drain_row(record: DrainRecord) -> Row:
    """Columns of PUT_DRAIN."""
    return record.tenant_id, record.drain.scope, record.drain.id or "", _encode(record)


def drain_of(row: Row) -> DrainRecord:
    """Read a drain's body."""
    return _drain.decode(row[0])


def rule_row(record: RuleRecord) -> Row:
    """Columns of PUT_RULE."""
    return record.rule.id, record.rule.tenant_id, int(record.rule.revoked_at is not None), _encode(record)


def rule_of(row: Row) -> RuleRecord:
    """Read a remembered rule's body."""
    return _rule.decode(row[0])


def spending_row(record: SpendingRecord) -> Row:
    """Columns of SPEND."""
    return (record.tenant_id, record.budget, record.scope, record.day, record.spent_micros, record.raised_micros)


def spending_of(row: Row) -> SpendingRecord:
    """Read a row of SPENDING."""
    tenant_id, budget, scope, day, spent, raised = row
    return SpendingRecord(tenant_id=tenant_id, budget=budget, scope=scope, day=day, spent_micros=spent,
                          raised_micros=raised)


def usage_row(record: UsageRecord) -> Row:
    """Columns of COUNT_USAGE."""
    return msgspec.structs.astuple(record)


def signing_key_row(record: SigningKeyRecord) -> Row:
    """Columns of PUT_SIGNING_KEY."""
    return record.key.key_id, record.key.tenant_id, _encode(record)


def signing_key_of(row: Row) -> SigningKeyRecord:
    """Read a signing key's body."""
    return _signing_key.decode(row[0])


def runner_row(record: RunnerRecord) -> Row:
    """Columns of PUT_RUNNER."""
    return record.runner_id, record.tenant_id, record.token_sha256, record.last_seen_ms, _encode(record)


def runner_of(row: Row) -> RunnerRecord:
    """Read a runner's body, and when it was last seen; a row from before that column has 0 there."""
    record = _runner.decode(row[0])
    return msgspec.structs.replace(record, last_seen_ms=row[1]) if row[1] else record


def file_row(record: FileRecord) -> Row:
    """Columns of ADD_FILE."""
    return record.session_id, record.transfer_id, _encode(record)


def file_of(body: bytes) -> FileRecord:
    """Read a file's body."""
    return _file.decode(body)


def pairing_row(record: PairingRecord) -> Row:
    """Columns of ADD_PAIRING."""
    return record.code_sha256, record.tenant_id, record.expires_ms, _encode(record)


def pairing_of(row: Row) -> PairingRecord:
    """Read a code's body."""
    return _pairing.decode(row[0])


def browser_login_row(record: BrowserLoginRecord) -> Row:
    """Columns of ADD_BROWSER_LOGIN."""
    return record.id, record.tenant_id, record.expires_ms, record.last_used_ms, _encode(record)


def changed_browser_login_row(record: BrowserLoginRecord) -> Row:
    """Columns of CHANGE_BROWSER_LOGIN."""
    return record.tenant_id, record.id, _encode(record)


def browser_login_of(row: Row) -> BrowserLoginRecord:
    """Read a browser session or code, and when it was last used."""
    return msgspec.structs.replace(_browser_login.decode(row[0]), last_used_ms=row[1])


def key_row(record: KeyRecord) -> Row:
    """Columns of PUT_KEY."""
    return record.key_id, record.key_sha256, record.tenant_id, record.last_used_ms or 0, _encode(record)


def key_of(row: Row) -> KeyRecord:
    """Read a key's body, and when it was last used; 0 there is never."""
    return msgspec.structs.replace(_key.decode(row[0]), last_used_ms=row[1] or None)


def tenant_row(record: TenantRecord) -> Row:
    """Columns of PUT_TENANT."""
    return record.tenant_id, _encode(record)


def tenant_of(row: Row) -> TenantRecord:
    """Read a tenant's body."""
    return _tenant.decode(row[0])


_personal = msgspec.json.Decoder(dict[str, tuple[str, str]])


def audit_of(tenant_id: str, row: Row) -> AuditRecord:
    """Read (seq, hash, body, personal values as JSON or None)."""
    seq, hash_, body, personal = row
    return AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body,
                       personal=personal_of(personal))


def personal_of(shown: str | None) -> dict[str, tuple[str, str]]:
    """Read the personal values of a record, as the query gives them. Raises msgspec.MsgspecError."""
    return _personal.decode(shown) if shown is not None else {}
