"""Requests on webhooks and their deliveries."""

from __future__ import annotations

from interlock.protocol.answers import Arrived, DeliveryList
from interlock.protocol.api.webhooks import LIST_DELIVERIES, LIST_WEBHOOKS, RETRY_DELIVERY, TEST_WEBHOOK
from interlock.protocol.bodies import WebhookBody
from interlock.protocol.resources import Delivery, DeliveryState
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain, read


def deliveries(*, state: DeliveryState | None = None, limit: int | None = None) -> RequestSpec[DeliveryList]:
    """Return the deliveries; `state="dead"` are those that were never delivered."""
    return read(LIST_DELIVERIES, state=state, limit=limit)


def retry_delivery(delivery_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Delivery]:
    """Send a delivery that failed again."""
    return change(RETRY_DELIVERY, delivery_id, body=WebhookBody(), key=idempotency_key)


def try_webhook(name: str, *, idempotency_key: str | None = None) -> RequestSpec[Arrived]:
    """Send a test message that names no approval."""
    return change(TEST_WEBHOOK, name, body=WebhookBody(), key=idempotency_key)


class WebhookMethods(ApiResource[LinkT]):
    """Webhooks: how approvers are asked elsewhere."""

    list = SingleRequest(plain(LIST_WEBHOOKS, "Return the webhooks of the config."))
    deliveries = SingleRequest(deliveries)
    retry = SingleRequest(retry_delivery)
    test = SingleRequest(try_webhook)
