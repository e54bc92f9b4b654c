"""Deleting old data (G-5): over REST, once a day, recorded in the audit log, and reported to expired cursors."""

import asyncio
import json
from contextlib import suppress

import pytest

from gateway.old_commands import old_command
from interlock.backends.memory.objects import MemoryObjects
from interlock.gateway.retention import LAST_RUN, Retention
from interlock.ports.ledger import PutFact, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.limits import DAY_MS
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
MONTH = 30 * DAY_MS


@pytest.mark.req("G-5", "M-1", "S-2")
async def test_events_are_counted_then_deleted_and_a_cursor_behind_them_is_410(gateway: Gateway) -> None:
    command = await old_command(gateway)
    page = (await gateway.http.get(f"/v1/commands/{command}/status", params={"limit": 1})).json()
    body = {"older_than_ms": MONTH, "dry_run": True}
    counted = (await gateway.post("/v1/prune", body)).json()
    assert counted["dry_run"] is True
    assert counted["tenants"][0] | {"feed": 0} == {"tenant_id": "default", "sessions": 1, "events": 3, "files": 0,
                                                   "controls": 0, "feed": 0, "deliveries": 0}
    assert (await gateway.http.get(f"/v1/commands/{command}/status")).json()["events"]
    pruned = await gateway.post("/v1/prune", {"older_than_ms": MONTH}, key="p" * 16)
    assert pruned.json()["tenants"] == counted["tenants"]
    again = await gateway.post("/v1/prune", {"older_than_ms": MONTH}, key="p" * 16)
    assert again.content == pruned.content
    assert (await gateway.http.get(f"/v1/commands/{command}/status")).json()["events"] == []
    behind = await gateway.http.get(f"/v1/commands/{command}/status", params={"since": page["next_cursor"]})
    assert (behind.status_code, behind.json()["code"]) == (410, "CursorExpired")
    assert (await gateway.http.get(f"/v1/commands/{command}")).json()["state"] == "succeeded"


@pytest.mark.req("G-5", "U-1")
async def test_a_prune_is_audited_before_and_after(gateway: Gateway) -> None:
    await old_command(gateway)
    await gateway.post("/v1/prune", {"older_than_ms": MONTH})
    records = [json.loads(one.body) for one in await gateway.desk.ledger.audit("default", 0, 100)]
    recorded = [(one["who"]["id"], one["meta"]["step"], one["meta"]["events"]) for one in records
                if one["action"] == "prune"]
    assert recorded == [("user:owner", "begun", 3), ("user:owner", "done", 3)]
    await gateway.post("/v1/prune", {"older_than_ms": MONTH})
    assert len(await gateway.desk.ledger.audit("default", 0, 100)) == len(records)


@pytest.mark.req("G-5", "K-1")
async def test_the_role_and_the_minimum_age_are_checked(gateway: Gateway) -> None:
    for role in ("viewer", "operator", "auditor"):
        async with gateway.as_role(role) as other:
            answer = await other.post("/v1/prune", json={"older_than_ms": MONTH}, headers={"Idempotency-Key": "r" * 16})
            assert answer.status_code == 403
    assert (await gateway.post("/v1/prune", {"older_than_ms": 3_599_999})).json()["code"] == "InvalidPayload"
    await old_command(gateway)
    async with gateway.as_role("admin", "other") as stranger:
        answer = await stranger.post("/v1/prune", json={"older_than_ms": MONTH}, headers={"Idempotency-Key": "r" * 16})
        assert answer.json()["tenants"] == []


@pytest.mark.req("G-5", "J-8")
async def test_every_role_sees_the_retention_periods_and_the_last_run(gateway: Gateway) -> None:
    async with gateway.as_role("viewer") as viewer:
        assert (await viewer.get("/v1/retention")).json() == {
            "keep_ms": None, "answers_ms": DAY_MS, "usage_ms": 400 * DAY_MS, "last_pruned_at": None}
        await gateway.desk.ledger.commit(WriteBatch([PutFact(LAST_RUN, str(NOW))]))
        retention = Retention(gateway.desk.ledger, MemoryObjects(), gateway.desk)
        daily = asyncio.ensure_future(retention.daily(MONTH))
        await asyncio.sleep(0)
        daily.cancel()
        with suppress(asyncio.CancelledError):
            await daily
        assert (retention.keep_ms, await retention.last_run_ms()) == (MONTH, NOW)
        assert (await viewer.get("/v1/retention")).json()["last_pruned_at"] == iso(NOW)
