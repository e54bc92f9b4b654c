"""Viewers: the durable tail, the text so far, then live; no gap, no repeat, and no waiting for a slow viewer."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.viewers.replays import PAGES_OF_READER, ReplayReader
from interlock.engine.viewers.stream_items import Durable, Item, SharedItems, TransientItem, closing_frame, coalesced
from interlock.engine.viewers.viewers import FIRST_PAGE, MAX_OVERFLOWS, REPLAY_PAGE_BYTES, Behind, StreamViewer, Viewers
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.limits import PAGE_MAX, VIEWER_OUTBOX_BYTES
from interlock.protocol.payloads import TextDelta, TextDone, TurnEnd
from interlock.protocol.records import Event, EventKind

pytestmark = pytest.mark.anyio
S = "s/1"


def delta(offset: int, text: str, block: str = "b") -> Frame:
    return Frame(type="agent.text.delta", message_id="m", session_id="1", timestamp="t",
                 payload=TextDelta(turn_id="t", block_id=block, offset=offset, text=text))


def done(seq: int, text: str, block: str = "b") -> Frame:
    return Frame(type="agent.text.done", message_id="m", session_id="1", timestamp="t", seq=seq,
                 payload=TextDone(turn_id="t", block_id=block, text=text))


def end(seq: int) -> Frame:
    return Frame(type="session.turn.end", message_id="m", session_id="1", timestamp="t", seq=seq,
                 payload=TurnEnd(turn_id="t", stop_reason="error"))


class Lane:
    """A lane as the hub sees it: events that are committed, then published. `hold` makes a read wait."""

    def __init__(self) -> None:
        self.committed: list[Event] = []
        self.published = 0
        self.hub = Viewers(self)
        self.reads = 0
        self.hold: asyncio.Event | None = None

    async def tail(self, tenant_id: str, stream: str, after: int, limit: int
                   ) -> list[tuple[int, EventKind, bytes, int]]:
        self.reads += 1
        seen = self.committed[after:after + limit]
        await asyncio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()
        return [(one.n, one.kind, one.body, one.at_ms) for one in seen]

    def commit(self, body: bytes | Frame = b'{"type":"x"}', kind: str = "C") -> None:
        raw = encode(body) if isinstance(body, Frame) else body
        self.committed.append(Event(stream=S, n=len(self.committed) + 1, kind=kind, at_ms=1, body=raw))  # type: ignore[arg-type]

    def announce(self) -> None:
        self.hub.publish(S, self.committed[self.published:])
        self.published = len(self.committed)

    def event(self, body: bytes | Frame = b'{"type":"x"}') -> None:
        self.commit(body)
        self.announce()

    def delta(self, offset: int, text: str, block: str = "b") -> None:
        frame = delta(offset, text, block)
        self.hub.transient(S, encode(frame), frame)


def numbers(burst: list[Item]) -> list[int]:
    return [item.n for item in burst if isinstance(item, Durable)]


def texts(burst: list[Item]) -> list[tuple[int, str]]:
    return [(item.frame.payload.offset, item.frame.payload.text) for item in burst if isinstance(item, TransientItem)]


@pytest.mark.req("S-1", "S-3")
async def test_a_viewer_gets_the_tail_then_the_text_so_far_then_live() -> None:
    lane = Lane()
    for _ in range(3):
        lane.event()
    lane.delta(0, "Hel")
    lane.delta(3, "lo")
    async with lane.hub.join("default", S, 1) as viewer:
        assert numbers(await viewer.next()) == [2, 3]
        assert texts(await viewer.next()) == [(0, "Hello")]
        assert await viewer.next(0) == []
        lane.delta(5, "!")
        lane.event()
        burst = await viewer.next()
        assert texts(burst) == [(5, "!")]
        assert numbers(burst) == [4]
        assert viewer.cursor == 4


@pytest.mark.req("S-3")
async def test_events_committed_while_the_tail_is_read_arrive_once() -> None:
    lane = Lane()
    lane.event()
    lane.hold = asyncio.Event()
    async with lane.hub.join("default", S, 0) as viewer:
        reading = asyncio.ensure_future(viewer.next())
        await asyncio.sleep(0)
        lane.event()
        lane.hold.set()
        assert numbers(await reading) == [1]
        assert numbers(await viewer.next()) == [2]
        lane.commit()
        assert numbers(await viewer.next(0)) == [3]
        lane.announce()
        assert await viewer.next(0) == []


@pytest.mark.req("S-3")
async def test_a_block_with_a_committed_but_unpublished_end_is_not_opened_again() -> None:
    lane = Lane()
    lane.delta(0, "Hello")
    lane.delta(0, "open", "other")
    lane.commit(done(1, "Hello"))
    async with lane.hub.join("default", S, 0) as viewer:
        assert numbers(await viewer.next()) == [1]
        assert texts(await viewer.next()) == [(0, "open")]
        lane.announce()
        assert await viewer.next(0) == []


@pytest.mark.req("S-3", "E-4")
async def test_overlapping_text_is_relayed_once_and_text_after_a_gap_not_at_all() -> None:
    lane = Lane()
    async with lane.hub.join("default", S, 0) as viewer:
        assert await viewer.next(0) == []
        lane.delta(0, "abc")
        lane.delta(0, "abcde")
        lane.delta(2, "cd")
        lane.delta(9, "?")
        assert texts(await viewer.next()) == [(0, "abc"), (3, "de")]
    assert lane.hub.holes == 1


@pytest.mark.req("S-1", "S-3")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["commit", "tell", "delta", "done", "end", "read", "pass"]), max_size=60))
async def test_a_viewer_sees_every_number_once_and_the_whole_text_in_any_order(steps: list[str]) -> None:
    lane = Lane()
    seen: list[int] = []
    shown: dict[str, str] = {}
    block, length = 0, 0

    def look(burst: list[Item]) -> None:
        for item in burst:
            if isinstance(item, Durable):
                seen.append(item.n)
                closed = closing_frame(item.kind, item.body)
                if closed is not None and isinstance(closed.payload, TextDone):
                    shown.pop(closed.payload.block_id, None)
            else:
                payload = item.frame.payload
                text = shown.get(payload.block_id, "")
                assert payload.offset <= len(text)
                shown[payload.block_id] = text[:payload.offset] + payload.text

    async with lane.hub.join("default", S, 0) as viewer:
        for step in [*steps, "tell"]:
            if step == "commit":
                lane.commit()
            elif step == "tell":
                lane.announce()
            elif step == "delta" and not any(b"turn.end" in event.body for event in lane.committed[lane.published:]):
                lane.delta(length, "ab", str(block))
                length += 2
            elif step == "done":
                lane.commit(done(1, "", str(block)))
                block, length = block + 1, 0
            elif step == "end":
                lane.commit(done(1, "", str(block)))
                lane.commit(end(1))
                block, length = block + 1, 0
            elif step == "read":
                look(await viewer.next(0))
            else:
                await asyncio.sleep(0)
        while burst := await viewer.next(0):
            look(burst)
    assert seen == list(range(1, len(lane.committed) + 1))
    assert shown == ({str(block): "ab" * (length // 2)} if length else {})


@pytest.mark.req("S-4")
async def test_a_slow_viewer_falls_back_to_the_ledger_and_misses_nothing() -> None:
    lane = Lane()
    body = b'{"type":"x","pad":"' + b"p" * 4000 + b'"}'
    async with lane.hub.join("default", S, 0) as slow, lane.hub.join("default", S, 0) as quick:
        assert await slow.next(0) == []
        assert await quick.next(0) == []
        count = VIEWER_OUTBOX_BYTES // len(body) * 3
        got: list[int] = []
        for number in range(count):
            lane.event(body)
            if number % 50 == 0:
                got += numbers(await quick.next(0))
        quick_reads = lane.reads
        got += numbers(await quick.next(0))
        assert got == list(range(1, count + 1))
        assert lane.reads == quick_reads
        again: list[int] = []
        while burst := await slow.next(0):
            assert len(burst) <= PAGE_MAX
            again += numbers(burst)
        assert again == got


@pytest.mark.req("S-4")
async def test_a_viewer_that_falls_behind_repeatedly_is_ended() -> None:
    lane = Lane()
    body = b'{"type":"x","pad":"' + b"p" * VIEWER_OUTBOX_BYTES + b'"}'
    async with lane.hub.join("default", S, 0) as viewer:
        for _ in range(MAX_OVERFLOWS):
            while await viewer.next(0):
                pass
            lane.event(body)
        with pytest.raises(Behind, match="resume from your cursor"):
            await viewer.next(0)


@pytest.mark.req("S-4", "E-4")
async def test_a_backlog_of_neighbouring_deltas_is_merged() -> None:
    frames = [delta(at * 2, "ab") for at in range(5)] + [delta(0, "x", "c"), delta(10, "yz")]
    items: list[Item] = [TransientItem(encode(frame), frame) for frame in frames]
    items.insert(3, Durable(1, "C", b"{}", 0))
    merged = coalesced(items)
    assert texts(merged) == [(0, "ababab"), (6, "abab"), (0, "x"), (10, "yz")]
    assert all(not isinstance(item, TransientItem) or item.body == encode(item.frame) for item in merged)
    lane = Lane()
    async with lane.hub.join("default", S, 0) as viewer:
        await viewer.next(0)
        for at in range(1000):
            lane.delta(at, "a")
        burst = await viewer.next()
        assert len(burst) < 10
        assert "".join(text for _, text in texts(burst)) == "a" * 1000


@pytest.mark.req("S-4")
async def test_one_run_is_shared_by_its_waiting_viewers_and_several_are_read_in_order() -> None:
    hub = Lane().hub
    runs = [[Durable(n, "notice", b"{}", 0) for n in range(first, first + 3)] for first in (1, 4)]
    async with hub.join("default", S, 0) as one, hub.join("default", S, 0) as two, hub.join("default", S, 0) as late:
        for viewer in (one, two, late):
            assert await viewer.next(0) == []
        hub.publish_items(S, runs[0])
        first = await one.next(0)
        assert first is await two.next(0)
        assert isinstance(first, SharedItems)
        hub.publish_items(S, runs[1])
        assert numbers(await one.next(0)) == [4, 5, 6]
        assert numbers(await late.next(0)) == [1, 2, 3, 4, 5, 6]
        assert (one.cursor, late.cursor) == (6, 6)
        hub.publish_items(S, [Durable(7, "notice", b"{}", 0)])
        hub.close()
        assert not late.ended
        assert numbers(await late.next(0)) == [7]
        assert late.ended


@pytest.mark.req("S-1")
async def test_bodies_are_encoded_once_and_shared() -> None:
    lane = Lane()
    async with lane.hub.join("default", S, 0) as one, lane.hub.join("default", S, 0) as other:
        await one.next(0)
        await other.next(0)
        lane.event()
        lane.delta(0, "x")
        for first, second in zip(await one.next(), await other.next(), strict=True):
            assert first.body is second.body


async def test_closing_the_hub_ends_every_stream_and_later_ones_too() -> None:
    lane = Lane()
    lane.event()

    async def read(viewer: StreamViewer) -> list[int]:
        return [n async for burst in viewer for n in numbers(burst)]

    async with lane.hub.join("default", S, 0) as viewer:
        assert [lane.hub.count(tenant) for tenant in (None, "default", "other")] == [1, 1, 0]
        reading = asyncio.ensure_future(read(viewer))
        while lane.reads < 2:
            await asyncio.sleep(0)
        lane.hub.close()
        assert await reading == [1]
        assert viewer.ended
    async with lane.hub.join("default", S, 0) as late:
        assert await late.next() == []
    assert lane.hub.count() == 0


async def test_an_expired_or_cancelled_wait_loses_nothing() -> None:
    lane = Lane()
    async with lane.hub.join("default", S, 0) as viewer:
        assert await viewer.next(0.001) == []
        waiting = asyncio.ensure_future(viewer.next())
        await asyncio.sleep(0)
        waiting.cancel()
        lane.event()
        assert numbers(await viewer.next(5)) == [1]


async def test_numbers_published_out_of_order_are_read_in_order() -> None:
    lane = Lane()
    async with lane.hub.join("default", S, 0) as viewer:
        await viewer.next(0)
        lane.commit()
        lane.commit()
        lane.hub.publish(S, [lane.committed[1]])
        lane.hub.publish(S, [lane.committed[0]])
        assert numbers(await viewer.next()) == [1, 2]


@pytest.mark.req("S-3")
async def test_ends_of_earlier_turns_do_not_close_what_is_open_now() -> None:
    lane = Lane()
    lane.delta(0, "first", "b")
    lane.event(done(1, "first", "b"))
    lane.event(end(2))
    lane.delta(0, "second", "c")
    lane.event()
    lane.delta(0, "again", "b")
    async with lane.hub.join("default", S, 0) as viewer:
        assert numbers(await viewer.next()) == [1, 2, 3]
        assert texts(await viewer.next()) == [(0, "second"), (0, "again")]


async def test_the_end_of_a_turn_drops_its_open_blocks() -> None:
    lane = Lane()
    lane.delta(0, "never closed")
    lane.event(end(1))
    async with lane.hub.join("default", S, 1) as viewer:
        assert await viewer.next(0) == []


@pytest.mark.req("S-4", "S-1")
async def test_a_readers_thousand_replays_are_bounded_and_another_reader_is_live_at_once() -> None:
    lane = Lane()
    for _ in range(3 * FIRST_PAGE):
        lane.event()
    joined = AsyncExitStack()
    async with joined:
        many = [await joined.enter_async_context(lane.hub.join("default", S, 0,
                                                               reader=ReplayReader("t", "many"))) for _ in range(1_000)]
        waiting = [asyncio.create_task(viewer.next()) for viewer in many]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < PAGES_OF_READER:
            done, _ = await asyncio.wait(waiting, timeout=0)
        assert (len(done), lane.reads) == (PAGES_OF_READER, PAGES_OF_READER), "a page is held until it is written"
        async with lane.hub.join("default", S, 0, reader=ReplayReader("t", "one")) as viewer:
            seen: list[int] = []
            while len(seen) < 3 * FIRST_PAGE:
                seen += numbers(await viewer.next())
            assert seen == [*range(1, 3 * FIRST_PAGE + 1)]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    async with lane.hub.join("default", S, 0, reader=ReplayReader("t", "many")) as viewer:
        assert await viewer.next(), "readers that have left keep no turn"


@pytest.mark.req("S-4")
async def test_a_wait_for_a_replay_slot_has_a_timeout() -> None:
    lane = Lane()
    for _ in range(10):
        lane.event()
    async with AsyncExitStack() as joined:
        own = ReplayReader("t", "many")
        for _ in range(PAGES_OF_READER):
            viewer = await joined.enter_async_context(lane.hub.join("default", S, 0, reader=own))
            assert await viewer.next()
        late = await joined.enter_async_context(lane.hub.join("default", S, 0, reader=own))
        assert await late.next(0.01) == [], "a keep-alive can be sent meanwhile"
        await viewer.next(0)
        assert len(numbers(await late.next())) == 10


@pytest.mark.req("S-4")
async def test_pages_of_long_events_are_short() -> None:
    lane = Lane()
    for _ in range(200):
        lane.event(b'{"type":"%s"}' % (b"x" * 9_900))
    async with lane.hub.join("default", S, 0) as viewer:
        pages = [numbers(await viewer.next())]
        while pages[-1][-1] < 200:
            pages.append(numbers(await viewer.next()))
    assert [n for page in pages for n in page] == [*range(1, 201)]
    assert len(pages[0]) == FIRST_PAGE
    assert {len(page) for page in pages[1:-1]} == {REPLAY_PAGE_BYTES // 10_000}
