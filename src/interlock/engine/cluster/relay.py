"""Streams across gateways: the writer sends "stream S is at N", the others read that from the ledger (S-1, S-3).

A message carries numbers, and transient frames with their bodies, in the order in which the writer sent them to its own
viewers; a reader replays exactly that order. So a transient frame is delivered after the events that preceded it, and
is dropped if its block was closed since. Losses are recovered: numbers by the next message, by a periodic look at the
heads, or after a gap; text by requesting the text so far of open blocks from the writer, which overlaps with what is
there and never duplicates it, since text has its offset (E-4).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from interlock.engine.viewers.stream_items import Durable, closing_frame
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.bus import Bus, BusError, Subscription
from interlock.ports.ledger import LaneName, Ledger, LedgerError
from interlock.protocol import frames
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import InvalidFrame
from interlock.protocol.identifiers import session_of_stream
from interlock.protocol.limits import KIB, MIB, PAGE_MAX
from interlock.protocol.payloads import TextDone, ToolResult
from interlock.session.blocks import MAX_OPEN_BLOCKS, TURN_ENDS, Hole, block_of

NOTE_BYTES = 256 * KIB
"""Transient frames of one iteration of the loop are sent in messages of at most this size, except for a single larger
frame."""
TEXT_WAIT_MS = 1_000
"""How long a joining viewer waits for the text so far from the writing gateway; after that it is sent when it
arrives."""
SO_FAR_BYTES = 8 * MIB
"""Limit of the text so far in one answer; a viewer receives the rest at the end of its block."""
LINGER_S = 10.0
"""How long a stream is followed after its last viewer left: a polling client returns."""
READ_WAIT_S = 1.0
"""A stream that could not be read is tried again after this."""

Part = int | bytes
"""The number of an event, or a transient frame that followed the event whose number precedes it."""
log = structlog.get_logger("interlock.cluster")


class StreamNote(msgspec.Struct, array_like=True):
    """A gateway's message about a stream. `epoch` is that of the lane, 0 if the stream has none."""

    instance_id: str
    epoch: int
    parts: list[Part]


class SoFar(msgspec.Struct, array_like=True):
    """The text so far of a stream's open blocks, as of event `n`."""

    epoch: int
    n: int
    frames: list[bytes]


_notes = msgspec.msgpack.Decoder(StreamNote)
_so_far = msgspec.msgpack.Decoder(SoFar)
_encode = msgspec.msgpack.Encoder().encode


class Beside(Protocol):
    """The relay's view of the rest of the cluster."""

    instance_id: str

    def epoch_of(self, session_id: str) -> int | None:
        """Return the epoch under which a session's lane is in memory here; None if it is not."""
        ...

    def delivered_of(self, session_id: str) -> int | None:
        """Return up to which event that lane has sent to its viewers, or found stored when it was read."""
        ...

    async def ask_owner(self, lane: LaneName, what: str, body: bytes, timeout_ms: int) -> bytes | None:
        """Send a request to the gateway that owns a session's lane; None if that is this one, or if there is none.
        Raises BusError, LedgerError."""
        ...

    def subject(self, name: str) -> str: ...


class _Followed:
    """A stream that viewers read here."""

    def __init__(self, tenant_id: str, stream: str) -> None:
        self.tenant_id = tenant_id
        self.session_id = session_of_stream(stream)
        self.readers = 0
        self.epoch = 0
        self.waiting: deque[Part] = deque()
        self.after = 0
        """The number that precedes the next transient frames."""
        self.closed: OrderedDict[str, int] = OrderedDict()
        """Closed blocks, each with the number of the event that closed it; "" means all of them."""
        self.turn = asyncio.Lock()
        self.begun = asyncio.Event()
        self.subscription: Subscription | None = None
        self.task: asyncio.Task[None] | None = None
        self.asking: asyncio.Task[None] | None = None
        self.dropping: asyncio.TimerHandle | None = None


class _Unsent(NamedTuple):
    parts: list[Part]
    epoch: int


class StreamRelay:
    """The relay between gateways; see `interlock.engine.viewers.viewers.Relay`."""

    def __init__(self, bus: Bus, ledger: Ledger, viewers: Viewers, beside: Beside) -> None:
        self._bus = bus
        self._ledger = ledger
        self._viewers = viewers
        self._beside = beside
        self._followed: dict[str, _Followed] = {}
        self._unsent: dict[str, _Unsent] = {}
        self._flushing = False
        bus.on_gap(self.catch_up)

    # --- streams written by this gateway ---
    def on_durable(self, stream: str, n: int) -> None:
        parts = self._parts(stream)
        if parts and isinstance(parts[-1], int):
            parts[-1] = n  # A reader that has read up to here has read what came before.
        else:
            parts.append(n)

    def on_transient(self, stream: str, n: int, raw: bytes) -> None:
        parts = self._parts(stream)
        if not parts:
            parts.append(n)
        parts.append(raw)

    def _parts(self, stream: str) -> list[Part]:
        unsent = self._unsent.get(stream)
        if unsent is None:
            unsent = self._unsent[stream] = _Unsent([], self._epoch(stream))
            if not self._flushing:
                self._flushing = True
                asyncio.get_running_loop().call_soon(self.flush)
        return unsent.parts

    def _epoch(self, stream: str) -> int:
        session_id = session_of_stream(stream)
        return (self._beside.epoch_of(session_id) or 0) if session_id is not None else 0

    def flush(self) -> None:
        """Send what was published since the last iteration of the loop."""
        self._flushing = False
        unsent, self._unsent = self._unsent, {}
        for stream, (parts, epoch) in unsent.items():
            subject = self._beside.subject(f"stream.{stream}")
            for some in _in_notes(parts):
                self._bus.publish(subject, _encode(StreamNote(self._beside.instance_id, epoch, some)))

    def so_far(self, stream: str) -> bytes:
        """Answer another gateway's request for the text so far."""
        n, blocks = self._viewers.so_far(stream)
        some: list[bytes] = []
        left = SO_FAR_BYTES
        for raw in blocks:
            left -= len(raw)
            if left < 0:
                break
            some.append(raw)
        return _encode(SoFar(self._epoch(stream), n, some))

    # --- streams read here ---
    async def watch(self, tenant_id: str, stream: str) -> None:
        followed = self._followed.get(stream)
        if followed is None:
            followed = self._followed[stream] = _Followed(tenant_id, stream)
            followed.readers = 1
            try:
                await self._begin(stream, followed)
            except BaseException:
                self.unwatch(stream)
                raise
            return
        followed.readers += 1
        if followed.dropping is not None:
            followed.dropping.cancel()
            followed.dropping = None
        try:
            await followed.begun.wait()
        except BaseException:
            self.unwatch(stream)
            raise

    async def _begin(self, stream: str, followed: _Followed) -> None:
        try:
            followed.subscription = await self._bus.subscribe(self._beside.subject(f"stream.{stream}"),
                                                              partial(self._note, stream))
            head = await self._ledger.head(followed.tenant_id, stream)
            self._viewers.follow(stream, head, partial(self._reach, stream))
            followed.after = head
            self._ask(stream, followed)
            if followed.asking is not None:
                await asyncio.wait({followed.asking}, timeout=TEXT_WAIT_MS / 1000)
        finally:
            followed.begun.set()  # Others that wait for it continue without what could not be read.

    def unwatch(self, stream: str) -> None:
        followed = self._followed.get(stream)
        if followed is None:
            return
        followed.readers -= 1
        if not followed.readers:
            followed.dropping = asyncio.get_running_loop().call_later(LINGER_S, self.drop, stream)

    def drop(self, stream: str) -> None:
        """Stop following a stream that has no readers here."""
        followed = self._followed.get(stream)
        if followed is None or followed.readers:
            return
        del self._followed[stream]
        for task in (followed.task, followed.asking):
            if task is not None:
                task.cancel()
        if followed.subscription is not None:
            _keep(asyncio.ensure_future(followed.subscription.end()))
        self._viewers.unfollow(stream, blocks=self._is_written_here(followed))

    def _is_written_here(self, followed: _Followed) -> bool:
        return followed.session_id is not None and self._beside.epoch_of(followed.session_id) is not None

    def _note(self, stream: str, body: bytes) -> None:
        followed = self._followed.get(stream)
        if followed is None:
            return
        note = _notes.decode(body)
        if note.instance_id != self._beside.instance_id:
            self._take(stream, followed, note.epoch, note.parts)

    def _take(self, stream: str, followed: _Followed, epoch: int, parts: list[Part]) -> None:
        own = self._beside.epoch_of(followed.session_id) if followed.session_id is not None else None
        if epoch < max(followed.epoch, own or 0):
            # Its writer was replaced: durable events count, and its transient frames resume with the next one.
            parts = [part for part in parts if isinstance(part, int)]
        followed.epoch = max(followed.epoch, epoch)
        followed.waiting.extend(parts)
        if followed.task is None or followed.task.done():
            followed.task = asyncio.create_task(self._work(stream, followed), name=f"reading {stream}")

    async def _work(self, stream: str, followed: _Followed) -> None:
        while followed.waiting:
            part = followed.waiting[0]
            try:
                if isinstance(part, int):
                    await self._reach(stream, part)
                    followed.after = part
                else:
                    self._overhear(stream, followed, part)
            except LedgerError as error:
                log.warning("stream_not_read", stream=stream, error=str(error))
                await asyncio.sleep(READ_WAIT_S)
                continue
            followed.waiting.popleft()

    async def _reach(self, stream: str, n: int) -> None:
        """Send the viewers here all up to `n`, which the ledger has."""
        followed = self._followed.get(stream)
        if followed is None:
            return
        if followed.session_id is not None \
                and (delivered := self._beside.delivered_of(followed.session_id)) is not None \
                and (self._beside.epoch_of(followed.session_id) or 0) >= followed.epoch:
            # What its lane writes here it publishes itself; what was written elsewhere before may not have been
            # received here. A lane that another gateway has replaced writes nothing more, although it is not released
            # yet.
            n = min(n, delivered)
        async with followed.turn:
            while (at := self._viewers.at(stream)) < n:
                events = await self._ledger.events(followed.tenant_id, stream, at, min(n - at, PAGE_MAX))
                if not events:
                    return  # Forgotten since (G-5).
                if self._viewers.at(stream) != at:
                    continue  # The lane was faster; its viewers have returned to the ledger by themselves.
                items = [Durable(event.n, event.kind, event.body, event.at_ms) for event in events]
                for item in items:
                    self._close(followed, item.n, closing_frame(item.kind, item.body))
                self._viewers.deliver(stream, items)
                if self._viewers.at(stream) == at:
                    return  # It is no longer followed.

    def _close(self, followed: _Followed, n: int, frame: Frame | None) -> None:
        if frame is None or followed.session_id is None:
            return
        match frame.payload:
            case TextDone():
                followed.closed[frame.payload.block_id] = n
            case ToolResult():
                followed.closed[frame.payload.invocation_id + "/"] = n
            case _ if frame.type in TURN_ENDS:
                followed.closed.clear()
                followed.closed[""] = n
            case _:
                return
        if len(followed.closed) > MAX_OPEN_BLOCKS:
            followed.closed.popitem(last=False)

    def _overhear(self, stream: str, followed: _Followed, raw: bytes) -> None:
        try:
            frame = frames.decode(raw, frames.Direction.C)
        except InvalidFrame as error:
            log.warning("transient_not_read", stream=stream, error=str(error))
            return
        name = block_of(frame)
        if name is not None and self._was_closed(followed, name):
            return
        if isinstance(self._viewers.overhear(stream, raw, frame), Hole):
            self._ask(stream, followed)

    def _was_closed(self, followed: _Followed, name: str) -> bool:
        """Return whether a block was closed after the event that its frame followed."""
        names = ("", name, name.partition("/")[0] + "/")
        return any(followed.closed.get(one, 0) > followed.after for one in names)

    # --- the text so far ---
    def _ask(self, stream: str, followed: _Followed) -> None:
        if followed.session_id is None or (followed.asking is not None and not followed.asking.done()):
            return
        followed.asking = asyncio.create_task(self._ask_text(stream, followed), name=f"text so far of {stream}")

    async def _ask_text(self, stream: str, followed: _Followed) -> None:
        assert followed.session_id is not None
        try:
            answer = await self._beside.ask_owner(LaneName(followed.tenant_id, followed.session_id), "text",
                                                  stream.encode(), TEXT_WAIT_MS)
        except (BusError, LedgerError) as error:
            log.info("text_so_far_not_had", stream=stream, error=str(error))
            return
        if answer is None:
            return
        found = _so_far.decode(answer)
        self._take(stream, followed, found.epoch, [found.n, *found.frames])
        if followed.task is not None:
            await asyncio.wait({followed.task})

    # --- recovery of lost messages ---
    def catch_up(self) -> None:
        """Read every followed stream to its head, and request the text so far: messages may have been lost."""
        for stream, followed in self._followed.items():
            self._ask(stream, followed)
        _keep(asyncio.ensure_future(self.look()))

    async def look(self) -> None:
        """Check the heads of the followed streams, so that a lost message only causes a delay."""
        for stream, followed in list(self._followed.items()):
            if not await self._look_at(stream, followed):
                return

    async def _look_at(self, stream: str, followed: _Followed) -> bool:
        """Read one stream to its head; False if the ledger does not answer."""
        try:
            head = await self._ledger.head(followed.tenant_id, stream)
        except LedgerError:
            return False
        if head > self._viewers.at(stream):
            self._take(stream, followed, 0, [head])
        return True

    def lost(self, session_stream: str) -> None:
        """Handle the loss of a session to another gateway: open blocks are as known there."""
        followed = self._followed.get(session_stream)
        if followed is None:
            self._viewers.unfollow(session_stream, blocks=False)
        else:
            # Messages of its new writer may have arrived before the lane was released, and been taken for the lane's
            # own.
            _keep(asyncio.ensure_future(self._look_at(session_stream, followed)))
            self._ask(session_stream, followed)

    async def stop(self) -> None:
        """Stop the tasks under way."""
        for followed in self._followed.values():
            tasks = [task for task in (followed.task, followed.asking) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if followed.dropping is not None:
                followed.dropping.cancel()
            if followed.subscription is not None:
                await followed.subscription.end()


_kept = set[asyncio.Future[Any]]()


def _keep(task: asyncio.Future[Any]) -> None:
    """Keep a reference to a task that is not awaited."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _in_notes(parts: list[Part]) -> list[list[Part]]:
    """Split what is published into messages of a size that the bus accepts, each with its number before its first
    frame."""
    notes: list[list[Part]] = [[]]
    size, after = 0, 0
    for part in parts:
        after = part if isinstance(part, int) else after
        if notes[-1] and isinstance(part, bytes) and size + len(part) > NOTE_BYTES:
            notes.append([after])
            size = 0
        notes[-1].append(part)
        size += len(part) if isinstance(part, bytes) else 0
    return notes
