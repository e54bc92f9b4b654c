"""A tenant that was moved to another ledger: every request for it here is refused with the new address (K-1)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from clusters.street import NOW, Street
from gateway.raw_runner import TOKEN
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.gateway.access.credentials import digest
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Drop, LaneName, Put, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import KeyRecord, RunnerRecord, TenantRecord
from interlock.protocol.resources import Actor

MOVED = TenantRecord(tenant_id="acme", name="", created_ms=NOW, suspended=True, moved_to="https://b.example")
SENTENCE = "The tenant acme was moved to https://b.example."
ACME = {"authorization": "Bearer ilk_acme"}
pytestmark = [pytest.mark.anyio, pytest.mark.req("K-1")]


@pytest.fixture
async def street() -> AsyncIterator[Street]:
    """A gateway that starts on a ledger with a tenant that has a key and a runner, and was moved."""
    made = Street(1)
    await made.open()
    await made.members[0].shut()
    await made.ledger.commit(WriteBatch([
        Put(MOVED),
        Put(KeyRecord(key_sha256=digest("ilk_acme"), key_id="key_2", tenant_id="acme", role="owner",
                      principal=Actor(type="user", id="ann"), created_ms=NOW)),
        Drop(RUNNERS, ("local",)),
        Put(RunnerRecord(runner_id="local", tenant_id="acme", device_name="host", created_ms=0,
                         token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest(), last_seen_ms=0))]))
    made.members = [made.build()]
    await made.members[0].open()
    yield made
    await made.members[0].shut()


async def test_a_request_is_refused_with_the_tenants_new_address(street: Street) -> None:
    for path in ("/v1/sessions", "/v1/whoami", "/v1/audit"):
        answer = await street.members[0].ask("GET", path, **ACME)
        assert (answer.status, answer.body["code"], answer.body["detail"]) == (421, "MisdirectedRequest", SENTENCE)


@pytest.mark.req("L-2")
async def test_its_runner_is_redirected_to_the_new_address(street: Street) -> None:
    status, body = await street.members[0].refused_link()
    assert (status, body["detail"], body["moved_to"]) == (421, SENTENCE, "https://b.example")


@pytest.mark.req("L-2")
async def test_its_runner_is_refused_if_the_new_address_is_not_a_gateways(street: Street) -> None:
    await street.ledger.commit(WriteBatch([Put(msgspec.structs.replace(MOVED, moved_to="postgresql://b/il"))]))
    status, body = await street.members[0].refused_link()
    assert (status, body["error_code"]) == (401, "UNAUTHORIZED")
    assert body["detail"] == "The tenant acme was moved to postgresql://b/il."


async def test_the_owner_sees_the_moved_tenant_and_cannot_restore_it_here(street: Street) -> None:
    listed = (await street.members[0].ask("GET", "/v1/tenants")).body["tenants"]
    assert [one["moved_to"] for one in listed if one["tenant_id"] == "acme"] == ["https://b.example"]
    for verb in ("restore", "suspend"):
        answer = await street.members[0].ask("POST", f"/v1/tenants/acme/{verb}", {})
        assert (answer.status, answer.body["detail"]) == (409, SENTENCE)


async def test_its_owner_cannot_create_a_key_for_it_here(street: Street) -> None:
    body = {"tenant_id": "acme", "principal": {"type": "user", "id": "ann"}, "roles": ["admin"]}
    answer = await street.members[0].ask("POST", "/v1/keys", body)
    assert (answer.status, answer.body["detail"]) == (421, SENTENCE)


async def test_no_lane_of_it_is_read_so_its_timers_and_jobs_have_no_effect(street: Street) -> None:
    lanes = street.members[0].engine.lanes
    with pytest.raises(Problem, match=r"moved to https://b\.example"):
        await lanes.lane(tenant_lane_id("acme"))
    await lanes.tick(LaneName("acme", tenant_lane_id("acme")))
    assert lanes.peek(tenant_lane_id("acme")) is None
    await lanes.tick(LaneName("default", tenant_lane_id("default")))
    assert lanes.peek(tenant_lane_id("default")) is not None
