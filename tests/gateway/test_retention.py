"""Old data is deleted once a day, with the objects that no row names (G-5)."""

import asyncio
from contextlib import suppress

import pytest

from gateway.old_commands import old_command
from interlock.backends.memory.objects import MemoryObjects
from interlock.gateway.retention import LAST_RUN, SYSTEM, Retention
from interlock.protocol.limits import DAY_MS
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
MONTH = 30 * DAY_MS
HOUR_MS = 3_600_000


@pytest.mark.req("G-5", "E-5")
async def test_unreferenced_objects_are_deleted_after_a_minimum_age(gateway: Gateway) -> None:
    at_ms = [NOW - 2 * DAY_MS]
    objects = MemoryObjects(now_ms=lambda: at_ms[0])
    for text in (b"never whole", b"put again"):
        await objects.put([text])
    at_ms[0] = NOW
    young = [(await objects.put([text])).sha256 for text in (b"just came", b"put again")]
    retention = Retention(gateway.desk.ledger, objects, gateway.desk)
    assert (await retention.prune(["default"], MONTH, SYSTEM, dry=True)).objects == 1
    assert (await retention.prune(["default"], MONTH, SYSTEM)).objects == 1
    assert sorted(await objects.names()) == sorted(young)


@pytest.mark.req("G-5")
@pytest.mark.parametrize(("keep_days", "left"), [(30, 0), (41, 3), (0, 3)])
async def test_retention_runs_once_a_day(gateway: Gateway, keep_days: int, left: int) -> None:
    command = await old_command(gateway)
    ran = asyncio.Event()
    commit = gateway.desk.ledger.prune_idempotency

    async def noting(before_ms: int) -> int:
        ran.set()
        return await commit(before_ms)

    gateway.desk.ledger.prune_idempotency = noting  # type: ignore[method-assign]
    daily = asyncio.ensure_future(Retention(gateway.desk.ledger, None, gateway.desk).daily(keep_days * DAY_MS))
    await ran.wait()
    if keep_days:
        while await gateway.desk.ledger.fact(LAST_RUN) is None:
            await asyncio.sleep(0)
    daily.cancel()
    with suppress(asyncio.CancelledError):
        await daily
    assert len(await gateway.desk.ledger.events("default", f"c/{command}", 0, 9)) == left


class Stepped:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_ms = NOW

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


@pytest.mark.req("G-5", "C-1")
async def test_a_clock_that_is_set_far_forward_deletes_nothing_for_a_day(gateway: Gateway) -> None:
    clock, ledger = Stepped(), gateway.desk.ledger
    retention = Retention(ledger, None, clock)
    retention.keep_ms = MONTH

    async def runs_at(days: float) -> bool:
        """Whether the next look at this time deletes."""
        before = await ledger.fact(LAST_RUN)
        clock.at_ms = NOW + int(days * DAY_MS)
        await retention.look()
        return await ledger.fact(LAST_RUN) != before

    assert await runs_at(0)
    assert await runs_at(1)
    assert not await runs_at(400)  # It is wrong, and noticed within the day.
    assert not await runs_at(400.5)
    assert not await runs_at(1.5)
    assert await runs_at(2)
    assert await runs_at(8)  # Off for six days.
    assert not await runs_at(50)  # Off for weeks.
    assert not await runs_at(50.9)
    assert await runs_at(51)
    assert not await runs_at(400)
    assert not await runs_at(800)  # A second step does not confirm the first one.
    assert await runs_at(801)
    assert await runs_at(52)  # Back: nothing becomes old by that.


class Set:
    """A clock that is off the gateway's time."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return NOW + self._by_ms

    def monotonic_ms(self) -> int:
        return NOW


@pytest.mark.req("M-2", "G-5", "C-1")
async def test_a_response_of_ten_hours_ago_is_repeated_though_the_clock_was_set_fifteen_hours_forward(gateway: Gateway
                                                                                                      ) -> None:
    body = {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]}
    first = await gateway.post("/v1/keys", body, "the-name-of-a-request")
    retention = Retention(gateway.desk.ledger, None, Set(25 * HOUR_MS), Set(10 * HOUR_MS))
    assert (await retention.prune(["default"], MONTH, SYSTEM)).answers == 0
    again = await gateway.post("/v1/keys", body, "the-name-of-a-request")
    assert (again.status_code, again.content) == (201, first.content)
