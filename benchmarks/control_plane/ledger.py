"""Rows 3 and 6: small transactions beside fdatasync, and a replay beside a bare read."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import apsw

from benchmarks.control_plane.report import Line, Scale
from benchmarks.harness.machine_limits import fdatasyncs
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.rest.views import deliver, frames_rendering
from interlock.ports.ledger import Append, Ledger, WriteBatch
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.payloads import TextDone

WAITERS = ((1, None), (16, 6.0), (64, 12.0))
FRAMES = 10_000
REPLAYS = 15
TURNS = 5


def folder() -> tempfile.TemporaryDirectory[str]:
    """A directory on the disk that is meant."""
    return tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR"))


def transactions(scale: Scale) -> list[Line]:
    """Row 3: transactions/s of one event each with 1, 16 and 64 that wait, beside the rate of fdatasync."""
    share = scale.seconds / (2 * len(WAITERS) * TURNS)
    lines = list[Line]()
    with folder() as name:
        for waiters, wanted in WAITERS:
            limits, rates = list[float](), list[float]()
            for turn in range(TURNS):  # A disk's pace changes while one looks.
                limits.append(fdatasyncs(Path(name), share))
                rates.append(asyncio.run(_committing(Path(name) / f"{waiters}-{turn}-{LEDGER_NAME}", waiters, share)))
            limit, rate = median(limits), median(rates)
            lines += [Line("3", f"fdatasync, beside {waiters}", limit, "/s", 1.0),
                      Line("3", f"one small transaction each, {waiters} waiting", rate, "/s", rate / limit, wanted)]
    return lines


async def _committing(path: Path, waiters: int, seconds: float) -> float:
    ledger = await open_ledger(path, SystemClock())
    body, count, end = b"." * 400, 0, time.perf_counter() + seconds

    async def commit(stream: str) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await ledger.commit(WriteBatch([Append("t", stream, "C", 0, body, "m")]))
            count += 1

    begin = time.perf_counter()
    await asyncio.gather(*(commit(f"s/{number}") for number in range(waiters)))
    taken = time.perf_counter() - begin
    await ledger.close()
    return count / taken


def replay(scale: Scale) -> list[Line]:
    """Row 6: 10,000 frames to a viewer that returns, written as server-sent events, beside a bare read of the rows;
    both in processor time, of all threads."""
    del scale
    with folder() as name:
        return asyncio.run(_replaying(Path(name) / LEDGER_NAME))


async def _replaying(path: Path) -> list[Line]:
    ledger, stream = await open_ledger(path, SystemClock()), session_stream("s-1")
    bodies = [encode(Frame(type="agent.text.done", message_id=f"m{n}", session_id="s-1", seq=n, timestamp="",
                           payload=TextDone(turn_id="t", block_id=f"b{n}", text="so many words " * 9)))
              for n in range(1, FRAMES + 1)]
    await ledger.commit(WriteBatch([Append("t", stream, "C", 0, body, "m") for body in bodies]))
    reader: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    bare, ours = list[float](), list[float]()
    for _ in range(REPLAYS):
        begin = time.process_time()
        read = sum(len(body) for (body,) in reader.execute("SELECT body FROM event ORDER BY place"))
        bare.append(time.process_time() - begin)
        begin = time.process_time()
        written = await _returning(ledger, stream)
        ours.append(time.process_time() - begin)
        if written < read:
            raise RuntimeError("The replay left something out.")
    reader.close()
    await ledger.close()
    limit = FRAMES / median(bare)
    return [Line("6", "read the rows in order, bare", limit, "frames/s", 1.0),
            Line("6", "replay as server-sent events", FRAMES / median(ours), "frames/s", median(bare) / median(ours),
                 0.3)]


async def _returning(ledger: Ledger, stream: str) -> int:
    render, written, seen = frames_rendering(stream, deliver("raw", stream)), 0, 0
    async with Viewers(ledger).join("t", stream, 0) as viewer:
        while seen < FRAMES:
            burst = await viewer.next(0)
            seen += len(burst)
            written += len(b"".join(render(burst)))
    return written
