"""Drains over HTTP: begun and ended under a key, shown in the status, audited, a session's for operators (C-5)."""

import json
from typing import Any

import pytest

from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-5")]


async def actions(gateway: Gateway) -> list[tuple[str, Any]]:
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 100)]
    return [(one["action"], one["meta"].get("scope")) for one in records]


async def test_a_drain_is_in_the_status_until_it_ends(gateway: Gateway) -> None:
    begun = await gateway.post("/v1/drain", {"scope": "gateway", "reason": "update"}, "drain-of-the-gateway")
    assert begun.status_code == 200, begun.text
    [drain] = begun.json()["drains"]
    assert (drain["scope"], drain["by"], drain["reason"]) == ("gateway", "user:owner", "update")
    again = await gateway.post("/v1/drain", {"scope": "gateway", "reason": "update"}, "drain-of-the-gateway")
    assert (again.content, again.headers["Idempotency-Replayed"]) == (begun.content, "true")
    assert (await gateway.http.get("/v1/status")).json()["drains"] == [drain]
    ended = await gateway.post("/v1/undrain", {"scope": "gateway"})
    assert ended.json() == {"drains": []}
    assert (await gateway.http.get("/v1/status")).json()["drains"] == []
    assert await actions(gateway) == [("drain", "gateway"), ("undrain", "gateway")]
    assert (await gateway.post("/v1/undrain", {"scope": "gateway"})).status_code == 404


async def test_an_unknown_scope_is_refused_by_name(gateway: Gateway) -> None:
    for body, pointer in (({"scope": "host"}, "/scope"), ({"scope": "agent"}, "/id"), ({}, "/scope")):
        answer = await gateway.post("/v1/drain", body)
        assert answer.status_code == 400
        assert pointer[1:] in answer.text


@pytest.mark.req("K-1")
async def test_operators_drain_sessions_and_admins_the_rest(gateway: Gateway) -> None:
    headers = {"Idempotency-Key": "drain-by-operator-1"}
    async with gateway.as_role("operator") as operator:
        refused = await operator.post("/v1/drain", json={"scope": "gateway"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "Forbidden")
        missing = await operator.post("/v1/drain", json={"scope": "session", "id": "none"}, headers=headers)
        assert (missing.status_code, missing.json()["code"]) == (404, "NotFound")
