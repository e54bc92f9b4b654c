"""The operation that deletes old data (G-5)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.access.credentials import owns_all
from interlock.gateway.rest.answers import encode, json_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.answers import RetentionPlan
from interlock.protocol.api import upkeep as api
from interlock.protocol.bodies import PruneBody
from interlock.protocol.clock import iso
from interlock.protocol.limits import DAY_MS, IDEMPOTENCY_TTL_MS, USAGE_DAYS


async def prune(call: ApiRequest) -> ASGIApp:
    """POST /prune."""
    memory, body, principal = call.memory, call.body, call.principal
    assert memory is not None
    assert isinstance(body, PruneBody)
    ledger = call.front.desk.ledger
    tenants = [principal.tenant_id]
    if owns_all(principal):
        tenants = [record.tenant_id for record in await ledger.tenants()]
    pruned = await call.front.retention.prune(tenants, body.older_than_ms, principal.who, dry=body.dry_run)
    await ledger.commit(WriteBatch([PutIdempotency(memory.keep(200, encode(pruned), {}))]))
    return json_answer(pruned)


async def show(call: ApiRequest) -> ASGIApp:
    """GET /retention."""
    retention = call.front.retention
    last_ms = await retention.last_run_ms()
    return json_answer(RetentionPlan(
        keep_ms=retention.keep_ms or None, answers_ms=IDEMPOTENCY_TTL_MS, usage_ms=USAGE_DAYS * DAY_MS,
        last_pruned_at=iso(last_ms) if last_ms is not None else None))


HANDLERS: tuple[Handler, ...] = (
    Handler(api.PRUNE, prune),
    Handler(api.GET_RETENTION, show),
)
