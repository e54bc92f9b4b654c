"""Connections that read: how many at a time, which reads are combined, and that lanes never wait for clients' reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from interlock.app.place import SystemClock
from interlock.backends.postgres.database import PostgresConnection, PostgresReaders, PostgresSettings
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.ports import trips
from interlock.ports.ledger import LaneName, LedgerError, PutFact, WriteBatch

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
LOCK = 0x7265_6164
HELD = f"SELECT pg_advisory_xact_lock_shared({LOCK})"
COUNT = "SELECT value FROM store WHERE name = $1"


class Turnstile:
    """Lets no `HELD` end until it is opened."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def close(self, lock: int = LOCK) -> None:
        await self._connection.execute("SELECT pg_advisory_lock($1)", lock)

    async def open(self, lock: int = LOCK) -> None:
        await self._connection.execute("SELECT pg_advisory_unlock($1)", lock)

    async def waiting(self, reads: int) -> None:
        """Return once the given number of reads is queued before it."""
        while await self._connection.fetchval(
                "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
                "WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()") < reads:
            await asyncio.sleep(0)


@pytest.fixture
async def turnstile(postgres: PostgresSettings) -> AsyncIterator[Turnstile]:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        yield Turnstile(connection)
    finally:
        await connection.close()


@pytest.fixture
async def ledger(postgres: PostgresSettings) -> AsyncIterator[PostgresLedger]:
    opened = await open_ledger(postgres, SystemClock())
    yield opened
    await opened.close()


async def test_equal_waiting_reads_are_shared(
    postgres: PostgresSettings, ledger: PostgresLedger, turnstile: Turnstile
) -> None:
    readers = PostgresReaders(postgres, connections=1)
    await ledger.commit(WriteBatch([PutFact("seen", "before")]))
    await turnstile.close()
    held = asyncio.create_task(readers.rows(HELD))
    await turnstile.waiting(1)
    with trips.counting() as spent:
        asked = [asyncio.create_task(readers.row(COUNT, "seen")) for _ in range(50)]
        other = asyncio.create_task(readers.row(COUNT, "not there"))
        await asyncio.sleep(0)
    given_up = asked.pop(0)  # It was the first to ask: the others have their answer all the same.
    given_up.cancel()
    # None of them was sent yet, so all of them see what is committed now.
    await ledger.commit(WriteBatch([PutFact("seen", "after")]))
    await turnstile.open()
    await held
    assert await asyncio.gather(*asked) == [("after",)] * 49
    assert await other is None
    assert spent.statements <= 51, "each counts the one round trip that it waited for"
    await ledger.commit(WriteBatch([PutFact("seen", "last")]))
    assert await readers.row(COUNT, "seen") == ("last",)
    await readers.close()


async def test_a_sent_read_is_not_shared_with_later_requests(
    postgres: PostgresSettings, ledger: PostgresLedger, turnstile: Turnstile
) -> None:
    both = "SELECT (SELECT value FROM store WHERE name = $1), pg_advisory_xact_lock_shared(1919246692)::text"
    readers = PostgresReaders(postgres, connections=1)
    await turnstile.close()
    await turnstile.close(LOCK + 1)
    held = asyncio.create_task(readers.rows(f"SELECT pg_advisory_xact_lock_shared({LOCK + 1})"))
    await turnstile.waiting(1)
    sent = asyncio.create_task(readers.rows(both, "seen"))
    await asyncio.sleep(0)  # It waits for the connection, and could be shared.
    await turnstile.open(LOCK + 1)
    await held
    await turnstile.waiting(1)  # Now it is sent.
    await ledger.commit(WriteBatch([PutFact("seen", "after")]))
    later = asyncio.create_task(readers.rows(both, "seen"))
    await asyncio.sleep(0)
    await turnstile.open()
    assert await sent == [(None, "")], "it looked before the commit"
    assert await later == [("after", "")]
    await readers.close()


async def test_a_failing_shared_read_fails_for_all_its_waiters(
    postgres: PostgresSettings, ledger: PostgresLedger, turnstile: Turnstile
) -> None:
    readers = PostgresReaders(postgres, connections=1)
    await turnstile.close()
    held = asyncio.create_task(readers.rows(HELD))
    await turnstile.waiting(1)
    wrong = [asyncio.create_task(readers.rows("SELECT 1 / $1::int", 0)) for _ in range(3)]
    await asyncio.sleep(0)
    await turnstile.open()
    await held
    failed = await asyncio.gather(*wrong, return_exceptions=True)
    assert [type(one) for one in failed if not isinstance(one, LedgerError)] == []
    await readers.close()


async def test_lanes_are_read_while_requests_have_all_connections(ledger: PostgresLedger, turnstile: Turnstile) -> None:
    """After a gateway's death, people's requests must not delay the gateways that take over."""
    await turnstile.close()
    asked = [asyncio.create_task(ledger.readers.rows(f"{HELD} -- {number}")) for number in range(40)]
    await turnstile.waiting(4)
    assert await ledger.session_clocks([LaneName("t1", "S1")]) == []
    assert await ledger.stored_lanes([LaneName("t1", "S1")], 10) == {}
    assert await ledger.lane_histories([], 10, 10) == []
    assert await ledger.runner_sessions("r1", "t1") == []
    assert not any(one.done() for one in asked)
    await turnstile.open()
    await asyncio.gather(*asked)
