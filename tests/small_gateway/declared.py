"""Holds every refusal that a test of the API meets to the codes that its operation declares (F-2)."""

from __future__ import annotations

import httpx2

from interlock.gateway.rest.app import api_routes
from interlock.gateway.rest.problem_forms import codes_of
from interlock.gateway.rest.routes import unversioned
from interlock.protocol.problems import Problem


async def check_declared(response: httpx2.Response) -> None:
    """Raises AssertionError for a status or a code that the OpenAPI document does not have for this operation."""
    request = response.request
    try:
        operation = api_routes().find(request.method, unversioned(request.url.path)).operation
    except Problem:
        return  # No operation: what answers there is not the table's.
    good = {operation.status, 204, *(status for status, _ in operation.also)}
    if response.status_code in good:
        return
    await response.aread()
    codes = codes_of(operation).get(response.status_code, ())
    # An answer to HEAD has no body to read the code from.
    code = response.json()["code"] if response.content else next(iter(codes), None)
    assert code in codes, f"{operation.name} answered {response.status_code} {code}, which it does not declare"
