"""Operations on webhooks: what there is, what went out, what never arrived, and a try (P-8)."""

from __future__ import annotations

from typing import get_args

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.request_guard import ADMINS
from interlock.gateway.rest.routes import ApiRequest, Operation
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.answers import Arrived, DeliveryList, WebhookList
from interlock.protocol.bodies import WebhookBody
from interlock.protocol.limits import PAGE_DEFAULT, PAGE_MAX
from interlock.protocol.resources import Delivery, DeliveryState


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /webhooks."""
    return json_answer(WebhookList(await call.front.webhooks.listing(call.principal.tenant_id)))


async def deliveries(call: ApiRequest) -> ASGIApp:
    """GET /webhooks/deliveries: with `state=dead` the dead-letter list."""
    state = call.choice("state", get_args(DeliveryState))
    limit = call.number("limit", PAGE_DEFAULT, 1, PAGE_MAX)
    return json_answer(DeliveryList(await call.front.webhooks.deliveries(call.principal.tenant_id, state, limit)))


async def retry(call: ApiRequest) -> ASGIApp:
    """POST /webhooks/deliveries/{id}/retry: send what never arrived again, from the first try."""
    memory, webhooks = call.memory, call.front.webhooks
    assert memory is not None
    record = await webhooks.again(call.principal, call.path["delivery_id"])
    answer = memory.keep(202, encode(record.delivery), {})
    await webhooks.retry(record, answer)
    return raw_answer(answer.body, answer.status, answer.headers)


async def test(call: ApiRequest) -> ASGIApp:
    """POST /webhooks/{name}/test: 200 once the receiver took a message that asks nothing, else UpstreamError."""
    memory = call.memory
    assert memory is not None
    await call.front.webhooks.test(call.principal.tenant_id, call.path["name"])
    answer = memory.keep(200, encode(Arrived(arrived=True)), {})
    await call.front.desk.ledger.commit(WriteBatch([PutIdempotency(answer)]))
    return raw_answer(answer.body, answer.status, answer.headers)


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/webhooks", "listWebhooks", listing, ADMINS, answers=WebhookList),
    Operation("GET", "/webhooks/deliveries", "listDeliveries", deliveries, ADMINS, ("state", "limit"),
              answers=DeliveryList),
    Operation("POST", "/webhooks/deliveries/{delivery_id}/retry", "retryDelivery", retry, ADMINS, body=WebhookBody,
              body_optional=True, answers=Delivery, status=202, codes=("Conflict",)),
    Operation("POST", "/webhooks/{name}/test", "testWebhook", test, ADMINS, body=WebhookBody, body_optional=True,
              answers=Arrived),
)
