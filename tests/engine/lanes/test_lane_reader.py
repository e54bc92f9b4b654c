"""Many lanes are read with the round trips of one, and an unreadable one affects no other (C-4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.lanes import due_sessions
from interlock.engine.membership import Elsewhere
from interlock.ports.ledger import LaneName, LedgerError, PutSession, WriteBatch
from interlock.ports.stored_lanes import LaneHistory, LaneQuestion, StoredLane

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


class Counting(MemoryLedger):
    """A ledger that counts what is asked of it from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.away = False

    async def stored_lanes(self, lanes: Sequence[LaneName], received: int) -> dict[str, StoredLane]:
        self.asked["stored_lanes"] += 1
        if self.away:
            raise LedgerError("The ledger is away.")
        return await super().stored_lanes(lanes, received)

    async def lane_histories(self, asked: Sequence[LaneQuestion], events: int, seals: int) -> list[LaneHistory]:
        self.asked["lane_histories"] += 1
        return await super().lane_histories(asked, events, seals)


async def at_work(count: int) -> tuple[Table, Counting, list[str]]:
    """Have sessions in which a turn runs, and forget all lanes as a gateway does that died."""
    table = Table()
    table.ledger = ledger = Counting()
    table.begin()
    sessions = list[str]()
    for _ in range(count):
        session_id = (await table.execute()).target.session_id
        await table.opened(session_id)
        await table.started(session_id)
        sessions.append(session_id)
    await table.engine.stop()
    table.begin()
    ledger.asked.clear()
    return table, ledger, sessions


def lanes_of(*session_ids: str) -> list[LaneName]:
    return [LaneName("default", one) for one in session_ids]


def live(table: Table) -> list[str]:
    return [shell.lane.state.session_id for shell in table.engine.lanes.live()]


async def test_many_lanes_are_read_with_as_many_reads_as_one() -> None:
    asked = []
    for count in (1, 7):
        table, ledger, sessions = await at_work(count)
        assert await table.engine.lanes.read_together(lanes_of(*sessions)) == []
        assert live(table) == sessions
        asked.append(dict(ledger.asked))
        await table.engine.stop()
    assert asked[0] == asked[1] == {"stored_lanes": 1, "lane_histories": 1}


async def test_a_lane_read_with_others_equals_one_read_alone() -> None:
    table, _, sessions = await at_work(3)
    await table.engine.lanes.read_together(lanes_of(*sessions))
    together = [msgspec.json.encode(shell.lane.state) for shell in table.engine.lanes.live()]
    commands = [list(shell.lane.commands) for shell in table.engine.lanes.live()]
    await table.engine.stop()
    table.begin()
    for place, session_id in enumerate(sessions):
        shell = await table.engine.lanes.need(session_id)
        assert msgspec.json.encode(shell.lane.state) == together[place]
        assert list(shell.lane.commands) == commands[place] != []
    await table.engine.stop()


async def test_an_unreadable_session_is_retried_and_blocks_no_other() -> None:
    table, ledger, (first, broken, last) = await at_work(3)
    record = await ledger.session(broken)
    assert record is not None
    await ledger.commit(WriteBatch([PutSession(msgspec.structs.replace(record, machine=b"not a state"))]))
    lanes = table.engine.lanes
    lanes.due.read_soon(lanes_of(first, broken, last))
    await lanes.due.settled()
    assert live(table) == [first, last]
    await ledger.commit(WriteBatch([PutSession(record)]))
    lanes.due.read_soon(lanes_of(broken))  # As its alarm does after a while.
    await lanes.due.settled()
    assert live(table) == [first, last, broken]
    await table.engine.stop()


async def test_a_lane_of_another_gateway_is_left_to_it() -> None:
    table, _, (first, other) = await at_work(2)
    lanes = table.engine.lanes
    take = lanes.room.take

    async def elsewhere(lane: LaneName, runner_id: str | None = None) -> int:
        if lane.name == other:
            raise Elsewhere("i_other")
        return await take(lane, runner_id)

    lanes.room.take = elsewhere  # type: ignore[method-assign]
    lanes.due.read_soon(lanes_of(other, first))
    await lanes.due.settled()
    assert live(table) == [first]
    await table.engine.stop()


async def test_every_session_is_retried_while_the_ledger_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    table, ledger, sessions = await at_work(3)
    lanes = table.engine.lanes
    woken = list[LaneName]()

    def wake(lane: LaneName, _delay_s: float) -> None:
        woken.append(lane)

    monkeypatch.setattr(lanes.due, "wake", wake)
    ledger.away = True
    lanes.due.read_soon(lanes_of(*sessions))
    await lanes.due.settled()
    assert (woken, live(table)) == (lanes_of(*sessions), [])
    ledger.away = False
    lanes.due.read_soon(lanes_of(*sessions))
    await lanes.due.settled()
    assert live(table) == sessions
    await table.engine.stop()


async def test_a_request_for_a_lane_being_read_waits_for_that_read() -> None:
    table, ledger, sessions = await at_work(3)
    lanes = table.engine.lanes
    reading = asyncio.create_task(lanes.read_together(lanes_of(*sessions)))
    await asyncio.sleep(0)
    shells: list[Any] = await asyncio.gather(*(lanes.need(one) for one in reversed(sessions)))
    assert await reading == []
    assert [shell.lane.state.session_id for shell in shells] == sessions[::-1]
    assert ledger.asked["stored_lanes"] == 1
    await table.engine.stop()


async def test_more_lanes_than_the_bound_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_sessions, "READ_TOGETHER", 2)
    table, ledger, sessions = await at_work(5)
    table.engine.lanes.due.read_soon(lanes_of(*sessions))
    await table.engine.lanes.due.settled()
    assert sorted(live(table)) == sorted(sessions)
    assert ledger.asked["stored_lanes"] == 3
    await table.engine.stop()


async def test_groups_that_are_read_together_never_wait_for_each_other() -> None:
    table, _, sessions = await at_work(2)
    lanes = table.engine.lanes
    x, z = sessions
    lock, go_on = lanes._loading.setdefault(x, asyncio.Lock()), asyncio.Event()

    async def wait_in_line() -> None:
        async with lock:
            await go_on.wait()

    await lock.acquire()
    waiting = asyncio.create_task(wait_in_line())
    await asyncio.sleep(0)
    one = asyncio.create_task(lanes.read_together(lanes_of(x, z)))
    lock.release()  # The first group finds the lock free, and another that waits for it.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go_on.set()
    other = asyncio.create_task(lanes.read_together(lanes_of(z, x)))  # So does the second, behind the first.
    async with asyncio.timeout(5):
        await asyncio.gather(waiting, one, other)
    assert sorted(live(table)) == sorted(sessions)
    await table.engine.stop()
