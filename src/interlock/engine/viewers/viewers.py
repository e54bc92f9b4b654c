"""Viewers: readers with a cursor on one numbered stream (S-1, S-3, S-4).

The lane publishes committed events to the hub; the hub offers them to each viewer's bounded outbox and never waits. A
viewer reads the ledger to its end, receives the text so far of each open block, and is live from there. A viewer that
is behind by more than VIEWER_OUTBOX_BYTES returns to reading the ledger from its own cursor, at its own pace; one that
falls behind repeatedly is ended with `Behind`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from interlock.engine.viewers.replays import NOBODY, PageTurn, ReplayReader, Replays
from interlock.engine.viewers.stream_items import (
    ITEM_BYTES,
    Durable,
    Item,
    NotificationPace,
    SharedItems,
    TransientItem,
    closing_frame,
    coalesced,
)
from interlock.ports.signals import Signal
from interlock.protocol import frames
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import KIB, PAGE_MAX, VIEWER_OUTBOX_BYTES
from interlock.protocol.records import Event, EventKind
from interlock.session.blocks import TURN_ENDS, Hole, OpenBlocks

MAX_OVERFLOWS = 16
"""A viewer that has fallen behind this many times is ended with `Behind`."""
FIRST_PAGE = 64
"""Events of a viewer's first page; the size of the next page depends on their lengths."""
REPLAY_PAGE_BYTES = 64 * KIB
"""Approximate size of a viewer's page from the ledger, if its events are about as long as those of the previous
page."""
COALESCE_BYTES = 64 * KIB
"""From this backlog on, neighbouring transient frames of a viewer are merged when it takes them (S-4)."""


class Behind(Exception):
    """Raised if the viewer could not keep up: it must resume from its cursor (S-4)."""

    def __init__(self) -> None:
        super().__init__("This viewer could not keep up; resume from your cursor.")


class EventSource(Protocol):
    """The part of the ledger that viewers read."""

    async def tail(self, tenant_id: str, stream: str, after: int, limit: int
                   ) -> list[tuple[int, EventKind, bytes, int]]: ...


class _Topic:
    """A stream that has readers or open blocks."""

    def __init__(self) -> None:
        self.viewers: list[StreamViewer] = []
        self.blocks = OpenBlocks()
        self.delivered = 0
        """Number of the last event that was published while this topic existed; 0 if none was."""
        self.pace = NotificationPace(self._offer)
        self.reach: Callable[[int], Awaitable[None]] | None = None
        """If another gateway may write the stream: publishes everything up to a number to this topic. No viewer may be
        ahead of its topic there: it would receive text of a block that it has seen closed."""

    def deliver(self, items: Sequence[Item]) -> None:
        """Send items to the viewers, at their pace."""
        if self.viewers:
            self.pace.take(items, len(self.viewers))

    def _offer(self, items: Sequence[Item]) -> None:
        run = SharedItems(items)
        for viewer in self.viewers:
            viewer.offer(run)


class StreamViewer:
    """A reader of a stream. `next` returns bursts; as an asynchronous iterator it yields them until the hub ends it."""

    def __init__(self, source: EventSource, tenant_id: str, stream: str, topic: _Topic, after: int, page: int,
                 replays: Replays, reader: ReplayReader) -> None:
        self.cursor = after
        """Number of the last durable item that was returned."""
        self._source = source
        self.tenant_id = tenant_id
        self._stream = stream
        self._topic = topic
        self._longest_page = page
        self._page = min(page, FIRST_PAGE)
        self._replays = replays
        self._reader = reader
        self._turn: PageTurn | None = None
        """While a page of the ledger is under way to the reader."""
        self._live = False
        self._delivered = after
        self._inbox: deque[Item] = deque()
        self._shared: SharedItems | None = None
        """Represents the whole inbox while that holds exactly one run."""
        self._size = 0
        self._overflows = 0
        self._closed_blocks: set[str] = set()
        self._ended = False
        self._wake = asyncio.Event()

    # --- the hub's side: never waits ---
    def offer(self, run: SharedItems) -> None:
        """Add a run to the outbox; beyond the limit the viewer returns to the ledger (S-4)."""
        if self._live and run.first in (0, self._delivered + 1):
            if self._inbox or self._shared is not None:
                self._unshare()
                self._inbox.extend(run)
            else:
                self._shared = run
            self._delivered = run.last or self._delivered
            self._size += run.size
        else:
            self._put(run)
        if self._size > VIEWER_OUTBOX_BYTES:
            self._fall_back()
            self._overflows += 1
        self._wake.set()

    def _unshare(self) -> None:
        if self._shared is not None:
            self._inbox.extend(self._shared)
            self._shared = None

    def _put(self, items: SharedItems) -> None:
        self._unshare()
        live, delivered, size = self._live, self._delivered, 0
        for item in items:
            if isinstance(item, Durable):
                if item.n <= delivered:
                    continue
                if live and item.n != delivered + 1:
                    self._fall_back()  # Received out of order: the ledger has the order.
                    live, size = False, 0
                delivered = item.n
            if live:
                self._inbox.append(item)
                size += ITEM_BYTES + len(item.body)
        self._delivered = delivered
        self._size += size

    def end(self) -> None:
        """End the viewer's stream after the items in its outbox."""
        self._ended = True
        self._wake.set()

    def _fall_back(self) -> None:
        # What is dropped here is in the ledger, or in the text so far of its block.
        self._inbox.clear()
        self._shared = None
        self._size = 0
        self._live = False

    # --- the reader's side ---
    def __aiter__(self) -> StreamViewer:
        return self

    async def __anext__(self) -> list[Item]:
        burst = await self.next()
        if not burst:
            raise StopAsyncIteration
        return burst

    @property
    def ended(self) -> bool:
        """Return whether the hub has ended this stream and all of it was returned."""
        return self._ended and not self._inbox and self._shared is None

    async def next(self, timeout_s: float | None = None) -> list[Item]:
        """Return the available items, otherwise wait for some. Returns [] after the timeout (0: at once) or if the
        stream has ended. A cancelled wait loses nothing. Raises Behind."""
        if timeout_s == 0:
            return await self._ready()
        try:
            async with asyncio.timeout(timeout_s):
                while not (burst := await self._ready()) and not self._ended:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return []
        return burst

    async def _ready(self) -> list[Item]:
        if self._overflows >= MAX_OVERFLOWS:
            raise Behind
        self.rest()
        while not self._live:
            if self._ended:
                return []
            if self._turn is None:
                self._turn = await self._replays.turn(self._reader)
            rows = await self._source.tail(self.tenant_id, self._stream, self.cursor, self._page)
            if rows:
                items = [Durable(*row) for row in rows]
                self._measure(items)
                if self._topic.reach is not None:
                    await self._topic.reach(items[-1].n)
                return self._from_ledger(items)
            # Items that wait to be published go first: the text so far holds their deltas already.
            self._topic.pace.flush()
            # Nothing is awaited between this check and going live, so nothing can be published in between. What was
            # published after the read began is in the ledger: read once more.
            if self._delivered <= self.cursor:
                self.rest()
                return self._go_live()
        return self._take()

    def rest(self) -> None:
        """Record that no page is under way: the last one was written, or the reader has left."""
        if self._turn is not None:
            self._turn.end()
            self._turn = None

    def _measure(self, page: list[Durable]) -> None:
        size = sum(ITEM_BYTES + len(item.body) for item in page)
        self._page = max(1, min(self._longest_page, REPLAY_PAGE_BYTES * len(page) // size))

    def _from_ledger(self, events: list[Durable]) -> list[Item]:
        if self._topic.blocks:
            for event in events:
                # What was published has closed its blocks already; a block that is open now under the same name is a
                # new one.
                frame = closing_frame(event.kind, event.body) if event.n > self._topic.delivered else None
                # A turn's end closes nothing by itself here: its blocks were closed by name before it (T-3).
                if frame is not None and frame.type not in TURN_ENDS:
                    self._closed_blocks.update(self._topic.blocks.closed_by(frame))
        self.cursor = events[-1].n
        self._delivered = max(self._delivered, self.cursor)
        return [*events]

    def _go_live(self) -> list[Item]:
        # A block whose end was read from the ledger, and is about to be published, is no longer open here.
        merged = self._topic.blocks.merged(self._closed_blocks)
        self._closed_blocks.clear()
        self._live = True
        return [TransientItem(frames.encode(frame), frame) for frame in merged]

    def _take(self) -> list[Item]:
        shared, self._shared = self._shared, None
        if shared is not None:
            self._size = 0
            self.cursor = self._delivered
            return shared
        burst: list[Item] = list(self._inbox)
        if self._size > COALESCE_BYTES and TransientItem in set(map(type, burst)):
            burst = coalesced(burst)
        self._inbox.clear()
        self._size = 0
        for item in reversed(burst):
            if isinstance(item, Durable):
                self.cursor = item.n
                break
        return burst


class Relay(Protocol):
    """A relay of stream events to and from the gateways whose viewers read them. Nothing here blocks but `watch`, which
    waits for a while."""

    def on_durable(self, stream: str, n: int) -> None:
        """Record that this gateway's viewers were sent a stream, which this gateway wrote, up to `n`."""
        ...

    def on_transient(self, stream: str, n: int, raw: bytes) -> None:
        """Record that they were sent a transient frame after event `n`."""
        ...

    async def watch(self, tenant_id: str, stream: str) -> None:
        """Publish what other gateways write to the hub from here on, for a viewer that joins."""
        ...

    def unwatch(self, stream: str) -> None:
        """Record that a viewer has left."""
        ...

    def lost(self, session_stream: str) -> None:
        """Record that another gateway writes the stream from now on."""
        ...


class Viewers:
    """The hub. The lane calls `publish` and `transient`, in its order, after the commit."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self.replays = Replays()
        """Schedules the pages that streams read."""
        self.topics: dict[str, _Topic] = {}
        """The streams that have readers here, or open blocks; only `Viewers` changes it."""
        self.relayed = False
        """Whether published items also reach other gateways."""
        self._closed = False
        self.on_close = Signal[[]]()
        self._relay: Relay | None = None
        self.holes = 0
        """Transient frames that were not relayed because text before them never arrived (E-4)."""

    def share(self, relay: Relay) -> None:
        """Exchange what is written here and elsewhere with other gateways."""
        self._relay = relay
        self.relayed = True

    def lost(self, stream: str) -> None:
        """Stop relaying a stream that another gateway writes now."""
        if self._relay is not None:
            self._relay.lost(stream)

    def publish(self, stream: str, events: Sequence[Event]) -> None:
        """Publish what one transaction appended to a stream: numbers in order and without gaps. Never waits."""
        self.publish_items(stream, [Durable(event.n, event.kind, event.body, event.at_ms) for event in events])

    def publish_items(self, stream: str, items: Sequence[Durable]) -> None:
        """Do what `publish` does, with the items that viewers will share."""
        if self._relay is not None and items:
            self._relay.on_durable(stream, items[-1].n)
        self.deliver(stream, items)

    def deliver(self, stream: str, items: Sequence[Durable]) -> None:
        """Send durable items to the viewers here, whichever gateway wrote them."""
        topic = self.topics.get(stream)
        if topic is None:
            return
        if topic.blocks.open:
            for item in items:
                frame = item.closing()
                if frame is not None:
                    topic.blocks.feed(frame)
        if items:
            topic.delivered = max(topic.delivered, items[-1].n)
            topic.deliver(items)
        self._forget_if_idle(stream, topic)

    def transient(self, session_stream: str, raw: bytes, frame: Frame, after: int = 0) -> None:
        """Relay a transient frame: its new part is sent to every live viewer, and added to the text so far.

        A turn's end must have been published before a frame of the next turn is relayed, since it closes what is open.
        `after` is the number of the event that it followed, if that is known.
        """
        news = self.overhear(session_stream, raw, frame, after)
        if self._relay is not None and isinstance(news, TransientItem):
            self._relay.on_transient(session_stream, after, news.body)

    def overhear(self, session_stream: str, raw: bytes, frame: Frame, after: int = 0) -> TransientItem | Hole | None:
        """Deliver a transient frame to the viewers here, whichever gateway relayed it; returns its new part."""
        topic = self.topics.get(session_stream)
        if topic is None:
            topic = self.topics[session_stream] = _Topic()
        topic.delivered = max(topic.delivered, after)
        news = topic.blocks.feed(frame)
        item: TransientItem | Hole | None = None
        if isinstance(news, Hole):
            self.holes += 1
            item = news
        elif news is not None:
            item = TransientItem(raw if news is frame else frames.encode(news), news)
            topic.deliver((item,))
        self._forget_if_idle(session_stream, topic)
        return item

    def so_far(self, stream: str) -> tuple[int, list[bytes]]:
        """Return the text so far of a stream's open blocks, and the number of the event after which it applies."""
        topic = self.topics.get(stream)
        if topic is None:
            return 0, []
        return topic.delivered, [frames.encode(frame) for frame in topic.blocks.merged()]

    def at(self, stream: str) -> int:
        """Return the number of the last event that viewers here were sent."""
        topic = self.topics.get(stream)
        return topic.delivered if topic is not None else 0

    def follow(self, stream: str, n: int, reach: Callable[[int], Awaitable[None]]) -> None:
        """Limit viewers of a stream to what `reach` has reported; all up to `n` counts as delivered."""
        topic = self.topics.get(stream)
        if topic is None:
            topic = self.topics[stream] = _Topic()
        topic.delivered, topic.reach = max(topic.delivered, n), reach

    def unfollow(self, stream: str, *, blocks: bool) -> None:
        """Stop following a stream that has no readers here; without `blocks` it has no writer here either."""
        topic = self.topics.get(stream)
        if topic is None:
            return
        topic.reach = None
        if not topic.viewers and not (blocks and topic.blocks):
            del self.topics[stream]

    @asynccontextmanager
    async def join(self, tenant_id: str, stream: str, after: int, page: int = PAGE_MAX,
                   reader: ReplayReader = NOBODY) -> AsyncGenerator[StreamViewer]:
        """Read a tenant's stream after number `after`: the ledger's tail in pages, the text so far, then live. Pages of
        one reader, and of one tenant, are read a few at a time."""
        relay = self._relay
        if relay is not None:
            await relay.watch(tenant_id, stream)
        topic = self.topics.get(stream)
        if topic is None:
            topic = self.topics[stream] = _Topic()
        viewer = StreamViewer(self._source, tenant_id, stream, topic, after, page, self.replays, reader)
        topic.viewers.append(viewer)
        if self._closed:
            viewer.end()
        try:
            yield viewer
        finally:
            viewer.rest()
            topic.viewers.remove(viewer)
            if not topic.viewers:
                topic.pace.forget()
            self._forget_if_idle(stream, topic)
            if relay is not None:
                relay.unwatch(stream)

    def count(self, tenant_id: str | None = None) -> int:
        """Return the number of viewers, of one tenant's streams or of all."""
        return sum(tenant_id in (None, viewer.tenant_id) for topic in self.topics.values() for viewer in topic.viewers)

    def close(self) -> None:
        """End every stream, and each that is joined from now on: the gateway stops."""
        self._closed = True
        for topic in self.topics.values():
            topic.pace.flush()
            for viewer in topic.viewers:
                viewer.end()
        self.on_close()

    def _forget_if_idle(self, stream: str, topic: _Topic) -> None:
        idle = not topic.viewers and not topic.blocks and topic.reach is None
        if idle and self.topics.get(stream) is topic:
            del self.topics[stream]
