"""The single ordered path from the sessions to the outbox and the link: written first, then offered (D-1, D-6)."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from interlock.ports.clock import Clock, Entropy
from interlock.ports.outbox import (
    CloseBlock,
    Outbox,
    OutboxWrite,
    PutController,
    PutPolicy,
    PutState,
    RefuseControl,
    StoreControl,
    StoredFrame,
    TransientText,
)
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import (
    LARGEST_SEQ,
    MAX_BLOCK_BYTES,
    MAX_DELTA_BYTES,
    MAX_TOOL_OUTPUT_BYTES,
    MIB,
    OUTBOX_BYTES,
    STOP_READING_SHARE,
)
from interlock.protocol.payloads import TextDelta, ToolStream
from interlock.protocol.sizes import json_size, split_sized
from interlock.runner.link.uplink import BlockClosed, Offer, TransientDelta, Uplink

QUEUE_BYTES = 4 * MIB
"""`emit` returns at once below this and waits above it: a flooding agent is slowed to the speed of the disk."""

FLUSH_BYTES = 2 * MIB
"""Approximate size of one write of the outbox."""

BLOCK_SHARE = 8
"""Divisor of a session's buffer that limits a block of text: one that closes while its agent is already held back must
still fit between STOP_READING_SHARE and the limit (D-3)."""

HELD_BACK = frozenset({"agent.text.done", "agent.thinking.done", "tool.invoke.result", "agent.file.transfer"})
"""Content: these frames wait at STOP_READING_SHARE, since they would be lost (D-3)."""


class OutflowStopped(Exception):
    """The outflow has stopped; the text is the reason. Writes that were not flushed are lost."""


class _Entry:
    """A queued item: the writes of one `emit`, or one delta with the neighbours merged into it."""

    __slots__ = ("delta", "end", "kept", "piece", "size", "texts", "writes")

    def __init__(self, writes: tuple[OutboxWrite, ...], size: int, kept: dict[str, int]) -> None:
        self.writes = writes
        self.size = size
        self.kept = kept
        self.delta: Frame | None = None
        self.piece: TransientText | None = None
        self.texts: list[str] = []
        self.end = 0



class Outflow:
    """The pipeline of one runner. Order is the order of the calls; a call enqueues before it waits.

    `emit` and `emit_delta` wait while more than QUEUE_BYTES are queued, and, for content, while the session's
    unacknowledged bytes, with those of its open blocks, exceed STOP_READING_SHARE of `outbox_bytes` (D-3): an adapter
    that awaits them stops reading its agent before anything is lost. Since a call enqueues first, one that is cancelled
    while it waits loses nothing.
    """

    def __init__(self, outbox: Outbox, *, clock: Clock, entropy: Entropy, outbox_bytes: int = OUTBOX_BYTES,
                 queue_bytes: int = QUEUE_BYTES) -> None:
        self._outbox = outbox
        self._clock = clock
        self._entropy = entropy
        self._queue_bytes = queue_bytes
        self._stop_reading = int(outbox_bytes * STOP_READING_SHARE)
        self.block_bytes = min(MAX_BLOCK_BYTES, outbox_bytes // BLOCK_SHARE)
        self._queue: deque[_Entry] = deque()
        self._queued = 0
        self._mergeable: dict[str, _Entry] = {}
        self._enqueued = self._flushed = 0
        self._work = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._failure: OutflowStopped | None = None
        self._kept: defaultdict[str, int] = defaultdict(int)
        self._kept_waiting: defaultdict[str, int] = defaultdict(int)
        self._open: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Bytes of each open block by session: its `.done` or result will take as much."""
        self._unbuffered: set[str] = set()
        """Sessions with the policy NONE: they are never held back, since nothing is stored."""
        self._recount: set[str] = set()
        self._acked: set[str] = set()
        """Sessions whose estimates include bytes that were acknowledged since the last recount."""
        self._recount_acked = False
        self._blocks: dict[tuple[str, str], Frame] = {}
        self._uplinks: dict[str, Uplink] = {}
        """By gateway_id: every one is offered everything, whichever controls the session (D-5)."""
        self._still = asyncio.Lock()

    # --- for the sessions ---
    async def emit(self, *writes: OutboxWrite) -> None:
        """Enqueue writes as one transaction. Raises InvalidFrame (FRAME_TOO_LARGE) before anything is enqueued (L-2),
        and OutflowStopped."""
        self._check()
        size, kept = 0, dict[str, int]()
        for write in writes:
            taken = _size(write)
            size += taken
            if isinstance(write, Frame) and write.session_id:
                kept[write.session_id] = kept.get(write.session_id, 0) + taken
        for write in writes:
            self._mergeable.pop(_session_of(write), None)
            if isinstance(write, CloseBlock):
                self._open[write.session_id].pop(write.block, None)
            elif isinstance(write, PutPolicy):
                (self._unbuffered.add if write.policy == "NONE" else self._unbuffered.discard)(write.session_id)
        self._enqueue(_Entry(writes, size, kept))
        held = {_session_of(write) for write in writes
                if isinstance(write, TransientText) or (isinstance(write, Frame) and write.type in HELD_BACK)}
        await self._pause(held)

    async def emit_delta(self, frame: Frame, piece: TransientText) -> None:
        """Enqueue a transient frame and the piece that stores its text. Waiting neighbours are merged, long text is
        split (E-4, E-5). Raises OutflowStopped."""
        self._check()
        offset = piece.offset
        self._grow(piece)
        for text, size in split_sized(piece.text, MAX_DELTA_BYTES):
            self._enqueue_delta(frame, piece._replace(offset=offset, text=text), size)
            offset += len(text)
        await self._pause({piece.session_id})

    def holding(self, session_id: str) -> bool:
        """Return whether content of the session waits for its gateway's acknowledgement (D-3)."""
        return self._over(session_id)

    async def flushed(self) -> None:
        """Wait until everything emitted before is in the outbox. Raises OutflowStopped."""
        target = self._enqueued
        await self._wait(lambda: self._flushed >= target)

    # --- for the link ---
    @property
    def still(self) -> asyncio.Lock:
        """Return the lock that stops writing and offering: while it is held, the outbox contains what was offered."""
        return self._still

    def attach(self, uplink: Uplink, gateway_id: str = "") -> None:
        """Offer to `uplink` everything written from now on."""
        self._uplinks[gateway_id] = uplink

    def detach(self, gateway_id: str = "") -> None:
        """Stop offering to this gateway: frames stay in the outbox, deltas only in their pieces."""
        self._uplinks.pop(gateway_id, None)

    def template(self, session_id: str, block: str) -> Frame | None:
        """Return the last written delta of an open block, which has its type, turn and metadata."""
        return self._blocks.get((session_id, block))

    def acked(self, session_id: str) -> None:
        """Note that the outbox was trimmed, and wake those that wait for it."""
        self._acked.add(session_id)
        if (self._kept.get(session_id, 0) + self._opened(session_id)) * 2 > self._stop_reading:
            self._recount.add(session_id)
            self._work.set()

    def forget(self, session_id: str) -> None:
        """Drop the counts of an ended session whose frames are all acknowledged, here and on the links."""
        if not self._kept_waiting.get(session_id):
            self._kept_waiting.pop(session_id, None)
            self._kept.pop(session_id, None)
            self._open.pop(session_id, None)
            self._unbuffered.discard(session_id)
            self._acked.discard(session_id)
        for uplink in self._uplinks.values():
            uplink.forget(session_id)

    @property
    def kept_bytes(self) -> int:
        """Return the unacknowledged bytes in the outbox of all sessions; what was acknowledged since the last recount
        is included."""
        return sum(self._kept.values())

    def recount(self) -> None:
        """Have the flusher count the sessions again that were acknowledged: the caller waits for no disk."""
        if self._acked:
            self._recount_acked = True
            self._work.set()

    # --- the flusher ---
    async def run(self) -> None:
        """Write what waits, then offer it, until cancelled. Raises OutboxError if the outbox cannot be written."""
        try:
            for row in await self._outbox.sessions():
                self._kept[row.session_id] += row.bytes_kept
                if row.policy == "NONE":
                    self._unbuffered.add(row.session_id)
            while True:
                await self._work.wait()
                self._work.clear()
                await self._count_again()
                while self._queue:
                    await self._count_again()
                    async with self._still:
                        await self._flush()
                    self._wake()
                await self._count_again()
        except BaseException as error:
            self._failure = OutflowStopped(str(error) or "The runner is stopping.")
            raise
        finally:
            self._failure = self._failure or OutflowStopped("The runner is stopping.")
            self._wake()

    async def _count_again(self) -> None:
        """Replace estimates by the outbox's figures, for the sessions that were acknowledged."""
        while self._recount:
            session_id = self._recount.pop()
            row = await self._outbox.session(session_id)
            self._kept[session_id] = row.bytes_kept if row else 0
            self._wake()
        if self._recount_acked:
            self._recount_acked = False
            acked, self._acked = self._acked, set()
            for row in await self._outbox.sessions():
                if row.session_id in acked and row.session_id in self._kept:
                    self._kept[row.session_id] = row.bytes_kept
            self._wake()

    async def _flush(self) -> None:
        """Take a batch, write it, and offer it. The caller holds `still`."""
        batch = self._take()
        closed = _closed_at(batch)
        writes: list[OutboxWrite] = []
        for place, entry in enumerate(batch):
            if entry.piece is None:
                writes += entry.writes
            elif closed.get((entry.piece.session_id, entry.piece.block), -1) < place:
                # A block that this transaction closes needs no pieces: its `.done` replaces them (E-4).
                writes.append(entry.piece._replace(text="".join(entry.texts)))
        stored = await self._outbox.write(writes, attached=frozenset(self._uplinks))
        for frame in stored:
            self._kept[frame.session_id] += len(frame.raw)
            if self._kept[frame.session_id] > self._stop_reading:
                self._recount.add(frame.session_id)  # Frames that the policy did not store hold nothing back.
        for entry in batch:
            for session_id, size in entry.kept.items():
                self._kept_waiting[session_id] -= size
        offers = self._offers(batch, stored)
        for uplink in self._uplinks.values() if offers else ():
            uplink.offer(offers)
        self._flushed += len(batch)

    def _take(self) -> list[_Entry]:
        batch: list[_Entry] = []
        taken = 0
        while self._queue and taken < FLUSH_BYTES:
            entry = self._queue.popleft()
            taken += entry.size
            batch.append(entry)
        self._queued -= taken
        if self._queue:
            gone = set(map(id, batch))
            self._mergeable = {name: entry for name, entry in self._mergeable.items() if id(entry) not in gone}
        else:
            self._mergeable.clear()
        return batch

    def _offers(self, batch: Sequence[_Entry], stored: Sequence[StoredFrame]) -> list[Offer]:
        """Return the written frames, in order, and note which blocks are open."""
        numbered = iter(stored)
        offers: list[Offer] = []
        for entry in batch:
            if entry.delta is not None and entry.piece is not None:
                frame = _with_text(entry.delta, entry.piece.offset, "".join(entry.texts))
                self._blocks[entry.piece.session_id, entry.piece.block] = frame
                if self._uplinks:
                    offers.append(TransientDelta(entry.piece.session_id, entry.piece.block, entry.end, encode(frame)))
            for write in entry.writes:
                if isinstance(write, Frame):
                    offers.append(next(numbered))
                elif isinstance(write, CloseBlock):
                    self._blocks.pop((write.session_id, write.block), None)
                    offers.append(BlockClosed(write.session_id, write.block))
        return offers

    # --- the queue ---
    def _enqueue(self, entry: _Entry) -> None:
        self._queue.append(entry)
        self._queued += entry.size
        self._enqueued += 1
        for session_id, size in entry.kept.items():
            self._kept_waiting[session_id] += size
        self._work.set()

    def _enqueue_delta(self, frame: Frame, piece: TransientText, size: int) -> None:
        last = self._mergeable.get(piece.session_id)
        if (last is not None and last.piece is not None and last.piece.block == piece.block
                and last.end == piece.offset and last.size + size <= MAX_DELTA_BYTES):
            last.texts.append(piece.text)
            last.end += len(piece.text)
            last.size += size
            self._queued += size
            return
        entry = _Entry((), size, {})
        # A piece of a longer text is a separate frame with a message_id of its own.
        first = piece.offset == cast("TextDelta | ToolStream", frame.payload).offset
        entry.delta = frame if first else msgspec.structs.replace(frame, message_id=uuid4(self._entropy(16)))
        entry.piece, entry.texts, entry.end = piece, [piece.text], piece.offset + len(piece.text)
        self._mergeable[piece.session_id] = entry
        self._enqueue(entry)

    # --- waiting ---
    async def _pause(self, held: set[str]) -> None:
        """Wait for space in the queue, and in the outbox of the `held` sessions."""
        await self._wait(lambda: self._queued < self._queue_bytes)
        for session_id in held:
            if self._over(session_id):
                self._recount.add(session_id)
                self._work.set()
                await self._wait(lambda name=session_id: not self._over(name))

    def _over(self, session_id: str) -> bool:
        kept = self._kept.get(session_id, 0) + self._kept_waiting.get(session_id, 0)
        # Without frames to acknowledge, nothing would ever release the agent.
        return kept > self._stop_reading or (kept > 0 and kept + self._opened(session_id) > self._stop_reading)

    def _grow(self, piece: TransientText) -> None:
        blocks = self._open[piece.session_id]
        blocks[piece.block] = min(blocks.get(piece.block, 0) + json_size(piece.text), MAX_TOOL_OUTPUT_BYTES)

    def _opened(self, session_id: str) -> int:
        blocks = self._open.get(session_id)
        return sum(blocks.values()) if blocks and session_id not in self._unbuffered else 0

    async def _wait(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self._check()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _size(write: OutboxWrite) -> int:
    """Return the approximate bytes of a write; for a frame exactly, with space for its number. Raises InvalidFrame."""
    match write:
        case Frame():
            # Measured with the longest number, so that numbering cannot make it too large.
            return len(encode(msgspec.structs.replace(write, seq=LARGEST_SEQ)))
        case TransientText():
            return json_size(write.text)
        case PutState():
            return len(write.state)
        case StoreControl():
            return len(write.record.body)
        case RefuseControl():
            return len(write.refusal.message)
        case CloseBlock() | PutPolicy() | PutController():
            return 0


def _session_of(write: OutboxWrite) -> str:
    if isinstance(write, StoreControl):
        return write.record.session_id
    return write.session_id or ""


def _closed_at(batch: Sequence[_Entry]) -> dict[tuple[str, str], int]:
    """Return the position in the batch at which each block is closed."""
    return {(write.session_id, write.block): place for place, entry in enumerate(batch)
            for write in entry.writes if isinstance(write, CloseBlock)}


def _with_text(frame: Frame, offset: int, text: str) -> Frame:
    payload = cast("TextDelta | ToolStream", frame.payload)
    return msgspec.structs.replace(frame, payload=msgspec.structs.replace(payload, offset=offset, text=text))
