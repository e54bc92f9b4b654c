"""What operations of the ledger cost over a network: round trips in a row, and the time of each, at several delays.

PostgreSQL is reached through a link that delays each direction by half a round trip. The limit that a figure stands
beside is its own round trips times the delay of the same run, so a ratio near 1 means that nothing else is waited for.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from proof.slow_link import SlowLink

from interlock.app.own_servers import start_postgres
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance, RunnerLocation
from interlock.ports.ledger import Append, AuditAppend, PutFact, PutIdempotency, WriteBatch
from interlock.ports.trips import counting
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, IdempotencyRecord

RTTS_MS = (0.2, 10.0, 50.0)
TIMES = 20
"""How often each operation is measured at each delay."""
WARM = 3
"""Rounds before that: the first call of a statement on a connection prepares it, which is one round trip more."""
Operation = Callable[[int], Awaitable[object]]


class Figure(NamedTuple):
    """One operation at one delay. `trips` are in a row."""

    what: str
    rtt_ms: float
    trips: int
    p50_ms: float
    slowest_ms: float


def run(rtts_ms: Sequence[float] = RTTS_MS, times: int = TIMES) -> dict[str, Any]:
    """Measure every operation at each of these round trips."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        database = start_postgres(folder, options=["max_connections=200"])
        link = SlowLink(folder / ".s.PGSQL.5432", Path(parse_qs(urlsplit(database.url).query)["host"][0])
                        / ".s.PGSQL.5432")
        link.start()
        try:
            figures = asyncio.run(_measure(f"postgresql://interlock@/postgres?host={folder}", link, rtts_ms, times))
        finally:
            link.stop()
            database.stop()
    return {"figures": [figure._asdict() for figure in figures], "load": os.getloadavg()[0]}


async def _measure(url: str, link: SlowLink, rtts_ms: Sequence[float], times: int) -> list[Figure]:
    ledger, leases = await open_ledger(PostgresSettings(url), SystemClock()), await open_leases(PostgresSettings(url))
    await leases.join(Instance("i_bench", "bench"), 3_600_000)
    epoch = (await leases.take("S0", "i_bench")).epoch
    held = [("S0", epoch)]

    async def frames(number: int) -> None:
        await ledger.commit(WriteBatch([Append("s/S0", "C", 1, b"." * 400, "m"), PutFact("a", str(number))], held))

    async def command(number: int) -> None:
        await ledger.idempotency(f"k{number}")
        await ledger.commit(WriteBatch([
            Append("s/S0", "C", 1, b"." * 400, "m"), Append("t/t", "feed", 1, b"{}"),
            AuditAppend(AuditDraft(tenant_id="t", at=iso(1), who={"id": "u", "role": "owner"}, action="enqueue")),
            PutIdempotency(IdempotencyRecord(scope=f"k{number}", fingerprint="f", status=202, headers={}, body=b"",
                                             created_ms=1))], held))

    async def vote(number: int) -> None:
        await asyncio.gather(ledger.idempotency(f"v{number}"), ledger.ballot("a"))
        await ledger.commit(WriteBatch([
            Append("s/S0", "C", 1, b"." * 400, "m"), Append("t/t", "feed", 1, b"{}"),
            AuditAppend(AuditDraft(tenant_id="t", at=iso(1), who={"id": "u", "role": "owner"}, action="vote")),
            PutIdempotency(IdempotencyRecord(scope=f"v{number}", fingerprint="f", status=200, headers={}, body=b"",
                                             created_ms=1))], held))

    async def session(number: int) -> None:
        await ledger.idempotency(f"o{number}")
        await asyncio.gather(ledger.session(f"O{number}"), leases.begin(f"O{number}", "i_bench", "r"))
        await ledger.commit(WriteBatch([Append(f"s/O{number}", "C", 1, b"{}")], [(f"O{number}", 1)]))

    async def attach(number: int) -> None:
        await leases.attach(RunnerLocation("r", "t", "i_bench", f"l{number}", b""))
        await ledger.runner_sessions("r")

    async def take(_number: int) -> None:
        await leases.take("S1", "i_bench")

    operations: dict[str, Operation] = {
        "a batch of frames": frames, "a command": command, "a vote": vote,
        "a command that opens a session": session,
        "a runner attaches": attach, "a lane is taken": take}
    numbers = iter(range(1_000_000))
    figures: list[Figure] = []
    for rtt_ms in rtts_ms:
        for what, operation in operations.items():
            link.rtt_s = 0.0
            for _ in range(WARM):
                await operation(next(numbers))
            link.rtt_s = rtt_ms / 1_000
            figures.append(await _figure(what, rtt_ms, operation, [next(numbers) for _ in range(times)]))
    link.rtt_s = 0.0
    await leases.close()
    await ledger.close()
    return figures


async def _figure(what: str, rtt_ms: float, operation: Operation, numbers: Sequence[int]) -> Figure:
    took_ms, trips = list[float](), list[int]()
    for number in numbers:
        begin = time.perf_counter()
        with counting() as spent:
            await operation(number)
        took_ms.append((time.perf_counter() - begin) * 1_000)
        trips.append(spent.in_a_row)
    return Figure(what, rtt_ms, max(trips), median(took_ms), max(took_ms))


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{one['what']:32}{one['rtt_ms']:>6.1f} ms round trip: {one['trips']} in a row, p50 {one['p50_ms']:>7.1f} "
             f"ms, {one['p50_ms'] / (one['trips'] * one['rtt_ms']):>6.2f} of them (slowest {one['slowest_ms']:.1f} ms)"
             for one in report["figures"]]
    return "\n".join([*lines, f"machine's load {report['load']:.1f}"])
