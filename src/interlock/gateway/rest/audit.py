"""Operations on the audit log (U-5). Reading it is itself recorded (U-1)."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.command.audit import record_line
from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.desk import Front
from interlock.gateway.rest.guard import AUDITORS
from interlock.gateway.rest.routes import Call, Operation
from interlock.ports.ledger import Audit, Batch
from interlock.protocol.clock import iso
from interlock.protocol.limits import PAGE_DEFAULT, PAGE_MAX
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft

NDJSON = "application/x-ndjson"


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the log: {seq, hash, record} each, oldest first."""

    items: list[msgspec.Raw]
    next_cursor: str
    has_more: bool


async def reading(call: Call) -> ASGIApp:
    """GET /audit: one page. A read from the start is recorded; its following pages belong to the same read."""
    limit = call.number("limit", PAGE_DEFAULT, 1, PAGE_MAX)
    tenant = call.principal.tenant_id
    since = call.query("since")
    if since is None:
        await _record(call, "audit_read")
    after = cursors.number(_scope(tenant), since) if since else 0
    records = await call.front.desk.ledger.audit(tenant, after, limit + 1)
    shown = records[:limit]
    last = shown[-1].seq if shown else after
    items = [msgspec.Raw(record_line(record).rstrip()) for record in shown]
    return json_answer(AuditPage(items, cursors.cursor(_scope(tenant), last), len(records) > limit))


async def export(call: Call) -> ASGIApp:
    """GET /audit/export: NDJSON {seq, hash, record} a line, then the newest signed head."""
    await _record(call, "audit_export")
    # The head is taken before the count: records past it are not yet signed, but none that it covers is left out.
    head_line = await call.front.signed_head(call.principal.tenant_id)
    if head_line is None:
        raise Problem("Unavailable", "No head of this log has been signed yet.", headers={"Retry-After": "5"})
    if call.request.method == "HEAD":
        return Response(media_type=NDJSON)
    return _Export(call.front, call.principal.tenant_id, head_line)


class _Export:
    """Streams the log page by page, so that its size does not matter."""

    def __init__(self, front: Front, tenant_id: str, head_line: bytes) -> None:
        self._front = front
        self._tenant = tenant_id
        self._head_line = head_line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all records, then the signed head."""
        request = Request(scope, receive)
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", NDJSON.encode()), (b"cache-control", b"no-store"),
            (b"content-disposition", b'attachment; filename="audit.ndjson"'),
        ]})
        count, _ = await self._front.desk.ledger.audit_head(self._tenant)
        after = 0
        while after < count and not await request.is_disconnected():
            records = await self._front.desk.ledger.audit(self._tenant, after, min(PAGE_MAX, count - after))
            if not records:
                break
            after = records[-1].seq
            await send({"type": "http.response.body", "body": b"".join(map(record_line, records)), "more_body": True})
        await send({"type": "http.response.body", "body": self._head_line, "more_body": False})


async def _record(call: Call, action: str) -> None:
    """Write who reads before anything is read: where it cannot be written, the reading is refused (U-1)."""
    who = {"id": call.principal.actor.id, "role": call.principal.role}
    draft = AuditDraft(tenant_id=call.principal.tenant_id, at=iso(call.front.clock.now_ms()), who=who, action=action)
    await call.front.desk.ledger.commit(Batch([Audit(draft)]))


def _scope(tenant: str) -> str:
    return "a/" + tenant


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/audit", "readAudit", reading, AUDITORS, ("since", "limit")),
    Operation("GET", "/audit/export", "exportAudit", export, AUDITORS, media=(NDJSON,)),
)
