"""Webhooks, budgets and usage of a tenant."""

from __future__ import annotations

from interlock.protocol.answers import Arrived, BudgetList, DeliveryList, WebhookList
from interlock.protocol.api.operation import ADMINS, READERS, Operation
from interlock.protocol.bodies import WebhookBody
from interlock.protocol.resources import Delivery, UsageReport

LIST_WEBHOOKS = Operation(
    "listWebhooks", "GET", "/webhooks", "",
    roles=ADMINS, answers=WebhookList,
    verb="webhooks list")
LIST_DELIVERIES = Operation(
    "listDeliveries", "GET", "/webhooks/deliveries",
    "With `state=dead` the dead-letter list.",
    roles=ADMINS, query=("state", "limit"), answers=DeliveryList,
    verb="webhooks dead")
RETRY_DELIVERY = Operation(
    "retryDelivery", "POST", "/webhooks/deliveries/{delivery_id}/retry",
    "Send what never arrived again, from the first try.",
    roles=ADMINS, body=WebhookBody, body_optional=True, answers=Delivery, status=202, codes=("Conflict",),
    verb="webhooks retry")
TEST_WEBHOOK = Operation(
    "testWebhook", "POST", "/webhooks/{name}/test",
    "200 once the receiver took a message that asks nothing, else UpstreamError.",
    roles=ADMINS, body=WebhookBody, body_optional=True, answers=Arrived,
    verb="webhooks test")
LIST_BUDGETS = Operation(
    "listBudgets", "GET", "/budgets", "",
    roles=READERS, answers=BudgetList,
    verb="budgets")
GET_USAGE = Operation(
    "getUsage", "GET", "/usage",
    "What agents reported to have used, the newest day first, then the most tokens. Days are those of UTC. `total` is "
    "the sum over all items, also over those beyond the limit.",
    roles=READERS, query=("from", "to", "by", "agent", "model", "session", "person", "limit"), answers=UsageReport,
    verb="usage")
