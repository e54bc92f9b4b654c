"""The order of page reads: limited for each reader, each tenant and in all, and fair among readers (S-1, S-4)."""

from __future__ import annotations

import asyncio

import anyio.lowlevel
import pytest

from interlock.engine.viewers import replays
from interlock.engine.viewers.replays import (
    PAGES_AT_ONCE,
    PAGES_OF_READER,
    PAGES_OF_TENANT,
    PageTurn,
    ReplayReader,
    Replays,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("S-4")]
ADA, BOB, EVE = ReplayReader("one", "ada"), ReplayReader("one", "bob"), ReplayReader("other", "eve")


class Asking:
    """Readers that ask for turns, and the turns in the order in which they came."""

    def __init__(self) -> None:
        self.replays = Replays()
        self.got: list[tuple[ReplayReader, PageTurn]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, *readers: ReplayReader) -> None:
        for reader in readers:
            self.tasks.append(asyncio.create_task(self._ask(reader)))
        await self.settle()

    async def _ask(self, reader: ReplayReader) -> None:
        self.got.append((reader, await self.replays.turn(reader)))

    async def end(self, reader: ReplayReader) -> None:
        """One of this reader's turns is over."""
        found = next(one for one in self.got if one[0] == reader)
        self.got.remove(found)
        found[1].end()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        while self.replays.resting:
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    def count(self, reader: ReplayReader) -> int:
        return sum(one == reader for one, _ in self.got)


async def test_replays_are_bounded_per_reader_per_tenant_and_in_total() -> None:
    asking = Asking()
    await asking.ask(*[ADA] * 1_000)
    assert asking.count(ADA) == PAGES_OF_READER
    await asking.ask(*[BOB] * 1_000, *[ReplayReader("one", "cyd")] * 10)
    assert len(asking.got) == PAGES_OF_TENANT
    await asking.ask(*[EVE] * 10, *[ReplayReader("other", "fay")] * 10, *[ReplayReader("third", "gil")] * 10)
    assert len(asking.got) == PAGES_AT_ONCE == asking.replays.under_way


async def test_a_reader_with_one_stream_does_not_wait_for_another_readers_thousand() -> None:
    asking = Asking()
    await asking.ask(*[ADA] * 1_000)
    await asking.ask(BOB, EVE)
    assert (asking.count(BOB), asking.count(EVE)) == (1, 1)
    filling = [ReplayReader("one", str(number)) for number in range(PAGES_OF_TENANT)]
    await asking.ask(*filling, ReplayReader("one", "late"))
    before = asking.replays.waiting
    served = 0
    while not asking.count(ReplayReader("one", "late")):
        await asking.end(asking.got[0][0])
        served += 1
    assert served <= len(filling) + 3 < before, "readers take turns, whatever number each has waiting"


async def test_all_replays_are_served_and_no_state_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "REST_MAX_S", 0.001)
    asking = Asking()
    await asking.ask(*[ADA, BOB, EVE] * 100)
    while asking.got:
        await asking.end(asking.got[0][0])
    assert all(task.done() for task in asking.tasks)
    assert (asking.replays.under_way, asking.replays.waiting) == (0, 0)
    assert not asking.replays._of_tenant
    assert not asking.replays._waiting


async def test_a_cancelled_waiter_uses_no_slot() -> None:
    asking = Asking()
    await asking.ask(*[ADA] * (PAGES_OF_READER + 3))
    asking.tasks[-1].cancel()
    await asking.settle()
    assert asking.replays.waiting == 2
    # The slot is assigned at the moment of the end: it passes to the next one.
    asking.got.pop(0)[1].end()
    while asking.replays.resting:
        await anyio.lowlevel.checkpoint()
    asking.tasks[PAGES_OF_READER].cancel()
    await asking.settle()
    assert asking.tasks[PAGES_OF_READER + 1].done()
    assert asking.replays.under_way == PAGES_OF_READER
    assert asking.replays.waiting == 0


async def test_a_slow_reader_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "HOLD_S", 0.01)
    turns = Replays()
    held = [await turns.turn(ADA) for _ in range(PAGES_OF_READER)]
    async with asyncio.timeout(20):
        last = await turns.turn(ADA)
    for one in (*held, last, last):
        one.end()
    assert turns.under_way == 0


async def test_a_reader_cancelled_as_its_slot_is_assigned_delays_no_other() -> None:
    """Found by the simulation at 25 ms: the turn was lost, and with it every viewer's at that gateway."""
    asking = Asking()
    await asking.ask(*[ADA] * (PAGES_OF_READER + 2))
    leaving = asking.tasks[PAGES_OF_READER]
    asking.got[0][1].end()
    leaving.cancel()  # Its future is cancelled now; its task runs after the slots are assigned.
    asking.replays._go_on()
    await asking.settle()
    assert asking.count(ADA) == PAGES_OF_READER + 1, "the next one has the turn"
    assert asking.replays.under_way == PAGES_OF_READER
    assert asking.replays.waiting == 0
    for _, turn in asking.got:
        turn.end()
    assert asking.replays.under_way == 0
    await asking.settle()
