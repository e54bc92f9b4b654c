"""Health of a cluster for operators: its gateways, PostgreSQL and NATS, and one sentence on what is unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clusters.street import Answer, Street, street
from engine.cluster.test_cluster import opened
from interlock.gateway.access.credentials import digest
from interlock.gateway.rest import forwarder
from interlock.gateway.rest.operations import status
from interlock.ports.leases import RENEW_EVERY_MS, Survey
from interlock.ports.ledger import LedgerError, Put, WriteBatch
from interlock.protocol.records import KeyRecord, TenantRecord
from interlock.protocol.resources import Actor

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


@pytest.fixture
async def town() -> AsyncIterator[Street]:
    async with street(2) as town:
        yield town


async def seen_by(town: Street, tenant_id: str, role: str) -> Answer:
    """`GET /status` with a key of this role."""
    key = f"ilk_{tenant_id}_{role}"
    await town.ledger.commit(WriteBatch([
        Put(TenantRecord(tenant_id=tenant_id, name="", created_ms=0)),
        Put(KeyRecord(key_sha256=digest(key), key_id=f"key_{tenant_id}_{role}", tenant_id=tenant_id, role=role,
                      principal=Actor(type="user", id="ann"), created_ms=0))]))
    return await town.members[0].ask("GET", "/v1/status", authorization=f"Bearer {key}")


async def test_an_operator_sees_the_gateways_and_both_servers(town: Street) -> None:
    b = town.members[1]
    async with b.attached() as runner:
        await opened(runner, (await b.execute()).body["target"]["session_id"])
        await town.beat(ms=RENEW_EVERY_MS)
        shown = (await seen_by(town, "default", "operator")).body["cluster"]
    found = {one["address"]: one for one in shown["gateways"]}
    assert set(found) == {"a", "b"}
    assert found["b"]["instance_id"] == b.cluster.instance_id
    assert found["b"]["lanes"] > found["a"]["lanes"] == 0
    assert found["a"]["since"] < found["a"]["last_beat_at"], "it has renewed once"
    assert shown["database"] == {**shown["database"], "where": "the ledger", "reachable": True, "version": "in memory",
                                 "trouble": None}
    assert shown["bus"]["reachable"]
    assert shown["bus"]["latency_ms"] >= 0


@pytest.mark.req("K-1")
@pytest.mark.parametrize(("tenant_id", "role"), [("other", "owner"), ("other", "operator"), ("default", "viewer")])
async def test_other_tenants_and_viewers_cannot_see_the_machines(town: Street, tenant_id: str, role: str) -> None:
    answer = await seen_by(town, tenant_id, role)
    assert (answer.status, answer.body["cluster"]) == (200, None)


async def test_an_unavailable_bus_is_one_sentence_in_status_and_shown_to_probes(town: Street) -> None:
    a, _ = town.members
    assert (await a.ask("GET", "/readyz")).body["bus"] == "reachable"
    a.bus.cut_off()
    bus = (await a.ask("GET", "/v1/status")).body["cluster"]["bus"]
    assert not bus["reachable"]
    assert bus["trouble"].startswith("The gateways cannot reach one another: The bus of this process does not answer.")
    ready = await a.ask("GET", "/readyz")
    assert (ready.status, ready.body["bus"]) == (200, "away"), "its own sessions go on"


async def test_metrics_name_the_unavailable_server(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = town.members
    metrics = a.front.metrics
    assert a.front.cluster is not None

    async def figures() -> str:
        assert a.front.cluster is not None
        metrics.set_cluster(await a.front.cluster.look())
        return metrics.exposed("")[0].decode()

    assert 'interlock_shared_server_reachable{server="bus"} 1.0' in await figures()
    assert "interlock_cluster_gateways 2.0" in await figures()
    a.bus.cut_off()
    away = await figures()
    assert 'interlock_shared_server_reachable{server="bus"} 0.0' in away
    assert 'interlock_shared_server_latency_seconds{server="bus"}' not in away, "the last one is not today's"

    async def refuses() -> Survey:
        raise LedgerError("It is full.")

    monkeypatch.setattr(town.leases, "survey", refuses)
    away = await figures()
    assert 'interlock_shared_server_reachable{server="database"} 0.0' in away
    assert "interlock_cluster_gateways NaN" in away
    health = await a.front.cluster.look()
    assert health.database.trouble == (
        "The ledger at the ledger does not answer (It is full.): nothing is taken until it does.")


@pytest.mark.req("D-1")
@pytest.mark.parametrize(("waits_ms", "is_reported"), [(40, False), (60_000, True)])
async def test_a_database_whose_standby_does_not_follow_is_one_sentence_in_status(
        town: Street, monkeypatch: pytest.MonkeyPatch, waits_ms: int, is_reported: bool) -> None:
    async def waits() -> Survey:
        return Survey("PostgreSQL 18.4", [], waits_ms)

    monkeypatch.setattr(town.leases, "survey", waits)
    database = (await seen_by(town, "default", "operator")).body["cluster"]["database"]
    assert (database["reachable"], database["version"]) == (True, "PostgreSQL 18.4")
    assert database["trouble"] == ((
        "The ledger at the ledger waits for its synchronous standby: nothing is taken until a standby follows again, "
        "or synchronous_standby_names no longer asks for one.") if is_reported else None)


@pytest.mark.req("C-4", "D-1")
async def test_a_former_primary_that_takes_writes_is_one_sentence_in_status(
        town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = "A former primary of the ledger takes writes at db-1:5432. Stop it."

    async def watched() -> Survey:
        return Survey("PostgreSQL 18.4", [], 0, trouble)

    monkeypatch.setattr(town.leases, "survey", watched)
    database = (await seen_by(town, "default", "operator")).body["cluster"]["database"]
    assert (database["reachable"], database["trouble"]) == (True, trouble)


@pytest.mark.req("M-1")
async def test_a_request_that_needs_an_unavailable_bus_fails_soon(
        town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "BUS_GIVE_UP_S", 0.05)  # The other bound, 20 s, stays: this test would wait for it.
    a, b = town.members
    async with b.attached() as runner:
        session_id = (await b.execute()).body["target"]["session_id"]
        await opened(runner, session_id)
        await town.beat()
        a.bus.cut_off()
        answer = await asyncio.wait_for(a.execute("while the bus is away", session_id=session_id), 5)
        assert (answer.status, answer.body["code"], answer.headers["retry-after"]) == (503, "Unavailable", "2")
        assert answer.body["detail"].startswith(
            "The gateways cannot reach one another: The bus of this process does not answer")
        a.bus.come_back()
        assert (await a.execute("and when it is back", session_id=session_id)).status == 202


@pytest.mark.req("N-3")
@pytest.mark.parametrize("waits", ["commands", "key"])
async def test_a_status_is_answered_in_time_while_the_ledger_hangs(
        town: Street, monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    monkeypatch.setattr(status, "IN_TIME_S", 0.05)
    a, _ = town.members

    async def never(*_args: object, **_named: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(town.ledger, waits, never)
    answer = await asyncio.wait_for(a.ask("GET", "/v1/status"), 5)
    assert (answer.status, answer.body["code"], answer.headers["retry-after"]) == (503, "Unavailable", "2")
    assert answer.body["detail"] == "The ledger's PostgreSQL does not answer: nothing is taken until it does."
    a.bus.cut_off()
    assert "the bus does not answer" in (await a.ask("GET", "/v1/status")).body["detail"]


@pytest.mark.req("N-3")
async def test_a_status_names_a_refusing_ledger(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_args: object) -> None:
        raise LedgerError("It is gone.")

    monkeypatch.setattr(town.ledger, "commands", refuses)
    answer = await town.members[0].ask("GET", "/v1/status")
    assert (answer.status, answer.body["detail"]) == (
        503, "The ledger's PostgreSQL does not answer: nothing is taken until it does.")
