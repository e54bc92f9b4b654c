"""A primary that dies and its synchronous standby that is promoted: acknowledged data is there (D-1, C-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.app.place import SystemClock
from interlock.backends.postgres import database
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.faults import NotReached
from interlock.backends.postgres.leases import PostgresLeases, open_leases
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.ports.leases import Instance
from interlock.ports.ledger import Append, Receipt, WriteBatch
from proof.processes.postgres_pair import PostgresPair

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "D-1"), pytest.mark.long]
STREAM = "s/1"
COMMITS = 200
GIVEN_UP_S = 5.0
ASKS_WHETHER_IT_WAS_COMMITTED = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock')"


@pytest.fixture
async def ledger(pair: PostgresPair) -> AsyncIterator[PostgresLedger]:
    ledger = await open_ledger(read_settings(pair.url), SystemClock())
    yield ledger
    await ledger.close()


@pytest.fixture
async def leases(pair: PostgresPair, ledger: PostgresLedger) -> AsyncIterator[PostgresLeases]:
    leases = await open_leases(read_settings(pair.url))
    yield leases
    await leases.close()


def event(number: int) -> WriteBatch:
    return WriteBatch([Append("t1", STREAM, "C", 5, b"%d" % number, f"m{number}")])


async def bodies(ledger: PostgresLedger) -> list[bytes]:
    return [one.body for one in await ledger.events("t1", STREAM, 0, 10 * COMMITS)]


async def test_every_commit_is_answered_and_exists_once_after_a_promotion(pair: PostgresPair,
                                                                          ledger: PostgresLedger) -> None:
    acknowledged = asyncio.Event()

    async def commit(number: int) -> Receipt:
        receipt = await ledger.commit(event(number))
        if number >= COMMITS // 4:
            acknowledged.set()
        return receipt

    async def commit_all() -> list[Receipt]:
        return [await commit(number) for number in range(COMMITS)]

    committing = asyncio.create_task(commit_all())
    await acknowledged.wait()
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    receipts = await committing
    assert await bodies(ledger) == [b"%d" % number for number in range(COMMITS)], "each once, in the order of the calls"
    assert [receipt.numbers for receipt in receipts] == [[number + 1] for number in range(COMMITS)]


async def test_a_ledger_without_a_writable_server_is_not_opened_with_a_reason(pair: PostgresPair) -> None:
    await asyncio.to_thread(pair.kill_primary)
    with pytest.raises(NotReached, match="promote the standby if the primary is gone"):
        await open_ledger(read_settings(pair.url), SystemClock())
    with pytest.raises(NotReached, match=r": each of its hosts is read-only\. One of its hosts must take writes"):
        await open_ledger(read_settings(f"{pair.standby.url}&target_session_attrs=read-write"), SystemClock())


async def test_nothing_is_acknowledged_while_the_standby_hangs_and_that_is_shown(
        pair: PostgresPair, ledger: PostgresLedger, leases: PostgresLeases) -> None:
    await leases.join(Instance("i_1", "here"))
    await ledger.commit(event(0))
    assert (await leases.survey()).standby_wait_ms == 0
    pair.stall_standby()
    committing = asyncio.create_task(ledger.commit(event(1)))
    while not (await leases.survey()).standby_wait_ms:
        await asyncio.sleep(0)
    assert await leases.renew("i_1"), "a renewal waits for no standby"
    assert not committing.done()
    assert await bodies(ledger) == [b"0"], "no one reads what the standby does not have"
    await asyncio.to_thread(pair.kill_primary)
    pair.resume_standby()
    await asyncio.to_thread(pair.promote)
    await committing
    assert await bodies(ledger) == [b"0", b"1"]


async def test_an_abandoned_commit_is_invisible_until_the_standby_has_it(
        pair: PostgresPair, ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it cancelled, PostgreSQL would keep it without the standby, and show it."""
    await ledger.commit(event(0))
    monkeypatch.setattr(database, "CALL_TIMEOUT_S", GIVEN_UP_S)
    other = await open_ledger(read_settings(pair.url), SystemClock())
    pair.stall_standby()
    committing = asyncio.create_task(other.commit(event(1)))
    beside = await database.connect(read_settings(pair.url))
    while not await beside.fetchval(ASKS_WHETHER_IT_WAS_COMMITTED):
        await asyncio.sleep(0)
    await beside.close()
    assert not committing.done()
    assert await bodies(ledger) == [b"0"]
    pair.resume_standby()
    await committing
    assert await bodies(ledger) == [b"0", b"1"]
    await other.close()
