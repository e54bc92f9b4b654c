"""Keys and tenants over REST: created once, shown once, revocable, and never beyond one's own roles and tenant."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from gateway.rest.test_routes import refused
from interlock.gateway.access.credentials import digest
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import RunnerRecord
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio

ANN: dict[str, Any] = {"principal": {"type": "user", "id": "ann"}, "roles": ["operator", "approver"], "label": "laptop"}


def client_with(gateway: Gateway, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=gateway.base, headers={"Authorization": f"Bearer {key}"})


async def post(http: httpx2.AsyncClient, path: str, body: Any = None, key: str = "a-key-of-this-test-1") -> Any:
    return await http.post(path, json={} if body is None else body, headers={"Idempotency-Key": key})


@pytest.mark.req("K-1")
async def test_a_key_is_shown_once_and_has_the_rights_of_its_roles(gateway: Gateway) -> None:
    answer = await gateway.post("/v1/keys", ANN)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["key"].startswith("ilk_")
    async with client_with(gateway, made["key"]) as ann:
        assert (await ann.get("/v1/whoami")).json() == {
            "tenant_id": "default", "principal": {"type": "user", "id": "ann"}, "roles": ["approver", "operator"],
            "key_id": made["key_id"]}
        execute = {"type": "execute", "target": {"agent_id": "shell"}}
        assert (await post(ann, "/v1/commands", execute)).status_code == 202
        await gateway.desk.add_approval("apr_1")
        voted = await post(ann, "/v1/approvals/apr_1/grants", {"decision": "grant"})
        assert voted.status_code == 200
        refused(await ann.get("/v1/audit"), "Forbidden")
        refused(await post(ann, "/v1/keys", ANN), "Forbidden")
    listed = (await gateway.http.get("/v1/keys")).json()["keys"]
    [row] = [one for one in listed if one["key_id"] == made["key_id"]]
    assert (row["label"], row["roles"], row.get("revoked")) == ("laptop", ["approver", "operator"], None)
    assert row["last_used_at"]
    assert made["key"] not in json.dumps(listed)


@pytest.mark.req("K-1", "M-1")
async def test_the_same_request_shows_the_same_key_and_no_store_has_it_in_clear(gateway: Gateway) -> None:
    first = await gateway.post("/v1/keys", ANN, key="the-same-key-twice")
    again = await gateway.post("/v1/keys", ANN, key="the-same-key-twice")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.content == first.content
    kept = repr(gateway.desk.ledger.__dict__)
    assert first.json()["key"] not in kept
    assert digest(first.json()["key"]) in kept


@pytest.mark.req("K-1", "F-1")
@pytest.mark.parametrize(("change", "pointer"), [
    ({"roles": []}, "/roles"), ({"roles": ["runner"]}, "/roles"), ({"roles": ["king"]}, "/roles"),
    ({"principal": {"type": "user", "id": "corp:ann"}}, "/principal/id"), ({"ttl_ms": 0}, "/ttl_ms"),
])
async def test_the_error_of_an_invalid_key_request_names_the_place(
    gateway: Gateway, change: dict[str, Any], pointer: str
) -> None:
    problem = refused(await gateway.post("/v1/keys", {**ANN, **change}), "InvalidPayload")
    assert problem["errors"][0]["pointer"] == pointer  # type: ignore[index]


@pytest.mark.req("K-1")
async def test_an_owner_makes_a_tenant_and_its_first_key_and_suspends_it(gateway: Gateway) -> None:
    assert (await gateway.post("/v1/tenants", {"tenant_id": "acme", "name": "Acme"})).status_code == 201
    refused(await gateway.post("/v1/tenants", {"tenant_id": "acme"}), "Conflict")
    refused(await gateway.post("/v1/tenants", {"tenant_id": "../x"}), "InvalidPayload")
    refused(await gateway.post("/v1/keys", {**ANN, "tenant_id": "nowhere"}), "NotFound")
    made = (await gateway.post("/v1/keys", {**ANN, "roles": ["admin"], "tenant_id": "acme"})).json()
    async with client_with(gateway, made["key"]) as ann:
        assert (await ann.get("/v1/whoami")).json()["tenant_id"] == "acme"
        status = (await ann.get("/v1/status")).json()
        assert (status["state_dir"], status["store_path"], status["tenant_id"]) == ("", "", "acme")
        assert (await gateway.post("/v1/tenants/acme/suspend", {})).json()["suspended"] is True
        refused(await ann.get("/v1/whoami"), "Unauthorized")
        await gateway.post("/v1/tenants/acme/restore", {})
        assert (await ann.get("/v1/whoami")).status_code == 200
    refused(await gateway.post("/v1/tenants/default/suspend", {}), "Conflict")
    refused(await gateway.post("/v1/tenants/nowhere/suspend", {}), "NotFound")
    async with gateway.as_role("owner", "other") as stranger:
        refused(await stranger.get("/v1/tenants"), "Forbidden")
        refused(await post(stranger, "/v1/tenants", {"tenant_id": "mine"}), "Forbidden")


@pytest.mark.req("K-1", "L-3")
async def test_a_runners_token_answers_whoami_and_nothing_else(gateway: Gateway) -> None:
    await gateway.desk.ledger.commit(WriteBatch([Put(RunnerRecord(
        runner_id="rnr_1", tenant_id="default", token_sha256=digest("ilr_token"), device_name="d", created_ms=1,
        last_seen_ms=1))]))
    async with client_with(gateway, "ilr_token") as runner:
        assert (await runner.get("/v1/whoami")).json()["roles"] == ["runner"]
        refused(await runner.get("/v1/commands"), "Forbidden")
