"""A lease is renewed while all other work of its gateway stalls, and many lanes cost no more statements than few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.lease_renewal import RECONNECT_TIMEOUT_S, RENEW, RENEW_TIMEOUT_S
from interlock.backends.postgres.leases import PostgresLeases, open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance
from interlock.ports.ledger import LaneName, LedgerError
from ports.test_leases import Time

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
LONG_MS = 600_000
"""Of a lease that is not to expire during a test, however busy the machine is."""


@pytest.fixture
async def leases(postgres: PostgresSettings) -> AsyncIterator[PostgresLeases]:
    ledger = await open_ledger(postgres, Time())
    opened = await open_leases(postgres)
    await opened.join(Instance("a", ""), LONG_MS)
    yield opened
    await opened.close()
    await ledger.close()


async def test_a_locked_lane_delays_its_taker_and_no_renewal(leases: PostgresLeases, other: Any) -> None:
    await leases.take(LaneName("t1", "s/1"), "a")
    held = other.transaction()
    await held.start()
    await other.execute("SELECT * FROM lane WHERE name = 's/1' FOR SHARE")
    taking = asyncio.create_task(leases.take(LaneName("t1", "s/1"), "a"))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not await other.fetchval(waits):
        await asyncio.sleep(0)
    # The taker has the one connection that writes.
    async with asyncio.timeout(RENEW_TIMEOUT_S):
        assert await leases.renew("a")
    assert not taking.done()
    await held.rollback()
    assert (await taking).epoch == 2


async def test_a_locked_lane_is_omitted_from_a_claim(leases: PostgresLeases, other: Any) -> None:
    await leases.join(Instance("b", ""), LONG_MS)
    first, second = LaneName("t1", "s/1"), LaneName("t1", "s/2")
    for lane in (first, second):
        await leases.take(lane, "b")
    await leases.leave("b")
    async with other.transaction():
        await other.execute("SELECT * FROM lane WHERE name = 's/1' FOR SHARE")
        assert await leases.claim([(first, None), (second, None)], "a") == {second: 2}
    assert await leases.claim([(first, None), (second, None)], "a") == {first: 2}


async def test_a_renewal_alone_does_not_wait_for_the_disk(leases: PostgresLeases, other: Any) -> None:
    waits = "SHOW synchronous_commit"
    assert await other.fetchval(waits) == "on"
    async with other.transaction():
        assert await other.fetchval(RENEW, "a", 3_000) == 1
        assert await other.fetchval(waits) == "off"
    assert await other.fetchval(waits) == "on", "the next transaction of the connection does"


async def test_a_renewal_with_a_broken_connection_is_done_on_another(leases: PostgresLeases, other: Any) -> None:
    assert await leases.renew("a")
    await other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE query LIKE '%UPDATE instance SET%' AND pid <> pg_backend_pid()")
    try:
        assert await leases.renew("a")
    except LedgerError:
        assert await leases.renew("a"), "one attempt is lost with the connection at the most"


async def test_a_renewal_without_a_reply_is_abandoned_before_the_lease_expires(leases: PostgresLeases, other: Any
                                                                               ) -> None:
    held = other.transaction()
    await held.start()
    await other.execute("SELECT * FROM instance FOR UPDATE")
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(LedgerError, match="does not answer"):
        await leases.renew("a")
    assert asyncio.get_running_loop().time() - began_s < RENEW_TIMEOUT_S + RECONNECT_TIMEOUT_S + 0.5
    await held.rollback()
    await leases.join(Instance("later", ""))  # The lease of the first may have run out by now.
    assert await leases.renew("later")


async def test_a_renewal_suspended_past_its_timeout_counts_when_it_resumes(
        leases: PostgresLeases, other: Any) -> None:
    """A server that stalls: to give up the question and to connect again would cost what is left of the lease."""
    await leases.renew("a")
    held = other.transaction()
    await held.start()
    await other.execute("SELECT * FROM instance FOR UPDATE")
    renewing = asyncio.create_task(leases.renew("a"))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while await other.fetchval(waits) < 2:  # The question is asked on two connections.
        await other.execute("SELECT pg_stat_clear_snapshot()")  # Else a transaction sees the same of it each time.
        assert not renewing.done()
    await held.rollback()
    assert await renewing
    assert await leases.renew("a")


async def test_a_hundred_lanes_need_as_many_statements_as_one(leases: PostgresLeases, monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    asked = list[str]()

    def counting(name: str) -> Any:
        plain = getattr(asyncpg.Connection, name)

        async def call(self: Any, query: str, *values: Any, **named: Any) -> Any:
            asked.append(query)
            return await plain(self, query, *values, **named)

        return call

    for name in ("execute", "fetch", "fetchrow", "fetchval"):
        monkeypatch.setattr(asyncpg.Connection, name, counting(name))

    async def count(prefix: str, lanes: int) -> tuple[int, int]:
        owner = f"{prefix}-owner"
        await leases.join(Instance(owner, ""), LONG_MS)
        names = [LaneName("t1", f"{prefix}/{at}") for at in range(lanes)]
        asked.clear()
        await asyncio.gather(*(leases.take(name, owner) for name in names))
        taking = len(asked)
        await leases.leave(owner)
        asked.clear()
        assert len(await leases.claim([(name, None) for name in names], "a")) == lanes
        return taking, len(asked)

    one = await count("one", 1)
    assert await count("many", 100) == one
    assert max(one) <= 7, "round trips in a row; each waits for the one before"
