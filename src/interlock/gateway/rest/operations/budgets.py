"""The operation on budgets: their limits, and today's usage (P-7)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.answers import BudgetList
from interlock.protocol.api import webhooks as api


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /budgets."""
    return json_answer(BudgetList(call.front.desk.budgets(call.principal.tenant_id)))


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_BUDGETS, listing),
)
