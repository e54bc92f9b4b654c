"""Pairing a runner: a code is valid once and for a limited time, and its token replaces the older one (L-3)."""

import json
import re
from typing import Any

import httpx2
import pytest

from interlock.gateway.access.credentials import digest
from interlock.gateway.access.pairings import CODE_LIFE_MS, CODES_OPEN
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.records import RunnerRecord
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


async def test_a_code_is_exchanged_once_for_a_token_stored_only_as_a_hash(gateway: Gateway) -> None:
    code = await code_of(gateway, device_name="desk")
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{5}-[0-9A-HJKMNP-TV-Z]{5}", code)
    answer = await pair(gateway, " " + code.lower().replace("-", " "))
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    paired = answer.json()
    assert re.fullmatch(r"ilr_[\w-]{43}", paired["token"])
    record = await gateway.desk.ledger.runner_by_token(digest(paired["token"]))
    assert record is not None
    assert (record.runner_id, record.tenant_id, record.device_name) == (paired["runner_id"], "default", "desk")
    again = await pair(gateway, code)
    assert (again.status_code, again.json()["code"]) == (401, "Unauthorized")
    assert await audit(gateway) == [("pair", "user:owner", "code"), ("pair", "user:owner", "paired"),
                                    ("auth_denied", "unknown", "Unauthorized")]
    assert code not in str(vars(gateway.desk.ledger))
    assert paired["token"] not in str(vars(gateway.desk.ledger))


@pytest.mark.req("Y-10")
@pytest.mark.parametrize(("of_code", "of_host", "kept"), [
    ("build-box", "ip-10-0-0-7", "build-box"), ("", "ip-10-0-0-7", "ip-10-0-0-7"), ("build-box", "", "build-box"),
])
async def test_the_name_of_the_code_overrides_that_of_the_host(gateway: Gateway, of_code: str, of_host: str, kept: str
                                                               ) -> None:
    paired = (await pair(gateway, await code_of(gateway, device_name=of_code), device_name=of_host)).json()
    record = await gateway.desk.ledger.runner(paired["runner_id"], OWNER_TENANT)
    assert record is not None
    assert record.device_name == kept


async def test_a_code_expires_after_ten_minutes(gateway: Gateway) -> None:
    code = await code_of(gateway)
    gateway.desk.at_ms += CODE_LIFE_MS
    assert (await pair(gateway, code)).status_code == 401
    assert await gateway.desk.ledger.runners("default") == []


async def test_a_code_does_not_outlive_a_clock_that_is_set_back(gateway: Gateway) -> None:
    code = await code_of(gateway)
    gateway.desk.at_ms -= CODE_LIFE_MS + 1
    assert (await pair(gateway, code)).status_code == 401
    gateway.desk.at_ms += 1  # A clock that is set back by less prolongs it by as much.
    assert (await pair(gateway, code)).status_code == 201


async def test_a_new_token_invalidates_the_old_one(gateway: Gateway) -> None:
    paired = (await pair(gateway, await code_of(gateway))).json()
    answer = await gateway.post(f"/v1/runners/{paired['runner_id']}/rotate", {}, "the-key-of-a-rotation")
    fresh = answer.json()
    assert (answer.status_code, fresh["runner_id"]) == (200, paired["runner_id"])
    ledger = gateway.desk.ledger
    assert await ledger.runner_by_token(digest(paired["token"])) is None
    assert (await ledger.runner_by_token(digest(fresh["token"]))) is not None
    assert [runner_id for runner_id, _ in gateway.desk.shut_out] == [paired["runner_id"]]
    again = await gateway.post(f"/v1/runners/{paired['runner_id']}/rotate", {}, "the-key-of-a-rotation")
    assert again.content == answer.content
    assert fresh["token"] not in str(vars(ledger))
    assert (await audit(gateway))[-1] == ("pair", "user:owner", "rotated")


async def test_the_gateways_own_runner_cannot_be_paired_again(gateway: Gateway) -> None:
    await gateway.desk.ledger.commit(WriteBatch([Put(RunnerRecord(
        runner_id="own", tenant_id="default", token_sha256="h", device_name="d", created_ms=NOW, last_seen_ms=NOW))]))
    answer = await gateway.post("/v1/runners/own/rotate", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "Conflict")


async def test_pending_codes_are_bounded(gateway: Gateway) -> None:
    for _ in range(CODES_OPEN):
        await code_of(gateway)
    answer = await gateway.post("/v1/runners/pairings", {})
    assert (answer.status_code, answer.json()["code"]) == (429, "QuotaExceeded")
    gateway.desk.at_ms += CODE_LIFE_MS
    await code_of(gateway)
