"""Webhooks, budgets and usage of a tenant."""

from __future__ import annotations

from interlock.protocol.answers import Arrived, BudgetList, DeliveryList, WebhookList
from interlock.protocol.api.operation import ADMINS, READERS, Operation
from interlock.protocol.bodies import WebhookBody
from interlock.protocol.resources import Delivery, UsageReport

LIST_WEBHOOKS = Operation(
    "listWebhooks", "GET", "/webhooks",
    "List the webhooks of the config.",
    roles=ADMINS, answers=WebhookList,
    verb="webhooks list")
LIST_DELIVERIES = Operation(
    "listDeliveries", "GET", "/webhooks/deliveries",
    "List deliveries of webhooks; with `state=dead` the dead-letter list.",
    roles=ADMINS, query=("state", "limit"), answers=DeliveryList,
    verb="webhooks dead")
RETRY_DELIVERY = Operation(
    "retryDelivery", "POST", "/webhooks/deliveries/{delivery_id}/retry",
    "Retry a dead delivery, with all its attempts.",
    roles=ADMINS, body=WebhookBody, body_optional=True, answers=Delivery, status=202, codes=("Conflict",),
    verb="webhooks retry")
TEST_WEBHOOK = Operation(
    "testWebhook", "POST", "/webhooks/{name}/test",
    "Send a test message that requests nothing. UpstreamError if the receiver does not accept it.",
    roles=ADMINS, body=WebhookBody, body_optional=True, answers=Arrived,
    verb="webhooks test")
LIST_BUDGETS = Operation(
    "listBudgets", "GET", "/budgets",
    "List the budgets in force, and their use today.",
    roles=READERS, answers=BudgetList,
    verb="budgets")
GET_USAGE = Operation(
    "getUsage", "GET", "/usage",
    "Return the usage that agents reported: newest day first, then most tokens first. Days are in UTC. `total` is the "
    "sum over all items, including those beyond `limit`.",
    roles=READERS, query=("from", "to", "by", "agent", "model", "session", "person", "limit"), answers=UsageReport,
    verb="usage")
