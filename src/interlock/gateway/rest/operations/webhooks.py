"""Operations on webhooks: listing, deliveries, dead deliveries, and a test (P-8)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.answers import Arrived, DeliveryList, WebhookList
from interlock.protocol.api import webhooks as api


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /webhooks."""
    return json_answer(WebhookList(await call.front.webhooks.listing(call.principal.tenant_id)))


async def deliveries(call: ApiRequest) -> ASGIApp:
    """GET /webhooks/deliveries."""
    state = call.choice("state")
    limit = call.number("limit")
    return json_answer(DeliveryList(await call.front.webhooks.deliveries(call.principal.tenant_id, state, limit)))


async def retry(call: ApiRequest) -> ASGIApp:
    """POST /webhooks/deliveries/{id}/retry."""
    memory, webhooks = call.memory, call.front.webhooks
    assert memory is not None
    record = await webhooks.again(call.principal, call.path["delivery_id"])
    answer = memory.keep(202, encode(record.delivery), {})
    await webhooks.retry(record, answer)
    return raw_answer(answer.body, answer.status, answer.headers)


async def test(call: ApiRequest) -> ASGIApp:
    """POST /webhooks/{name}/test."""
    memory = call.memory
    assert memory is not None
    await call.front.webhooks.test(call.principal.tenant_id, call.path["name"])
    answer = memory.keep(200, encode(Arrived(arrived=True)), {})
    await call.front.desk.ledger.commit(WriteBatch([PutIdempotency(answer)]))
    return raw_answer(answer.body, answer.status, answer.headers)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_WEBHOOKS, listing),
    Handler(api.LIST_DELIVERIES, deliveries),
    Handler(api.RETRY_DELIVERY, retry),
    Handler(api.TEST_WEBHOOK, test),
)
