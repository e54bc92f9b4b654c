"""Operations on the audit log (U-5). Reading it is itself recorded (U-1)."""

from __future__ import annotations

import base64
import hashlib
import itertools
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.command.audit.audit import MAX_REDACTED, record_line
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.note import ED25519, key_id, origin_of
from interlock.command.canonical import MAX_INTEGER
from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.filtered_pages import scan
from interlock.gateway.rest.operations import audit_proofs, audit_resume
from interlock.gateway.rest.operations.audit_filters import AuditSearch, search_of
from interlock.gateway.rest.request.auth_failures import personal_of
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.gateway.rest.service import Front
from interlock.ports.ledger import AuditAppend, EraseAudit, PutIdempotency, WriteBatch
from interlock.protocol.answers import AuditKey, AuditPage, Erased
from interlock.protocol.api import audit as api
from interlock.protocol.api.operation import NDJSON
from interlock.protocol.clock import iso
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, AuditRecord


async def reading(call: ApiRequest) -> ASGIApp:
    """GET /audit."""
    limit = call.number("limit")
    search = search_of(call)
    if call.choice("order") == "newest":
        return await _newest_first(call, search, limit)
    ledger, tenant, since = call.front.desk.ledger, call.principal.tenant_id, call.query("since")
    start = cursors.number(_scope(tenant), since) if since else 0
    # Nor does the cursor of the very beginning circumvent it.
    if start == 0:
        await _record(call, "audit_read")
    last = start

    async def read(after: int | None, count: int) -> list[AuditRecord]:
        nonlocal last
        if after and search.to_ms is not None and any(map(search.is_after, await ledger.audit(tenant, after - 1, 1))):
            return []
        records = await ledger.audit(tenant, after or 0, count)
        last = records[-1].seq if records else last
        return records

    shown, after = await scan(read, lambda record: record.seq, search.test, start, limit)
    return _page(shown, cursors.stream_cursor(_scope(tenant), last if after is None else after), after is not None)


async def _newest_first(call: ApiRequest, search: AuditSearch, limit: int) -> ASGIApp:
    """Read the log from its end. The cursor is the number of the last record read."""
    ledger, tenant, since = call.front.desk.ledger, call.principal.tenant_id, call.query("since")
    scope = "newest/" + _scope(tenant)
    head, _ = await ledger.audit_head(tenant)
    start = cursors.number(scope, since) if since else head + 1
    if start > head:
        await _record(call, "audit_read")

    async def read(before: int | None, count: int) -> list[AuditRecord]:
        last = (before or 1) - 1
        first = max(0, last - count)
        records = (await ledger.audit(tenant, first, last - first))[::-1] if last > first else []
        # Only a record that is certainly old enough ends the search: it is the last of a page that is shorter than
        # requested.
        return [*itertools.takewhile(lambda record: not search.is_before(record), records)]

    shown, after = await scan(read, lambda record: record.seq, search.test, start, limit)
    return _page(shown, cursors.stream_cursor(scope, after or 1), after is not None)


def _page(records: list[AuditRecord], cursor: str, has_more: bool) -> ASGIApp:
    return json_answer(AuditPage([msgspec.Raw(record_line(record).rstrip()) for record in records], cursor, has_more))


async def show(call: ApiRequest) -> ASGIApp:
    """GET /audit/records/{seq}."""
    text = call.path["seq"]
    seq = int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else 0
    found = await call.front.desk.ledger.audit(call.principal.tenant_id, seq - 1, 1) if seq else []
    if not found:
        raise Problem("NotFound", f"The audit log has no record {text}.", hint="List them with `GET /v1/audit`.")
    await _record(call, "audit_read", {"seq": seq})
    return raw_answer(record_line(found[0]).rstrip())


async def key(call: ApiRequest) -> ASGIApp:
    """GET /audit/key."""
    signer, tenant = call.front.signer, call.principal.tenant_id
    if signer is None:
        raise Problem("NotFound", "This gateway signs no audit log.", hint="Ask a gateway that was started as such.")
    raw = signer.public_key.public_bytes_raw()
    origin = origin_of(call.front.facts.gateway_id, tenant)
    return json_answer(AuditKey(origin=origin, algorithm="Ed25519", public_key=base64.b64encode(raw).decode(),
                                sha256=hashlib.sha256(raw).hexdigest(),
                                note_key_id=key_id(origin, ED25519, signer.public_key).hex()))


async def export(call: ApiRequest) -> ASGIApp:
    """GET /audit/export."""
    await _record(call, "audit_export")
    line = await call.front.checkpoint(call.principal.tenant_id)
    if line is None:
        raise Problem("Unavailable", "Nothing of this log has been signed yet.", headers={"Retry-After": "5"})
    if call.request.method == "HEAD":
        return Response(media_type=NDJSON)
    return _Export(call.front, call.principal.tenant_id)


async def erase(call: ApiRequest) -> ASGIApp:
    """POST /audit/erasures."""
    memory, body, tenant = call.memory, call.body, call.principal.tenant_id
    assert memory is not None
    if (body.records is None) == (body.who is None):
        raise Problem("InvalidPayload", "Name either `records` or `who`.", errors=(Place("/", "one of the two"),))
    if body.who is not None:
        found = await call.front.desk.ledger.audit_personal(tenant, body.who, MAX_REDACTED + 1)
    else:
        found = [seq for seq in sorted(set(body.records)) if await _has_personal(call.front, tenant, seq)]
    erased = found[:MAX_REDACTED]
    meta: dict[str, Any] = {"records": erased} if body.who is None else {"records": erased, "of": body.who}
    changes = [EraseAudit(tenant, tuple(erased)), AuditAppend(_draft(call, "redact", meta))] if erased else []
    answer = memory.keep(200, encode(Erased(erased, len(found) > len(erased))), {})
    await call.front.desk.ledger.commit(WriteBatch([*changes, PutIdempotency(answer)]))
    return raw_answer(answer.body, answer.status, answer.headers)


async def _has_personal(front: Front, tenant_id: str, seq: int) -> bool:
    found = await front.desk.ledger.audit(tenant_id, seq - 1, 1) if seq > 0 else []
    return bool(found) and bool(found[0].personal)


class _Export:
    """A stream of the log page by page, so that its size does not matter. Erasures meanwhile are documented by later
    records; so the end is signed when it is reached, and the records up to then are also sent: an unsigned record
    excuses nothing (U-4)."""

    def __init__(self, front: Front, tenant_id: str) -> None:
        self._front = front
        self._tenant = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all records, then the checkpoint."""
        request = Request(scope, receive)
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", NDJSON.encode()), (b"cache-control", b"no-store"),
            (b"content-disposition", b'attachment; filename="audit.ndjson"'),
        ]})
        after = await self._send_from(0, MAX_INTEGER, request, send)
        line = await self._front.checkpoint(self._tenant)
        head = parse_checkpoint_line(line) if line is not None else None
        await self._send_from(after, head.size if head is not None else after, request, send)
        await send({"type": "http.response.body", "body": line or b"", "more_body": False})

    async def _send_from(self, after: int, last: int, request: Request, send: Send) -> int:
        """Send the records after one, up to `last` or the end of the log; returns the last number."""
        while after < last and not await request.is_disconnected():
            records = await self._front.desk.ledger.audit(self._tenant, after, min(PAGE_MAX, last - after))
            await send({"type": "http.response.body", "body": b"".join(map(record_line, records)), "more_body": True})
            after = records[-1].seq if records else after
            if len(records) < PAGE_MAX:
                break
        return after


async def _record(call: ApiRequest, action: str, meta: dict[str, Any] | None = None) -> None:
    """Write an audit record of the reader before anything is read: if it cannot be written, the read is refused
    (U-1)."""
    await call.front.desk.ledger.commit(WriteBatch([AuditAppend(_draft(call, action, meta or {}))]))


def _draft(call: ApiRequest, action: str, meta: dict[str, Any]) -> AuditDraft:
    principal = call.principal
    return AuditDraft(tenant_id=principal.tenant_id, at=iso(call.front.clock.now_ms()), who=principal.who,
                      action=action, meta=meta, personal=personal_of(call.request))


def _scope(tenant: str) -> str:
    return "a/" + tenant


HANDLERS: tuple[Handler, ...] = (
    Handler(api.READ_AUDIT, reading),
    Handler(api.GET_AUDIT_RECORD, show),
    Handler(api.AUDIT_KEY, key),
    Handler(api.EXPORT_AUDIT, export),
    Handler(api.AUDIT_CHECKPOINT, audit_proofs.checkpoint),
    Handler(api.PROVE_INCLUSION, audit_proofs.inclusion_proof),
    Handler(api.PROVE_CONSISTENCY, audit_proofs.consistency_proof),
    *audit_resume.HANDLERS,
    Handler(api.ERASE_AUDIT, erase),
)
