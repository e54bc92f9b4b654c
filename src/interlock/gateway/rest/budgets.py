"""The operation on budgets: what they allow, and what today has used of them (P-7)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.request_guard import READERS
from interlock.gateway.rest.routes import ApiRequest, Operation
from interlock.protocol.answers import BudgetList


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /budgets."""
    return json_answer(BudgetList(call.front.desk.budgets(call.principal.tenant_id)))


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/budgets", "listBudgets", listing, READERS, answers=BudgetList),
)
