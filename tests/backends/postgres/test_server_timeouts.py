"""A server that ends statements and idle connections by itself, as managed PostgreSQL does (D-1, C-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.database import PostgresSettings, shown
from interlock.backends.postgres.faults import DatabaseUnavailable
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.ports.ledger import Append, WriteBatch

PATIENCE_S = 20
SENTENCE = ("PostgreSQL cancelled a statement of the ledger (canceling statement due to statement timeout). If its "
            "statement_timeout did it, set it to 20s or more for Interlock's user: ALTER ROLE … SET statement_timeout "
            "= '20s'.")
pytestmark = [pytest.mark.anyio, pytest.mark.req("D-1")]


@asynccontextmanager
async def opened(postgres: PostgresSettings, settings: str) -> AsyncIterator[PostgresLedger]:
    """The ledger on a server with these settings."""
    ledger = await open_ledger(PostgresSettings(f"{postgres.dsn}&{settings}"), ManualClock())
    try:
        yield ledger
    finally:
        await ledger.close()


@asynccontextmanager
async def locked(postgres: PostgresSettings) -> AsyncIterator[None]:
    """No client can write events meanwhile, or read them."""
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute("BEGIN; LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        await connection.close()


def batch(body: bytes) -> WriteBatch:
    return WriteBatch([Append("t1", "s/1", "C", 5, body, "")])


async def bodies(ledger: PostgresLedger) -> list[bytes]:
    return [event.body for event in await ledger.events("t1", "s/1", 0, 99)]


async def eventually(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_commit_that_the_server_cancels_is_done_once_and_the_log_names_the_setting(
    postgres: PostgresSettings
) -> None:
    async with opened(postgres, "statement_timeout=100") as ledger:
        await ledger.commit(batch(b"before"))
        with capture_logs() as lines:
            async with locked(postgres):
                committing = asyncio.create_task(ledger.commit(batch(b"cancelled twice")))
                reading = asyncio.create_task(bodies(ledger))
                await eventually(lambda: len(lines) >= 1)
                assert not committing.done()
                assert not reading.done()
            assert (await committing).numbers == [2]
            assert (await reading)[0] == b"before"
        assert [(line["event"], line["log_level"]) for line in lines] == [
            ("postgres_cancelled_statement", "warning"), ("postgres_answers", "info")], "once, however often it tried"
        assert lines[0]["reason"] == SENTENCE.replace("PostgreSQL ", f"PostgreSQL at {shown(postgres.dsn)} ", 1)
        assert await bodies(ledger) == [b"before", b"cancelled twice"]


async def test_a_commit_that_the_server_always_cancels_is_refused_and_the_next_one_is_not(
    postgres: PostgresSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.backends.postgres.writer.WAIT_FOR_SERVER_S", 0.01)
    async with opened(postgres, "statement_timeout=100") as ledger:
        async with locked(postgres):
            with pytest.raises(DatabaseUnavailable) as refused:
                await ledger.commit(batch(b"refused"))
        assert str(refused.value) == f"Nothing of this batch was kept: {SENTENCE}"
        assert (await ledger.commit(batch(b"kept"))).numbers == [1]
        assert await bodies(ledger) == [b"kept"]


async def test_a_server_that_ends_idle_connections_costs_no_commit_and_no_read(postgres: PostgresSettings) -> None:
    async with opened(postgres, "idle_session_timeout=50&application_name=idle_ledger") as ledger:
        watcher = await asyncpg.connect(postgres.dsn)
        for number in range(3):
            assert (await ledger.commit(batch(b"%d" % number))).numbers == [number + 1]
            assert len(await bodies(ledger)) == number + 1
            async with asyncio.timeout(PATIENCE_S):
                while await watcher.fetchval(
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle_ledger'"):
                    await asyncio.sleep(0.01)
        await watcher.close()
