"""Rows 3, 6 and 11: small transactions beside fdatasync, a replay beside a bare read, and commands as they grow."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import apsw
import msgspec

from benchmarks.control_report import Line, Scale
from benchmarks.limits import fdatasyncs
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.engine.viewers import Viewers
from interlock.gateway.rest.sessions import frames_rendering
from interlock.gateway.rest.views import deliver
from interlock.ports.ledger import Append, Batch, CommandQuery, Ledger, PutCommand
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import command_stream, session_stream
from interlock.protocol.payloads import TextDone
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Actor, Command, Target

WAITERS = ((1, None), (16, 6.0), (64, 12.0))
FRAMES = 10_000
REPLAYS = 15
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PROBES = 50
A_BATCH = 5_000


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR"))


def transactions(scale: Scale) -> list[Line]:
    """Row 3: transactions/s of one event each with 1, 16 and 64 that wait, beside the rate of fdatasync."""
    share = scale.seconds / (2 * len(WAITERS))
    lines = list[Line]()
    with _folder() as name:
        for waiters, wanted in WAITERS:
            limit = fdatasyncs(Path(name), share)  # Beside each: a disk's pace changes while one looks.
            rate = asyncio.run(_committing(Path(name) / f"{waiters}-{LEDGER_NAME}", waiters, share))
            lines += [Line("3", f"fdatasync, beside {waiters}", limit, "/s", 1.0),
                      Line("3", f"one small transaction each, {waiters} waiting", rate, "/s", rate / limit, wanted)]
    return lines


async def _committing(path: Path, waiters: int, seconds: float) -> float:
    ledger = await open_ledger(path, SystemClock())
    body, count, end = b"." * 400, 0, time.perf_counter() + seconds

    async def commit(stream: str) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await ledger.commit(Batch([Append(stream, "C", 0, body, "m")]))
            count += 1

    begin = time.perf_counter()
    await asyncio.gather(*(commit(f"s/{number}") for number in range(waiters)))
    taken = time.perf_counter() - begin
    await ledger.close()
    return count / taken


def replay(scale: Scale) -> list[Line]:
    """Row 6: 10,000 frames to a viewer that returns, written as server-sent events, beside a bare read of the rows."""
    del scale
    with _folder() as name:
        return asyncio.run(_replaying(Path(name) / LEDGER_NAME))


async def _replaying(path: Path) -> list[Line]:
    ledger, stream = await open_ledger(path, SystemClock()), session_stream("s-1")
    bodies = [encode(Frame(type="agent.text.done", message_id=f"m{n}", session_id="s-1", seq=n, timestamp="",
                           payload=TextDone(turn_id="t", block_id=f"b{n}", text="so many words " * 9)))
              for n in range(1, FRAMES + 1)]
    await ledger.commit(Batch([Append(stream, "C", 0, body, "m") for body in bodies]))
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    bare, ours = list[float](), list[float]()
    for _ in range(REPLAYS):
        begin = time.perf_counter()
        read = sum(len(body) for (body,) in reader.execute("SELECT body FROM event ORDER BY place"))
        bare.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        written = await _returning(ledger, stream)
        ours.append(time.perf_counter() - begin)
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
    async with Viewers(ledger).join(stream, 0) as viewer:
        while seen < FRAMES:
            burst = await viewer.next(0)
            seen += len(burst)
            written += len(b"".join(render(burst)))
    return written


def commands(scale: Scale) -> list[Line]:
    """Row 11: what a command costs to keep, to find and to list in a ledger of 1e3 to 1e6, against the smallest."""
    with _folder() as name:
        return asyncio.run(_growing(Path(name) / LEDGER_NAME, scale.most))


def _record(number: int) -> CommandRecord:
    session_id = f"s-{number // 10}"
    command = Command(
        id=f"cmd_{number:026d}", created_at="2026-11-21T10:28:41.318Z", updated_at="2026-11-21T10:28:41.318Z",
        tenant_id="default", actor=Actor(type="user", id="owner"), type="execute", timeout_ms=3_600_000,
        target=Target(agent_id="shell", session_id=session_id), state="succeeded" if number % 10 else "running",
        payload=msgspec.Raw(b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"ls -l"}]}]}'),
        ended_at="2026-11-21T10:28:42.318Z" if number % 10 else None,
    )
    return CommandRecord(command=command, session_id=session_id, created_ms=number)


async def _growing(path: Path, most: int) -> list[Line]:
    lines, first, size = list[Line](), dict[str, float](), 0
    ledger = await open_ledger(path, SystemClock())
    for wanted in [one for one in SIZES if one <= most]:
        while size < wanted:
            count = min(A_BATCH, wanted - size)
            await ledger.commit(Batch([PutCommand(_record(size + one)) for one in range(count)]))
            size += count
        page = CommandQuery(tenant_id="default", agent_id="shell", limit=50)
        step = max(1, size // PROBES)
        costs = {
            "keep a command": await _cost(lambda n, base=size: ledger.commit(Batch([
                PutCommand(_record(base + n)), Append(command_stream(f"cmd_{base + n:026d}"), "status", 0, b"{}")]))),
            "find one": await _cost(lambda n, step=step: ledger.command(f"cmd_{n * step:026d}", "default")),
            "those of a session": await _cost(lambda n, step=step: ledger.live_commands(f"s-{n * step // 10}")),
            "list the newest 50": await _cost(lambda _n, page=page: ledger.commands(page)),
            "list 50 of a state": await _cost(lambda _n, page=page: ledger.commands(page._replace(state="running"))),
        }
        size += PROBES
        for name, cost in costs.items():
            first.setdefault(name, cost)
            lines.append(Line("11", f"{name}, {wanted:,} commands", cost * 1e6, "µs", cost / first[name], 1.5,
                              at_most=True))
    await ledger.close()
    return lines


async def _cost(doing: Callable[[int], Awaitable[object]]) -> float:
    taken = list[float]()
    for number in range(PROBES):
        begin = time.perf_counter()
        await doing(number)
        taken.append(time.perf_counter() - begin)
    return median(taken)
