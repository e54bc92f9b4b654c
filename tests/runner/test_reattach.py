"""Cut at any instant, by a seed: on every link each number comes once and in order, and text without a hole."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import CloseBlock
from interlock.runner.link.outflow import Outflow
from ports.outbox_words import SESSION, delta, done
from runner.scripted_gateway import Peer, conversation, inner

pytestmark = pytest.mark.anyio
BLOCKS = 30
DELTAS = 10


def text_of(block: int, size: int) -> str:
    return "".join(f"{block:03d}.{n:03d}" + "x" * size for n in range(DELTAS))


async def write_text(outflow: Outflow, size: int) -> None:
    """Every block in DELTAS deltas, then its `.done`; each is written before the next, so that the link sees many."""
    for block in range(BLOCKS):
        text = text_of(block, size)
        step = len(text) // DELTAS
        for offset in range(0, len(text), step):
            await outflow.emit_delta(*delta(text[offset : offset + step], offset, f"b{block}"))
            await outflow.flushed()
        await outflow.emit(done(text, block_id=f"b{block}"), CloseBlock(SESSION, f"b{block}"))


class Reader:
    """Receives the frames of one link like a strict gateway; `seq` continues from link to link."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seq = 0
        self.ends: dict[str, int] = {}

    def link(self) -> None:
        self.ends = {}

    def take(self, frame: dict[str, Any]) -> None:
        payload = frame["payload"]
        block = payload["block_id"]
        text = text_of(int(block[1:]), self.size)
        if frame["type"] == "agent.text.done":
            assert frame["seq"] == self.seq + 1
            assert payload["text"] == text
            self.seq += 1
        else:
            assert payload["offset"] == self.ends.get(block, 0)
            self.ends[block] = payload["offset"] + len(payload["text"])
            assert payload["text"] == text[payload["offset"] : self.ends[block]]

    async def read(self, peer: Peer, frames: int) -> None:
        """Read this many messages, or all."""
        for _ in range(frames):
            frame = await peer.receive()
            for one in inner(frame) if frame.type == "session.history" else [msgspec.to_builtins(frame)]:
                self.take(one)
            if self.seq == BLOCKS:
                return


@pytest.mark.req("D-2", "D-6", "E-3", "E-4")
@pytest.mark.parametrize("seed", range(6))
async def test_random_link_cuts_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    reader = Reader(size=5)
    async with conversation(outbox=SqliteOutbox(tmp_path / "outbox.db")) as (gateway, runner):
        speaking = asyncio.create_task(write_text(runner.outflow, reader.size))
        while reader.seq < BLOCKS:
            peer = await gateway.peer()
            await peer.welcome(s=reader.seq)
            reader.link()
            await reader.read(peer, chance.randint(1, 40))
            peer.cut()
        await speaking


@pytest.mark.req("D-1", "E-4")
async def test_a_gateway_that_reads_late_receives_the_same_frames(tmp_path: Path) -> None:
    """More waits than the link queues: the session falls behind in mid-block and is read from the outbox."""
    reader = Reader(size=20_000)
    async with conversation(outbox=SqliteOutbox(tmp_path / "outbox.db")) as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await write_text(runner.outflow, reader.size)
        await runner.outflow.emit_delta(*delta(text_of(0, reader.size)[:9], 0, "b0"))
        await runner.outflow.flushed()
        await reader.read(peer, 1_000)
        assert reader.seq == BLOCKS
