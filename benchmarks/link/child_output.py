"""A child's standard output on its way into frames, stage by stage, beside bare `os.read` of the same child.

*Made*: read, decoded, cut into deltas and blocks, encoded as frames, and taken by an outbox in memory; nothing is left
out but the disk. *Durable*: the same into the runner's outbox, written and fsynced, ready to be sent. Every byte is
then on disk twice (log and file), so the limit of the disk is shown beside it: the same bytes into a plain file,
one fdatasync for each write as large as the outbox's.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.link.offline_session import offline_session
from interlock.runner.link.outflow import FLUSH_BYTES
from interlock.runner.process.environment import environment
from interlock.runner.process.process import AgentProcess
from interlock.runner.session_state import TurnState
from interlock.runner.turn.interactions import Interactions, LivePresence, Waits
from interlock.runner.turn.turn_writer import StoredTurnWriter

LINE = b"x" * 119 + b"\n"
WRITER = """
import os, sys
block = (b"x" * 119 + b"\\n") * 512
left = int(sys.argv[1])
while left > 0:
    left -= os.write(1, block[:left])
"""
READ_BYTES = 256 * 1024


def bare_read(size: int) -> float:
    """Bytes a second that `os.read` takes from a child that writes `size` bytes."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", WRITER, str(size)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    number = child.stdout.fileno()
    first = len(os.read(number, READ_BYTES))
    start, came = time.perf_counter(), 0
    while data := os.read(number, READ_BYTES):
        came += len(data)
    seconds = time.perf_counter() - start
    child.stdout.close()
    child.wait()
    assert first + came == size, "the child's output is not whole"
    return came / seconds


def disk_write(folder: Path, size: int) -> float:
    """Bytes a second that a plain file takes with an fdatasync for each FLUSH_BYTES."""
    block = LINE * (FLUSH_BYTES // len(LINE))
    path, came = folder / "disk.bin", 0
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        while came < size:
            came += file.write(block)
            os.fdatasync(file.fileno())
        seconds = time.perf_counter() - start
    path.unlink()
    return came / seconds


async def _through(folder: Path, size: int, *, durable: bool) -> float:
    async with offline_session(folder if durable else None) as (journal, outflow):
        env = environment(os.environ, session_id=journal.session_id, workspace=folder, runner_id="bench")
        process = await AgentProcess.start([sys.executable, "-I", "-S", "-c", WRITER, str(size)], env, folder)
        turn_writer = StoredTurnWriter(journal, TurnState("t", "p", 0), Interactions(journal, LivePresence(), Waits()))
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        first, came, start = 0, 0, 0.0
        try:
            async for chunk in process.chunks():
                if not start:
                    start = time.perf_counter()  # As for `os.read`: the child's own start does not count.
                    first = len(chunk)
                came += len(chunk)
                await turn_writer.text(decoder.decode(chunk))
            await journal.write(*await turn_writer.finish("the end"))
            await outflow.flushed()
            seconds = time.perf_counter() - start
        finally:
            await process.terminate(0)
    assert came == size, "the child's output is not whole"
    return (came - first) / seconds


def into_frames(folder: Path, size: int, *, durable: bool) -> float:
    """Bytes a second from a child's standard output into frames: made, or with `durable` in the outbox and fsynced."""
    folder.mkdir()
    return asyncio.run(_through(folder, size, durable=durable))


def new_name() -> str:
    """A name for a folder that is not there yet."""
    return secrets.token_hex(4)
