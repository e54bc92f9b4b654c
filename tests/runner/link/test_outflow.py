"""The outflow: written before it is offered, in order, and slowed before anything is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence, Set

import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.outbox import CloseBlock, OutboxError, OutboxWrite, PutState, StoredFrame, TransientText
from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.protocol.limits import MAX_DELTA_BYTES, MAX_FRAME_BYTES, MIB
from interlock.protocol.sizes import json_size
from interlock.runner.link.outflow import Outflow, OutflowStopped
from interlock.runner.link.uplink import BlockClosed, Offer, TransientDelta
from ports.outbox_words import SESSION, changed, control, delta, done, output
from runner.scripted_gateway import PATIENCE_S, Counting

pytestmark = pytest.mark.anyio


class Seen:
    """An uplink that keeps what it is offered."""

    def __init__(self) -> None:
        self.offers: list[Offer] = []

    def offer(self, offers: Sequence[Offer]) -> None:
        self.offers += offers

    def forget(self, session_id: str) -> None:
        pass

    def words(self) -> list[str | int]:
        """Offers, short: numbers of frames, texts of deltas, "/block" of closes."""
        words: list[str | int] = []
        for offer in self.offers:
            match offer:
                case StoredFrame():
                    words.append(offer.seq)
                case TransientDelta():
                    words.append(decode(offer.raw, Direction.C).payload.text)
                case BlockClosed():
                    words.append("/" + offer.block)
        return words


class Counted(MemoryOutbox):
    """An outbox whose writes can be held, made to fail, and looked at."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes=limit_bytes)
        self.batches: list[list[OutboxWrite]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.failure: OutboxError | None = None

    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(writes))
        return await super().write(writes, attached=attached)


@contextlib.asynccontextmanager
async def flowing(limit_bytes: int = 64 * MIB, queue_bytes: int = MIB) -> AsyncIterator[tuple[Outflow, Counted, Seen]]:
    outbox, seen = Counted(limit_bytes), Seen()
    await outbox.open_session(SESSION, 1, b"")
    outflow = Outflow(outbox, clock=ManualClock(), entropy=Counting(), outbox_bytes=limit_bytes,
                      queue_bytes=queue_bytes)
    outflow.attach(seen)
    running = asyncio.create_task(outflow.run())
    try:
        yield outflow, outbox, seen
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def soon(task: asyncio.Task[None]) -> None:
    await asyncio.wait_for(task, PATIENCE_S)


@pytest.mark.req("D-1", "E-3")
async def test_offered_frames_are_written_in_order() -> None:
    async with flowing() as (outflow, outbox, seen):
        await outflow.emit(changed())
        await outflow.emit_delta(*delta("He", 0))
        await outflow.emit_delta(*delta("llo", 2))
        await outflow.emit(done("Hello"), CloseBlock(SESSION, "b"), PutState(SESSION, b"s"))
        await outflow.emit_delta(*delta("next", 0, "c"))
        await outflow.emit(control(1))
        await outflow.flushed()
        assert seen.words() == [1, "Hello", 2, "/b", "next"]
        assert await outbox.pieces(SESSION) == [TransientText(SESSION, "c", 0, "next")]
        assert [row.state for row in await outbox.sessions()] == [b"s"]


@pytest.mark.req("E-4")
async def test_waiting_frames_are_one_write_and_closed_text_needs_no_piece() -> None:
    async with flowing() as (outflow, outbox, seen):
        outbox.open.clear()
        await outflow.emit(changed())
        await asyncio.sleep(0)
        for number in range(100):
            await outflow.emit_delta(*delta("ab", 2 * number))
        await outflow.emit(done("ab" * 100), CloseBlock(SESSION, "b"))
        await outflow.emit_delta(*delta("open", 0, "b"))
        outbox.open.set()
        await outflow.flushed()
        writes = [write for batch in outbox.batches for write in batch]
        assert [write for write in writes if isinstance(write, TransientText)] == [TransientText(SESSION, "b", 0,
                                                                                                 "open")]
        assert len(outbox.batches) <= 2
        assert seen.words() == [1, "ab" * 100, 2, "/b", "open"]


@pytest.mark.req("E-4", "D-6")
async def test_deltas_are_not_merged_across_a_gap_another_block_or_a_frame() -> None:
    async with flowing() as (outflow, outbox, seen):
        outbox.open.clear()
        await outflow.emit_delta(*delta("a", 0))
        await outflow.emit_delta(*delta("c", 2))
        await outflow.emit_delta(*delta("x", 0, "other"))
        await outflow.emit_delta(*delta("d", 3))
        await outflow.emit(changed())
        await outflow.emit_delta(*delta("e", 4))
        outbox.open.set()
        await outflow.flushed()
        assert seen.words() == ["a", "c", "x", "d", 1, "e"]


@pytest.mark.req("E-5")
async def test_long_text_is_split_into_frames_with_their_own_ids() -> None:
    async with flowing() as (outflow, _, seen):
        text = "\n" * MAX_DELTA_BYTES
        await outflow.emit_delta(*output(text, 5))
        await outflow.flushed()
        frames = [decode(offer.raw, Direction.C) for offer in seen.offers if isinstance(offer, TransientDelta)]
        assert "".join(frame.payload.text for frame in frames) == text
        assert all(json_size(frame.payload.text) <= MAX_DELTA_BYTES for frame in frames)
        assert frames[1].payload.offset == 5 + len(frames[0].payload.text)
        assert len({frame.message_id for frame in frames}) == len(frames) >= 2


@pytest.mark.req("L-2")
async def test_an_oversized_frame_is_refused_at_its_producer() -> None:
    async with flowing() as (outflow, _, seen):
        with pytest.raises(InvalidFrame):
            await outflow.emit(changed(), done("x" * MAX_FRAME_BYTES))
        edge = done("")
        edge = done("x" * (MAX_FRAME_BYTES - len(msgspec.json.encode(edge)) - 2))
        with pytest.raises(InvalidFrame):
            await outflow.emit(edge)
        await outflow.emit(changed())
        await outflow.flushed()
        assert seen.words() == [1]


@pytest.mark.req("D-3")
async def test_a_full_queue_blocks_its_callers() -> None:
    async with flowing(queue_bytes=1_000) as (outflow, outbox, seen):
        outbox.open.clear()
        calls = [asyncio.create_task(outflow.emit_delta(*output("x" * 400, 400 * n))) for n in range(5)]
        done_calls, waiting = await asyncio.wait(calls, timeout=0.05)
        assert (len(done_calls), len(waiting)) == (2, 3)
        outbox.open.set()
        for call in calls:
            await soon(call)
        await outflow.flushed()
        assert "".join(str(word) for word in seen.words()) == "x" * 2_000


@pytest.mark.req("D-3")
async def test_content_waits_at_three_quarters_and_essential_frames_pass() -> None:
    async with flowing(limit_bytes=8_000) as (outflow, outbox, _):
        for _ in range(4):
            await asyncio.wait_for(outflow.emit(done("x" * 1_000)), PATIENCE_S)
        full = asyncio.create_task(outflow.emit(done("x" * 1_000)))
        text = asyncio.create_task(outflow.emit_delta(*delta("more", 0)))
        for _ in range(3):
            await asyncio.wait_for(outflow.emit(changed()), PATIENCE_S)
        await outflow.flushed()
        assert not full.done()
        assert not text.done()
        assert [row.lost_frames for row in await outbox.sessions()] == [0]
        await outbox.ack(SESSION, 5, "", 1)
        outflow.acked(SESSION)
        await soon(full)
        await soon(text)


@pytest.mark.req("D-3")
async def test_frames_of_an_earlier_run_count() -> None:
    outbox = Counted(8_000)
    await outbox.open_session(SESSION, 1, b"")
    await outbox.write([done("x" * 1_000) for _ in range(5)])
    outflow = Outflow(outbox, clock=ManualClock(), entropy=Counting(), outbox_bytes=8_000)
    running = asyncio.create_task(outflow.run())
    await outflow.emit(changed())
    await outflow.flushed()
    waiting = asyncio.create_task(outflow.emit(done("y")))
    await outflow.flushed()
    assert not waiting.done()
    await outbox.ack(SESSION, 5, "", 1)
    outflow.acked(SESSION)
    await soon(waiting)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("D-3")
async def test_a_cancelled_waiting_call_loses_nothing() -> None:
    async with flowing(queue_bytes=10) as (outflow, outbox, seen):
        outbox.open.clear()
        call = asyncio.create_task(outflow.emit(changed()))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        outbox.open.set()
        await outflow.flushed()
        assert seen.words() == [1]


@pytest.mark.req("D-1")
async def test_detached_frames_stay_in_the_outbox() -> None:
    async with flowing() as (outflow, outbox, seen):
        outflow.detach()
        await outflow.emit(changed())
        await outflow.emit_delta(*delta("text", 0))
        await outflow.flushed()
        assert seen.offers == []
        assert len(await outbox.frames(SESSION, 0, MIB)) == 1
        assert outflow.template(SESSION, "b") is not None
        await outflow.emit(CloseBlock(SESSION, "b"))
        await outflow.flushed()
        assert outflow.template(SESSION, "b") is None


async def test_a_failing_outbox_stops_the_flow_and_every_caller_gets_the_reason() -> None:
    async with flowing() as (outflow, outbox, seen):
        outbox.failure = OutboxError("The disk is full.")
        await outflow.emit(changed())
        with pytest.raises(OutflowStopped, match="disk is full"):
            await outflow.flushed()
        with pytest.raises(OutflowStopped, match="disk is full"):
            await outflow.emit(changed())
        assert seen.offers == []
