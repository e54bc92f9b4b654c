"""Keys: which roles may create and revoke them, and that a revoked one is refused at once (K-2, K-5)."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from gateway.rest.test_routes import refused
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
ANN: dict[str, Any] = {"principal": {"type": "user", "id": "ann"}, "roles": ["operator", "approver"], "label": "laptop"}


def client_with(gateway: Gateway, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=gateway.base, headers={"Authorization": f"Bearer {key}"})


async def post(http: httpx2.AsyncClient, path: str, body: Any = None, key: str = "a-key-of-this-test-1") -> Any:
    return await http.post(path, json={} if body is None else body, headers={"Idempotency-Key": key})


@pytest.mark.req("K-1", "U-1")
async def test_rotated_and_revoked_keys_are_refused_immediately_and_audited(gateway: Gateway) -> None:
    made = (await gateway.post("/v1/keys", ANN)).json()
    async with client_with(gateway, made["key"]) as before:
        assert (await before.get("/v1/whoami")).status_code == 200
        rotated = (await gateway.post(f"/v1/keys/{made['key_id']}/rotate", {})).json()
        refused(await before.get("/v1/whoami"), "Unauthorized")
    async with client_with(gateway, rotated["key"]) as after:
        assert (await after.get("/v1/whoami")).json()["key_id"] == made["key_id"]
        assert (await gateway.post(f"/v1/keys/{made['key_id']}/revoke", {})).json()["revoked"] is True
        refused(await after.get("/v1/whoami"), "Unauthorized")
    assert (await gateway.post(f"/v1/keys/{made['key_id']}/revoke", {})).json()["revoked"] is True
    refused(await gateway.post(f"/v1/keys/{made['key_id']}/rotate", {}), "Conflict")
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 50)]
    steps = [(record["action"], record["meta"].get("step")) for record in records if record["action"] != "auth_denied"]
    assert steps == [("key_rotate", "made"), ("key_rotate", "rotated"), ("revoke", "key")]
    assert "laptop" not in json.dumps(records)


@pytest.mark.req("K-1")
async def test_an_admin_cannot_create_or_change_an_owner_key(gateway: Gateway) -> None:
    async with gateway.as_role("admin") as admin:
        refused(await post(admin, "/v1/keys", {**ANN, "roles": ["owner"]}), "Forbidden")
        refused(await post(admin, "/v1/keys/default-owner/rotate"), "Forbidden")
        refused(await post(admin, "/v1/keys/default-owner/revoke"), "Forbidden")
        refused(await post(admin, "/v1/keys", {**ANN, "tenant_id": "other"}), "NotFound")
        refused(await admin.get("/v1/keys?tenant=other"), "NotFound")
        refused(await admin.get("/v1/tenants"), "Forbidden")
    refused(await gateway.post("/v1/keys", {**ANN, "roles": ["owner"], "tenant_id": "other"}), "InvalidPayload")


@pytest.mark.req("K-1", "P-3")
@pytest.mark.parametrize(("named", "driver"), [({}, "owner"), ({"driver": "corp:kim"}, "corp:kim")])
async def test_an_agents_key_has_its_creator_as_driver_unless_one_is_named(
    gateway: Gateway, named: dict[str, str], driver: str
) -> None:
    made = (await gateway.post("/v1/keys", {**ANN, "principal": {"type": "agent", "id": "ci"}, **named})).json()
    async with client_with(gateway, made["key"]) as agent:
        assert (await agent.get("/v1/whoami")).json()["driver"] == {"type": "user", "id": driver}
    listed = (await gateway.http.get("/v1/keys")).json()["keys"]
    assert [one["driver"]["id"] for one in listed if one["key_id"] == made["key_id"]] == [driver]
    refused(await gateway.post("/v1/keys", {**ANN, "driver": "kim"}), "InvalidPayload")
    refused(await gateway.post("/v1/keys", {**ANN, "principal": {"type": "agent", "id": "ci"}, "driver": ""}),
            "InvalidPayload")


@pytest.mark.req("K-1", "J-8")
async def test_a_person_sees_and_revokes_their_own_keys_and_those_of_their_agents_alone(gateway: Gateway) -> None:
    mine = (await gateway.post("/v1/keys", ANN)).json()
    phone = (await gateway.post("/v1/keys", {**ANN, "label": "phone", "roles": ["viewer"]})).json()
    robot = (await gateway.post("/v1/keys", {"principal": {"type": "agent", "id": "robot"}, "roles": ["operator"],
                                             "driver": "ann"})).json()
    other = (await gateway.post("/v1/keys", {**ANN, "principal": {"type": "user", "id": "bob"}})).json()
    async with client_with(gateway, mine["key"]) as ann:
        listed = (await ann.get("/v1/keys")).json()["keys"]
        assert {one["key_id"] for one in listed} == {mine["key_id"], phone["key_id"], robot["key_id"]}
        for theirs in (other["key_id"], "default-owner", "default-admin", "other-viewer"):
            answer = await post(ann, f"/v1/keys/{theirs}/revoke", key=f"revoke-{theirs}")
            assert answer.status_code in (403, 404), answer.text
        refused(await ann.get("/v1/keys", params={"tenant": "other"}), "NotFound")
        refused(await post(ann, f"/v1/keys/{phone['key_id']}/rotate", key="rotate-the-phone"), "Forbidden")
        for own in (phone, robot):
            revoked = await post(ann, f"/v1/keys/{own['key_id']}/revoke", key=f"revoke-{own['key_id']}")
            assert revoked.json()["revoked"] is True, revoked.text
    async with client_with(gateway, phone["key"]) as lost:
        refused(await lost.get("/v1/whoami"), "Unauthorized")
    records = [json.loads(one.body) for one in await gateway.desk.ledger.audit("default", 0, 100)]
    assert [(one["who"]["id"], one["meta"]["key_id"]) for one in records if one["action"] == "revoke"] == [
        ("user:ann", phone["key_id"]), ("user:ann", robot["key_id"])]
