"""Operations on browser notifications of approvals: subscribe, list, test and end (J-18)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.access.browsers import id_of
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.request.authentication import CREDENTIAL
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.access import PushSubscription
from interlock.protocol.answers import Arrived, PushSubscriptionList
from interlock.protocol.api import access as api
from interlock.protocol.records import IdempotencyRecord


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /push-subscriptions."""
    push = call.front.access.push
    return json_answer(PushSubscriptionList(push.key, await push.list(call.principal, _session(call))))


async def subscribe(call: ApiRequest) -> ASGIApp:
    """POST /push-subscriptions."""
    memory = call.memory
    assert memory is not None

    def remember(made: PushSubscription) -> IdempotencyRecord:
        return memory.keep(201, encode(made), {})

    return json_answer(await call.front.access.push.subscribe(call.principal, _session(call), call.body, remember), 201)


async def test(call: ApiRequest) -> ASGIApp:
    """POST /push-subscriptions/{push_subscription_id}/test."""
    memory = call.memory
    assert memory is not None
    await call.front.access.push.test(call.principal, call.path["push_subscription_id"])
    answer = memory.keep(200, encode(Arrived(arrived=True)), {})
    await call.front.desk.ledger.commit(WriteBatch([PutIdempotency(answer)]))
    return raw_answer(answer.body, answer.status, answer.headers)


async def end(call: ApiRequest) -> ASGIApp:
    """DELETE /push-subscriptions/{push_subscription_id}."""
    memory = call.memory
    assert memory is not None

    def remember(ended: PushSubscription) -> IdempotencyRecord:
        return memory.keep(200, encode(ended), {})

    return json_answer(await call.front.access.push.end(
        call.principal, _session(call), call.path["push_subscription_id"], remember))


def _session(call: ApiRequest) -> str:
    """Return the calling browser session's id; "" for any other credential."""
    return id_of(call.request.scope[CREDENTIAL])


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_PUSH_SUBSCRIPTIONS, listing),
    Handler(api.SUBSCRIBE_TO_PUSH, subscribe),
    Handler(api.TEST_PUSH_SUBSCRIPTION, test),
    Handler(api.END_PUSH_SUBSCRIPTION, end),
)
