"""Times that several gateways store and show come from PostgreSQL, independent of the clocks of their machines."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from interlock.app.place import Sources, SystemClock
from interlock.app.stores import TRIES, LedgerClock, open_stores
from interlock.backends.memory.leases import MemoryLeases
from interlock.backends.postgres.database import PostgresSettings, connect
from interlock.config import ClusterSection

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-1", "C-4")]
HOUR_MS = 3_600_000
NOW = 1_800_000_000_000


class Fixed:
    """A clock that does not move."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


class AnHourOff(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


async def test_the_hosts_clock_counts_until_the_stores_time_is_known() -> None:
    clock = LedgerClock(Fixed(NOW + HOUR_MS))
    assert abs(clock.now_ms() - NOW - HOUR_MS) < 60_000
    await clock.start(MemoryLeases({}, Fixed(NOW)))
    try:
        assert abs(clock.now_ms() - NOW) < 60_000
    finally:
        await clock.stop()


class Store(MemoryLeases, Sources):
    """A store that is reached over a line: each of its answers waits on the way there, and on the way back."""

    def __init__(self, ways_ms: list[tuple[int, int]]) -> None:
        super().__init__({}, Fixed(0))
        self.boot_ms = 0
        self._ways_ms = cycle(ways_ms)

    def since_boot_ms(self) -> int:
        return self.boot_ms

    def true_ms(self) -> int:
        return NOW + self.boot_ms

    async def now_ms(self) -> int:
        there_ms, back_ms = next(self._ways_ms)
        self.boot_ms += there_ms
        answer = self.true_ms()
        self.boot_ms += back_ms
        return answer


@pytest.mark.parametrize(("ways_ms", "behind_ms"), [
    ([(5, 5)], 5), ([(400, 1), (2, 3)], 1), ([(1, 400), (90, 7)], 7), ([(50, 50), (0, 0)], 0)])
async def test_the_time_is_never_ahead_of_the_store_however_late_an_answer(
        ways_ms: list[tuple[int, int]], behind_ms: int) -> None:
    store = Store(ways_ms)
    clock = LedgerClock(Fixed(NOW + HOUR_MS), store)
    await clock.start(store)
    assert len(ways_ms) <= TRIES
    try:
        assert store.true_ms() - clock.now_ms() == behind_ms
    finally:
        await clock.stop()


async def test_a_gateway_an_hour_off_stores_the_time_of_postgresql(postgres: PostgresSettings, tmp_path: Path) -> None:
    stores = await open_stores(tmp_path, ClusterSection(store=postgres.dsn), AnHourOff())
    try:
        connection = await connect(postgres)
        there = await connection.fetchval("SELECT interlock_now_ms()")
        await connection.close()
        assert abs(stores.wall.now_ms() - there) < 60_000
        assert stores.wall is stores.clock, "what is shown and what a deadline stands on are one line"
    finally:
        await stores.close()


async def test_a_single_gateway_uses_its_own_clock(tmp_path: Path) -> None:
    wall = AnHourOff()
    stores = await open_stores(tmp_path, ClusterSection(), wall)
    try:
        assert stores.wall is wall
    finally:
        await stores.close()
