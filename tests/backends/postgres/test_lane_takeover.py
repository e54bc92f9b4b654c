"""Gateways that take the same lanes at the same time, each on a connection of its own: one gets each lane, and none
blocks another for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from backends.postgres import carried
from backends.postgres.statements import all_statements
from interlock.backends.postgres import lane_takeover
from interlock.backends.postgres import leases as statements
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import PostgresLeases, open_leases
from interlock.ports.leases import Instance, Lease, RunnerLocation
from interlock.ports.ledger import LaneName
from interlock.ports.trips import counting

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
FIRST, SECOND = LaneName("t1", "s/1"), LaneName("t1", "s/2")
LONG_MS = 600_000
"""Nothing is renewed here, and the machine may be busy."""
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
ADD = "INSERT INTO lane (tenant_id, name, epoch, instance_id) VALUES ($1, $2, 1, $3)"


@pytest.fixture
async def leases(postgres: PostgresSettings) -> AsyncIterator[dict[str, PostgresLeases]]:
    """Two gateways, by the ids of their instances."""
    opened = {name: await open_leases(postgres) for name in ("a", "b")}
    for name, one in opened.items():
        await one.join(Instance(name, ""), LONG_MS)
    yield opened
    for one in opened.values():
        await one.close()


async def until_waiting(other: Any, count: int) -> None:
    """Return when the given number of connections waits for a lock."""
    while await other.fetchval(WAITING) < count:
        await other.execute("SELECT pg_stat_clear_snapshot()")  # Else a transaction sees the same of it each time.


async def test_one_of_two_gateways_gets_a_free_lane(leases: dict[str, PostgresLeases], other: Any) -> None:
    await leases["a"].release([(FIRST, (await leases["a"].take(FIRST, "a")).epoch)], "a")
    held = other.transaction()
    await held.start()
    await other.execute("SELECT * FROM lane WHERE name = 's/1' FOR SHARE")
    taking = [asyncio.create_task(one.take(FIRST, name)) for name, one in leases.items()]
    await until_waiting(other, 2)
    await held.rollback()
    first, second = await asyncio.gather(*taking)
    assert first == second
    assert first.epoch == 2


async def test_lanes_are_locked_in_the_order_of_their_names(leases: dict[str, PostgresLeases], other: Any) -> None:
    """Two that lock the same lanes in different orders would wait for each other."""
    for lane in (SECOND, FIRST):
        await leases["a"].take(lane, "a")
    held = other.transaction()
    await held.start()
    await other.execute("SELECT * FROM lane WHERE name = 's/1' FOR SHARE")
    taking = asyncio.gather(*(leases["a"].take(lane, "a") for lane in (SECOND, FIRST)))
    await until_waiting(other, 1)
    await other.execute("SELECT * FROM lane WHERE name = 's/2' FOR UPDATE NOWAIT")
    await held.rollback()
    assert await taking == [Lease(2, "a"), Lease(2, "a")]


async def test_a_lane_begun_by_another_gateway_meanwhile_belongs_to_it(leases: dict[str, PostgresLeases], other: Any
                                                                       ) -> None:
    held = other.transaction()
    await held.start()
    await other.execute(ADD, *FIRST, "b")
    taking = asyncio.create_task(leases["a"].take(FIRST, "a"))
    await until_waiting(other, 1)
    await held.commit()
    assert await taking == Lease(1, "b")


async def test_new_lanes_are_added_in_the_order_of_their_names(leases: dict[str, PostgresLeases], other: Any) -> None:
    held = other.transaction()
    await held.start()
    await other.execute(ADD, *FIRST, "b")
    later = [LaneName("t1", f"s/{at}") for at in range(2, 40)]
    taking = asyncio.gather(*(leases["a"].take(lane, "a") for lane in (*later, FIRST)))
    await until_waiting(other, 1)
    await other.execute("SET LOCAL lock_timeout = '200ms'")  # Before a deadlock is noticed, and the taker tries again.
    for lane in later:
        await other.execute(ADD, *lane, "b")
    await held.rollback()
    assert await taking == [Lease(1, "a")] * (1 + len(later))


async def test_a_lane_begins_without_another_statement_unless_its_runner_is_elsewhere(
        leases: dict[str, PostgresLeases]) -> None:
    here = leases["a"]
    await here.join(Instance("gone", ""), LONG_MS)
    for name, runner_id, tenant_id in (("a", "mine", "t1"), ("b", "theirs", "t1"), ("gone", "left", "t1"),
                                       ("b", "namesake", "t2")):
        await here.attach(RunnerLocation(runner_id, tenant_id, name, "l1", b""))
    assert await here.renew("gone", 0), "it expires"
    began = {runner_id: await here.begin(LaneName("t1", f"s/{runner_id}"), "a", runner_id)
             for runner_id in ("mine", "theirs", "left", "namesake")}
    assert began == {"mine": True, "theirs": False, "left": True, "namesake": True}
    assert not await here.begin(FIRST, "gone", "detached")


async def test_the_lanes_taken_by_a_transaction_are_bounded(leases: dict[str, PostgresLeases],
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_takeover, "TAKE_LIMIT", 2)
    sizes, take = list[int](), lane_takeover._take

    async def noting(connection: Any, lanes: Mapping[LaneName, str | None], **named: Any) -> dict[LaneName, Lease]:
        sizes.append(len(lanes))
        return await take(connection, lanes, **named)

    monkeypatch.setattr(lane_takeover, "_take", noting)
    lanes = [LaneName("t1", f"s/{at}") for at in range(5)]
    assert await asyncio.gather(*(leases["a"].take(lane, "a") for lane in lanes)) == [Lease(1, "a")] * 5
    assert sizes == [2, 2, 1]


async def test_lanes_of_one_name_are_claimed_for_their_own_tenants(postgres_by_tenant: PostgresSettings) -> None:
    leases = await open_leases(postgres_by_tenant)
    try:
        for name in ("a", "b", "dead"):
            await leases.join(Instance(name, ""), LONG_MS)
        mine, theirs = FIRST, LaneName("t2", FIRST.name)
        await leases.take(mine, "dead")
        await leases.take(theirs, "b")
        await leases.leave("dead")
        assert await leases.claim([(mine, None), (theirs, None)], "a") == {mine: 2}
        both = await asyncio.gather(leases.take(mine, "a"), leases.take(theirs, "a"))
        assert both == [Lease(3, "a"), Lease(1, "b")]
    finally:
        await leases.close()


async def test_a_claim_is_one_round_trip_however_many_lanes_it_has(leases: dict[str, PostgresLeases]) -> None:
    here, lanes = leases["a"], [LaneName("t1", f"s/{at}") for at in range(40)]
    await here.join(Instance("dead", ""), LONG_MS)
    await asyncio.gather(*(here.take(lane, "dead") for lane in lanes))
    await here.leave("dead")
    for portion in (lanes[:1], lanes[1:]):
        with counting() as spent:
            assert await here.claim([(lane, None) for lane in portion], "a") == dict.fromkeys(portion, 2)
        assert spent.in_a_row == 1


async def test_locked_and_frozen_orphans_are_left_out_of_a_claim(leases: dict[str, PostgresLeases], other: Any) -> None:
    here = leases["a"]
    await here.join(Instance("dead", ""), LONG_MS)
    for lane in (FIRST, SECOND):
        await here.take(lane, "dead")
    await here.leave("dead")
    async with other.transaction():
        await other.execute("SELECT * FROM lane WHERE name = 's/1' FOR SHARE")
        assert await here.claim([(FIRST, None), (SECOND, None)], "a") == {SECOND: 2}
    await other.execute("UPDATE lane SET frozen = true WHERE name = 's/1'")  # Its tenant is being moved.
    assert await here.claim([(FIRST, None), (SECOND, None)], "a") == {}
    await other.execute("UPDATE lane SET frozen = false")
    assert await here.claim([(FIRST, None), (SECOND, None)], "a") == {FIRST: 2}


async def test_a_claim_leaves_a_lane_to_a_gateway_that_joined_and_claimed_it_meanwhile(
        leases: dict[str, PostgresLeases], other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # That gateway is not alive as the statement sees it, which began before.
    here = leases["a"]
    await here.join(Instance("dead", ""), LONG_MS)
    for lane in (FIRST, SECOND):
        await here.take(lane, "dead")
    await here.leave("dead")
    waiting = "EXISTS (SELECT 1 FROM alive, pg_advisory_xact_lock_shared(1))"
    parts = [(name, sql.replace("EXISTS (SELECT 1 FROM alive)", waiting) if name == "held" else sql)
             for name, sql in lane_takeover.CLAIM]
    monkeypatch.setattr(lane_takeover, "CLAIM", parts)
    await other.execute("SELECT pg_advisory_lock(1)")
    claiming = asyncio.create_task(here.claim([(FIRST, None), (SECOND, None)], "a"))
    await until_waiting(other, 1)
    await leases["b"].join(Instance("new", ""), LONG_MS)
    assert await leases["b"].take(FIRST, "new") == Lease(2, "new")
    await other.execute("SELECT pg_advisory_unlock(1)")
    assert await claiming == {SECOND: 2}
    assert await leases["b"].owned([FIRST], "new") == {FIRST: 2}


async def test_lanes_are_claimed_by_their_keys(other: Any) -> None:
    await other.execute("SET enable_seqscan = off")
    plan = await carried.generic_plan(other, all_statements()["lane_takeover.CLAIM"])
    assert None not in carried.indexes(plan, "lane")


@pytest.mark.parametrize("statement", ["ORPHANS", "SURVEY"])
async def test_lanes_are_found_by_their_owners(other: Any, statement: str) -> None:
    """Each gateway asks for orphans every second, and most lanes have no owner."""
    await other.execute("SET enable_seqscan = off")
    plan = await carried.generic_plan(other, getattr(statements, statement))
    assert carried.indexes(plan, "lane") == {"lane_of_instance"}
