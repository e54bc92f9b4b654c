"""A gateway whose loop is busy keeps its lease, for as long as a loop may be busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.backends.postgres import renewal_thread
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import PostgresLeases, open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance
from ports.test_leases import Time

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
LIFE_MS = 1_500
LATE_S, LOOK_S = 0.1, 0.05


@pytest.fixture
async def leases(postgres: PostgresSettings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresLeases]:
    monkeypatch.setattr(renewal_thread, "LATE_S", LATE_S)
    monkeypatch.setattr(renewal_thread, "LOOK_S", LOOK_S)
    monkeypatch.setattr(renewal_thread, "TURN_S", LOOK_S)
    ledger = await open_ledger(postgres, Time())
    opened = await open_leases(postgres)
    await opened.join(Instance("a", ""), LIFE_MS)
    yield opened
    await opened.close()
    await ledger.close()


async def lives(other: Any) -> bool:
    """Whether others see the gateway as alive."""
    return bool(await other.fetchval("SELECT count(*) FROM instance WHERE expires_ms > interlock_now_ms()"))


def block_loop(seconds: float) -> None:
    """Keep the gateway's loop busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)


async def test_a_loop_busy_for_longer_than_a_lease_keeps_it(leases: PostgresLeases, other: Any) -> None:
    assert await leases.renew("a", LIFE_MS)
    block_loop(1.5 * LIFE_MS / 1000)
    assert await lives(other)
    assert await leases.renew("a", LIFE_MS)


async def test_a_running_loop_without_renewal_requests_loses_its_lease(leases: PostgresLeases, other: Any
                                                                              ) -> None:
    assert await leases.renew("a", LIFE_MS)
    while await lives(other):
        await asyncio.sleep(LOOK_S)
    assert not await leases.renew("a", LIFE_MS)


async def test_a_completely_blocked_loop_loses_its_lease(leases: PostgresLeases, other: Any,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal_thread, "BUSY_LIMIT_S", 0.3)
    assert await leases.renew("a", LIFE_MS)
    block_loop(0.3 + 1.5 * LIFE_MS / 1000)
    assert not await lives(other)
    assert not await leases.renew("a", LIFE_MS)


async def test_a_loop_that_runs_too_rarely_to_renew_keeps_its_lease(leases: PostgresLeases, other: Any,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal_thread, "BUSY_LIMIT_S", 0.8)
    assert await leases.renew("a", LIFE_MS)
    for _ in range(7):  # Longer than the limit and the lease.
        block_loop(0.3)
        await asyncio.sleep(0)
    assert await lives(other)


async def test_a_gateway_that_has_left_is_not_renewed(leases: PostgresLeases, other: Any) -> None:
    assert await leases.renew("a", LIFE_MS)
    await leases.leave("a")
    block_loop(5 * LATE_S)
    assert not await lives(other)
