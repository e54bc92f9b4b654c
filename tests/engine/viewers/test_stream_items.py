"""Many viewers of one stream receive items of a short time together: in order, and each once."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from engine.viewers.test_viewers import Lane, S, done, numbers, texts
from interlock.engine.viewers.stream_items import (
    PACE_A_VIEWER_S,
    PACE_BYTES,
    PACE_MAX_S,
    PACE_MIN_S,
    Durable,
    Item,
    NotificationPace,
)
from interlock.engine.viewers.viewers import StreamViewer

pytestmark = [pytest.mark.anyio, pytest.mark.req("S-4")]
CROWD = round(PACE_MIN_S / PACE_A_VIEWER_S) + 5


async def crowd(lane: Lane, stack: AsyncExitStack, count: int = CROWD) -> list[StreamViewer]:
    viewers = [await stack.enter_async_context(lane.hub.join("default", S, 0)) for _ in range(count)]
    for viewer in viewers:
        assert await viewer.next(0) == []
    return viewers


class StillTime:
    """The loop's time is stopped until `go`: no window closes before then, however busy the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._monkeypatch, self._loop, now = monkeypatch, loop, loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)

    def go(self) -> None:
        self._monkeypatch.delattr(self._loop, "time")


@pytest.fixture
async def still(monkeypatch: pytest.MonkeyPatch) -> StillTime:
    return StillTime(monkeypatch)


async def test_the_first_event_after_a_pause_is_sent_immediately_and_the_next_batched(still: StillTime) -> None:
    lane = Lane()
    async with AsyncExitStack() as stack:
        viewers = await crowd(lane, stack)
        lane.event()
        assert [numbers(await viewer.next(0)) for viewer in viewers] == [[1]] * CROWD
        lane.event()
        lane.delta(0, "Hel")
        lane.delta(3, "lo")
        lane.event(done(1, "Hello"))
        assert [await viewer.next(0) for viewer in viewers] == [[]] * CROWD
        still.go()
        bursts = [await viewer.next() for viewer in viewers]
        assert numbers(bursts[0]) == [2, 3]
        assert texts(bursts[0]) == [(0, "Hello")]
        assert all(burst is bursts[0] for burst in bursts)


async def test_a_few_viewers_have_no_batching_delay() -> None:
    lane = Lane()
    async with AsyncExitStack() as stack:
        [viewer] = await crowd(lane, stack, 1)
        for number in range(1, 4):
            lane.event()
            assert numbers(await viewer.next(0)) == [number]


@pytest.mark.req("S-3")
async def test_a_viewer_that_joins_during_a_batch_gets_it_once_and_no_other_twice(
    still: StillTime
) -> None:
    lane = Lane()
    async with AsyncExitStack() as stack:
        first, *_ = await crowd(lane, stack)
        lane.event()
        assert numbers(await first.next(0)) == [1]
        lane.delta(0, "one", "a")
        lane.event(done(1, "one", "a"))
        lane.delta(0, "tw", "b")
        late = await stack.enter_async_context(lane.hub.join("default", S, 0))
        assert numbers(await late.next(0)) == [1, 2]
        assert texts(await late.next(0)) == [(0, "tw")]
        lane.delta(2, "o", "b")
        still.go()
        burst = await first.next()
        while texts(burst)[-1] != (2, "o"):
            burst = [*burst, *await first.next()]
        assert (numbers(burst), texts(burst)) == ([2], [(0, "one"), (0, "tw"), (2, "o")])
        assert texts(await late.next()) == [(2, "o")]


async def test_events_published_out_of_order_are_read_in_order() -> None:
    lane = Lane()
    async with AsyncExitStack() as stack:
        first, *_ = await crowd(lane, stack)
        lane.event()
        assert numbers(await first.next(0)) == [1]
        lane.commit()
        lane.commit()
        lane.hub.publish(S, [lane.committed[2]])
        lane.hub.publish(S, [lane.committed[1]])
        assert numbers(await first.next()) == [2, 3]


async def test_a_full_batch_is_sent_immediately_and_a_waiting_one_before_the_end() -> None:
    lane = Lane()
    async with AsyncExitStack() as stack:
        first, *_ = await crowd(lane, stack)
        lane.event()
        await first.next(0)
        lane.event(b'{"type":"%s"}' % (b"x" * PACE_BYTES))
        assert numbers(await first.next(0)) == [2]
        lane.event()
        lane.hub.close()
        assert numbers(await first.next(0)) == [3]
        assert first.ended


async def test_no_batching_window_is_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    delivered: list[Sequence[Item]] = []
    pace = NotificationPace(delivered.append)
    loop = asyncio.get_running_loop()
    at = [1000.0]
    rings: list[float] = []
    monkeypatch.setattr(loop, "time", lambda: at[0])
    monkeypatch.setattr(loop, "call_at", lambda when, _ring: rings.append(when) or asyncio.TimerHandle(
        when, lambda: None, (), loop))
    items = [Durable(n, "notice", b"{}", 0) for n in (1, 2, 3)]
    pace.take(items[:1], 100_000)
    pace.take(items[1:2], 100_000)
    assert rings == [1000.0 + PACE_MAX_S]
    at[0] = rings[0]
    pace.flush()
    pace.take(items[2:], 100_000)
    assert rings == [1000.0 + PACE_MAX_S, 1000.0 + 2 * PACE_MAX_S]
    assert delivered == [items[:1], items[1:2]]
