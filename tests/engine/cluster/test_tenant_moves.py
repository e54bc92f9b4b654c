"""Gateways follow a tenant's move: they close it, answer requests with that, and read its rows before it opens (K-1,
C-4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clusters.street import NOW, Member, Street, street
from interlock.gateway.access.credentials import digest
from interlock.ports.leases import MoveStep, TenantMove
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import KeyRecord, TenantRecord
from interlock.protocol.resources import Actor

pytestmark = [pytest.mark.anyio, pytest.mark.req("K-1", "C-4")]
ACME = TenantRecord(tenant_id="acme", name="", created_ms=NOW)
MOVING = msgspec.structs.replace(ACME, moving="m_1")
KEY = {"authorization": "Bearer ilk_acme"}


async def put(made: Street, tenant: TenantRecord) -> None:
    await made.ledger.commit(WriteBatch([Put(tenant), Put(KeyRecord(
        key_sha256=digest("ilk_acme"), key_id="key_2", tenant_id="acme", role="owner",
        principal=Actor(type="user", id="ann"), created_ms=NOW))]))


def step(made: Street, name: MoveStep) -> TenantMove:
    made.leases.under_way["acme"] = move = TenantMove("acme", "m_1", name, NOW + 30_000)
    return move


async def whoami(member: Member) -> tuple[int, Any, Any]:
    answer = await member.ask("GET", "/v1/whoami", **KEY)
    return answer.status, answer.headers.get("retry-after"), answer.headers.get("location")


async def test_each_gateway_closes_the_tenant_and_reports_it_once() -> None:
    async with street(2) as made:
        await put(made, ACME)
        step(made, "announced")
        for member in made.members:
            assert await member.cluster.tenant_moves.look() < 0.1, "from then on it looks often"
            assert (await whoami(member))[0] == 200
        assert made.leases.acknowledged == []
        await put(made, MOVING)
        move = step(made, "frozen")
        for member in made.members:
            await member.cluster.tenant_moves.look()
            await member.cluster.tenant_moves.look()
            assert await whoami(member) == (503, "1", None)
            assert member.engine.lanes.tenants.closed == {"acme"}
        assert made.leases.acknowledged == [(move, member.cluster.instance_id) for member in made.members]


async def test_a_moved_tenant_is_named_and_an_arrived_tenant_is_served() -> None:
    async with street(1) as made:
        member, = made.members
        await put(made, MOVING)
        step(made, "frozen")
        await member.cluster.tenant_moves.look()
        del made.leases.under_way["acme"]
        await put(made, msgspec.structs.replace(ACME, moved_to="https://b.example"))
        assert await member.cluster.tenant_moves.look() >= 1.0
        assert await whoami(member) == (421, None, "https://b.example")
        await put(made, msgspec.structs.replace(MOVING, known_as="gw_before"))
        step(made, "arrived")
        await member.cluster.tenant_moves.look()
        assert await whoami(member) == (503, "1", None)
        assert member.engine.lanes.known_as("acme") == "gw_before"
        assert member.engine.lanes.known_as("default") == "gw_1"
        del made.leases.under_way["acme"]
        await put(made, msgspec.structs.replace(ACME, known_as="gw_before"))
        await member.cluster.tenant_moves.look()
        assert (await whoami(member))[0] == 200


async def test_lanes_of_the_tenant_are_released_and_its_runner_is_asked_to_reconnect() -> None:
    async with street(1) as made:
        member, = made.members
        async with member.attached():
            assert (await member.execute()).status == 202
            assert member.engine.lanes.live()
            await made.ledger.commit(WriteBatch([Put(TenantRecord(
                tenant_id="default", name="", created_ms=NOW, moving="m_1"))]))
            step(made, "frozen")
            await member.cluster.tenant_moves.look()
            assert member.engine.lanes.live() == []
            status, body = await member.refused_link()
            assert (status, body["code"]) == (503, "Unavailable")
