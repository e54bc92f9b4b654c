"""Runners join by a code, get another token, and are revoked: each once, audited, and without storing a secret in
clear."""

import json
from typing import Any

import httpx2
import pytest

from interlock.gateway.access.pairings import TRIES_SOURCE, TRIES_TOTAL, TRIES_WINDOW_MS, Tries
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Note, WriteBatch
from interlock.protocol.clock import iso
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("L-3")]


async def code_of(gateway: Gateway, key: str | None = None, **body: Any) -> str:
    answer = await gateway.post("/v1/runners/pairings", body or None, key)
    assert answer.status_code == 201, answer.text
    return answer.json()["code"]


async def pair(gateway: Gateway, code: str, **body: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        return await anonymous.post("/v1/runners/pair", json={"code": code, **body})


async def audit(gateway: Gateway) -> list[tuple[str, str, str]]:
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 500)]
    return [(one["action"], one["who"]["id"], one["meta"].get("step", one["meta"].get("code", ""))) for one in records]


@pytest.mark.req("M-1", "M-2")
async def test_a_secret_is_returned_again_under_its_key_and_stored_sealed(gateway: Gateway) -> None:
    first = await gateway.post("/v1/runners/pairings", {"device_name": "a"}, "one-key-for-one-code")
    again = await gateway.post("/v1/runners/pairings", {"device_name": "a"}, "one-key-for-one-code")
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json()["code"] not in str(vars(gateway.desk.ledger))
    other = await gateway.post("/v1/runners/pairings", {"device_name": "b"}, "one-key-for-one-code")
    assert other.json()["code"] == "IdempotencyKeyReused"
    assert (await gateway.post("/v1/runners/pairings", {}, "")).json()["code"] == "IdempotencyKeyMissing"


@pytest.mark.req("K-1", "L-6")
async def test_the_roles_that_may_pair_rotate_revoke_and_list(gateway: Gateway) -> None:
    paired = (await pair(gateway, await code_of(gateway))).json()
    for role in ("viewer", "operator", "approver", "auditor"):
        async with gateway.as_role(role) as someone:
            for path in ("pairings", f"{paired['runner_id']}/rotate", f"{paired['runner_id']}/revoke"):
                assert (await someone.post("/v1/runners/" + path, json={})).status_code == 403
            assert (await someone.get("/v1/runners")).status_code == 200
    async with gateway.as_role("admin", "other") as stranger:
        stranger.headers["Idempotency-Key"] = "a-key-of-another-tenant"
        assert (await stranger.get("/v1/runners")).json() == {"runners": []}
        for name in (paired["runner_id"], "rnr_nobody"):
            assert (await stranger.post(f"/v1/runners/{name}/revoke", json={})).status_code == 404
            assert (await stranger.post(f"/v1/runners/{name}/rotate", json={})).status_code == 404
    assert (await gateway.http.get("/v1/runners/pair")).status_code == 405


@pytest.mark.req("L-6")
async def test_a_revoked_runner_is_still_listed_and_cannot_connect(gateway: Gateway) -> None:
    paired = (await pair(gateway, await code_of(gateway), device_name="desk")).json()
    await gateway.desk.ledger.commit(WriteBatch([Note(RUNNERS, "default", paired["runner_id"], NOW + 5)]))
    answer = await gateway.post(f"/v1/runners/{paired['runner_id']}/revoke", {})
    expected = {"runner_id": paired["runner_id"], "device_name": "desk", "status": "offline", "created_at": iso(NOW),
                "last_seen": iso(NOW + 5), "revoked": True}
    assert (answer.status_code, answer.json()) == (200, expected)
    assert (await gateway.http.get("/v1/runners")).json() == {"runners": [expected]}
    assert [runner_id for runner_id, _ in gateway.desk.shut_out] == [paired["runner_id"]]
    refused = await gateway.post(f"/v1/runners/{paired['runner_id']}/rotate", {})
    assert refused.json()["code"] == "Conflict"
    assert (await gateway.post(f"/v1/runners/{paired['runner_id']}/revoke", {})).status_code == 200
    assert [one for one in await audit(gateway) if one[0] == "revoke"] == [("revoke", "user:owner", "")]


@pytest.mark.req("U-1")
async def test_guessed_codes_are_rate_limited_and_audited(gateway: Gateway) -> None:
    code = await code_of(gateway)
    for _ in range(TRIES_SOURCE):
        assert (await pair(gateway, "AAAAA-AAAAA")).status_code == 401
    limited = await pair(gateway, code)
    assert (limited.status_code, limited.json()["code"]) == (429, "RateLimited")
    assert int(limited.headers["Retry-After"]) == TRIES_WINDOW_MS // 1000
    gateway.desk.at_ms += TRIES_WINDOW_MS
    assert (await pair(gateway, code)).status_code == 201
    assert ("auth_denied", "unknown", "Unauthorized") in await audit(gateway)


def test_all_addresses_together_are_limited_too() -> None:
    tries = Tries()
    for number in range(TRIES_TOTAL):
        assert tries.wait_ms("new", number) == 0
        tries.wrong(f"source {number}", number)
    assert tries.wait_ms("new", TRIES_TOTAL) == TRIES_WINDOW_MS - TRIES_TOTAL
    assert tries.wait_ms("new", TRIES_WINDOW_MS) == 0


@pytest.mark.req("F-1")
@pytest.mark.parametrize(
    ("body", "pointer"),
    [({}, "/code"), ({"code": 5}, "/code"), ({"code": "x" * 65}, "/code"), ({"code": "x", "more": 1}, "/more"),
     ({"code": "x", "device_name": "a\x1b[2J"}, "/device_name"), ({"code": "x", "device_name": "d" * 129},
                                                                  "/device_name")],
)
async def test_a_malformed_field_is_named(gateway: Gateway, body: dict[str, Any], pointer: str) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        answer = await anonymous.post("/v1/runners/pair", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
