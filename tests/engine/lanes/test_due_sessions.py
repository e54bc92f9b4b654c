"""Sessions that are due are read in order, a few at a time, each once, and none after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interlock.engine.lanes import due_sessions
from interlock.engine.lanes.due_sessions import READ_AT_ONCE, READ_TOGETHER, DueSessions
from interlock.ports.ledger import LaneName
from interlock.ports.stored_lanes import SessionClock

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


def lane(name: str) -> LaneName:
    return LaneName("t1", name)


class Reading:
    """Records the reads, and waits until it is released."""

    def __init__(self) -> None:
        self.read: list[list[LaneName]] = []
        self.go_on = asyncio.Event()
        self.due = DueSessions(self._read)

    async def _read(self, lanes: Sequence[LaneName]) -> None:
        self.read.append(list(lanes))
        await self.go_on.wait()


async def test_due_sessions_are_read_in_order_a_few_at_a_time() -> None:
    reading = Reading()
    names = [lane(f"s{number}") for number in range(READ_TOGETHER * (READ_AT_ONCE + 1))]
    reading.due.read_soon(names)
    await asyncio.sleep(0)

    assert reading.read == [names[READ_TOGETHER * at:READ_TOGETHER * (at + 1)] for at in range(READ_AT_ONCE)]
    assert reading.due.unread() == READ_TOGETHER
    reading.go_on.set()
    await reading.due.settled()
    assert [name for group in reading.read for name in group] == names


async def test_a_session_that_is_named_twice_is_read_once() -> None:
    reading = Reading()
    reading.go_on.set()
    reading.due.read_soon([lane("a"), lane("b"), lane("a")])
    await reading.due.settled()

    assert reading.read == [[lane("a"), lane("b")]]


@pytest.mark.parametrize("shorter", ["read", "put off"])
async def test_a_wait_for_a_shorter_queue_ends_as_soon_as_it_is(shorter: str) -> None:
    reading, names = Reading(), [lane(f"s{number}") for number in range(READ_TOGETHER * READ_AT_ONCE + 2)]
    reading.due.read_soon(names)
    await asyncio.sleep(0)
    await reading.due.fewer_unread(2, 0.0)
    await reading.due.fewer_unread(3, 3_600.0)

    waiting = asyncio.create_task(reading.due.fewer_unread(2, 3_600.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    if shorter == "read":
        reading.go_on.set()
    else:
        reading.due.put_off(names[-1:])
    await asyncio.wait_for(waiting, 10)
    reading.go_on.set()
    await reading.due.settled()


async def test_waiting_sessions_can_be_postponed_and_return_to_their_requester() -> None:
    reading = Reading()
    reading.due.read_soon([lane(f"s{number}") for number in range(READ_TOGETHER * READ_AT_ONCE + 1)])
    await asyncio.sleep(0)

    reading.due.read_soon([lane(f"s{READ_TOGETHER * READ_AT_ONCE}")])  # Once more, by its alarm.

    assert reading.due.put_off([lane("another")]) == []
    assert reading.due.put_off([lane(f"s{READ_TOGETHER * READ_AT_ONCE}")]) == [
        lane(f"s{READ_TOGETHER * READ_AT_ONCE}")]
    assert reading.due.unread() == 0
    reading.go_on.set()
    await reading.due.settled()
    assert len(reading.read) == READ_AT_ONCE


async def test_the_timer_of_a_postponed_session_is_not_kept() -> None:
    reading = Reading()
    reading.due.read_soon([lane(f"s{number}") for number in range(READ_TOGETHER * READ_AT_ONCE)])
    await asyncio.sleep(0)
    claimed = SessionClock("claimed", "r1", "running", 1, "t1")
    reading.due.read_claimed(claimed)

    assert reading.due.put_off([claimed.lane]) == [claimed.lane]
    assert reading.due.take_clocks([claimed.lane]) == {}
    await reading.due.stop()


async def test_an_alarm_reads_its_session_once_and_a_later_one_replaces_it() -> None:
    reading = Reading()
    reading.go_on.set()
    was_woken = asyncio.Event()

    async def read(lanes: Sequence[LaneName]) -> None:
        reading.read.append(list(lanes))
        if lane("late") in lanes:
            was_woken.set()

    due = DueSessions(read)
    due.wake(lane("dropped"), 0.0)
    due.wake(lane("dropped"), 3_000.0)
    due.wake(lane("soon"), 0.0)
    due.wake(lane("late"), 0.001)
    async with asyncio.timeout(30):
        await was_woken.wait()

    assert sorted(one.name for group in reading.read for one in group) == ["late", "soon"]
    await due.stop()


async def test_nothing_is_read_after_the_stop() -> None:
    reading = Reading()
    reading.due.read_soon([lane("a")])
    reading.due.wake(lane("b"), 0.0)
    await asyncio.sleep(0)
    await reading.due.stop()

    assert reading.read == [[lane("a")]]


async def test_an_unreadable_session_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_sessions, "AGAIN_S", 0.001)
    broken = lane("broken")
    is_repaired, read_at_last = False, asyncio.Event()
    read: list[LaneName] = []

    async def read_all(lanes: Sequence[LaneName]) -> None:
        if broken in lanes and not is_repaired:
            raise ValueError("its state cannot be decoded")
        read.extend(lanes)
        if broken in lanes:
            read_at_last.set()

    due = DueSessions(read_all)
    others = [lane(f"s{number}") for number in range(READ_TOGETHER)]
    due.read_soon([broken, *others])
    await due.settled()
    assert sorted(read) == sorted(others)

    is_repaired = True
    async with asyncio.timeout(30):
        await read_at_last.wait()  # It was due again by itself.
    await due.stop()


async def test_failing_reads_leave_no_waiting_session_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_sessions, "AGAIN_S", 3_000.0)
    asked: list[LaneName] = []

    async def read(lanes: Sequence[LaneName]) -> None:
        asked.extend(lanes)
        raise TimeoutError

    due = DueSessions(read)
    names = [lane(f"s{number}") for number in range(READ_TOGETHER * (READ_AT_ONCE + 1))]
    due.read_soon(names)
    await due.settled()

    assert set(asked) == set(names)
    assert due.unread() == 0
    await due.stop()
