"""Costs of ledger operations over a network: round trips in a row, and the time of each, at several delays.

PostgreSQL is reached through a link that delays each direction by half a round trip. The limit of a figure is its
number of round trips times the delay of the same run, so a ratio near 1 means that nothing else is waited for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.cluster.slow_postgres import slow_postgres
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance, RunnerLocation
from interlock.ports.ledger import Append, AuditAppend, LaneName, PutFact, PutIdempotency, WriteBatch
from interlock.ports.trips import counting
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, IdempotencyRecord
from proof.faults.slow_link import SlowLink
from proof.simulation.cascade import SIZE, cascade

RTTS_MS = (0.2, 10.0, 50.0)
TIMES = 20
"""How often each operation is measured at each delay."""
WARM = 3
"""Rounds before that: the first call of a statement on a connection prepares it, which is one round trip more."""
SECONDS = 2.0
LANES = 64
"""Lanes that commit at the same time."""
SEED = 1
Operation = Callable[[int], Awaitable[object]]


class Figure(NamedTuple):
    """One operation at one delay. `trips` are in a row."""

    what: str
    rtt_ms: float
    trips: int
    p50_ms: float
    p99_ms: float
    slowest_ms: float


class Rate(NamedTuple):
    """How much of an operation is done in a second at one delay by LANES that do it at the same time, and how many
    transactions each takes: those of many lanes are committed together."""

    what: str
    rtt_ms: float
    a_second: float
    commits: float


def run(rtts_ms: Sequence[float] = RTTS_MS, times: int = TIMES, seconds: float = SECONDS,
        sessions: Sequence[int] = ()) -> dict[str, Any]:
    """Measure every operation at each of these round trips, and how many fit in `seconds`. With `sessions`, let a
    gateway of a simulated cluster die under this many active sessions."""
    with slow_postgres() as database:
        figures, rates = asyncio.run(_measure(database.url, database.link, rtts_ms, times, seconds))
    failovers = [_failover(rtt_ms, count) for rtt_ms in rtts_ms for count in sessions]
    return {"figures": [figure._asdict() for figure in figures], "rates": [rate._asdict() for rate in rates],
            "failovers": failovers, "load": os.getloadavg()[0]}


def _failover(rtt_ms: float, sessions: int) -> dict[str, Any]:
    found = cascade(SEED, SIZE._replace(rtt=rtt_ms, sessions=sessions))
    return {"rtt_ms": rtt_ms, "sessions": sessions, "had": found.had, "served_s": found.served_s,
            "falsely_dead": found.falsely_dead, "broken": len(found.broken)}


async def _measure(url: str, link: SlowLink, rtts_ms: Sequence[float], times: int, seconds: float
                   ) -> tuple[list[Figure], list[Rate]]:
    ledger, leases = await open_ledger(PostgresSettings(url), SystemClock()), await open_leases(PostgresSettings(url))
    await leases.join(Instance("i_bench", "bench"), 3_600_000)
    epoch = (await leases.take(LaneName("t", "S0"), "i_bench")).epoch
    held = [(LaneName("t", "S0"), epoch)]

    async def frames(number: int) -> None:
        await ledger.commit(WriteBatch([Append("t", "s/S0", "C", 1, b"." * 400, "m"), PutFact("a", str(number))], held))

    async def command(number: int) -> None:
        await ledger.idempotency(f"k{number}", "t")
        await ledger.commit(WriteBatch([
            Append("t", "s/S0", "C", 1, b"." * 400, "m"), Append("t", "t/t", "feed", 1, b"{}"),
            AuditAppend(AuditDraft(tenant_id="t", at=iso(1), who={"id": "u", "role": "owner"}, action="enqueue")),
            PutIdempotency(IdempotencyRecord(tenant_id="t", scope=f"k{number}", fingerprint="f", status=202, headers={},
                                             body=b"", created_ms=1))], held))

    async def vote(number: int) -> None:
        await asyncio.gather(ledger.idempotency(f"v{number}", "t"), ledger.ballot("a", "default"))
        await ledger.commit(WriteBatch([
            Append("t", "s/S0", "C", 1, b"." * 400, "m"), Append("t", "t/t", "feed", 1, b"{}"),
            AuditAppend(AuditDraft(tenant_id="t", at=iso(1), who={"id": "u", "role": "owner"}, action="vote")),
            PutIdempotency(IdempotencyRecord(tenant_id="t", scope=f"v{number}", fingerprint="f", status=200, headers={},
                                             body=b"", created_ms=1))], held))

    async def session(number: int) -> None:
        await ledger.idempotency(f"o{number}", "t")
        lane = LaneName("t", f"O{number}")
        await asyncio.gather(ledger.session(lane.name), leases.begin(lane, "i_bench", "r"))
        await ledger.commit(WriteBatch([Append("t", f"s/O{number}", "C", 1, b"{}")], [(lane, 1)]))

    async def attach(number: int) -> None:
        await leases.attach(RunnerLocation("r", "t", "i_bench", f"l{number}", b""))
        await ledger.runner_sessions("r", "default")

    async def take(_number: int) -> None:
        await leases.take(LaneName("t", "S1"), "i_bench")

    operations: dict[str, Operation] = {
        "a batch of frames": frames, "a command": command, "a vote": vote,
        "a command that opens a session": session,
        "a runner attaches": attach, "a lane is taken": take}
    numbers = iter(range(1_000_000))
    figures, rates = list[Figure](), list[Rate]()
    transactions = 0

    def measured(_batches: int, _took_s: float) -> None:
        nonlocal transactions
        transactions += 1

    ledger.measure(measured)
    for rtt_ms in rtts_ms:
        for what, operation in operations.items():
            link.rtt_s = 0.0
            for _ in range(WARM):
                await operation(next(numbers))
            link.rtt_s = rtt_ms / 1_000
            figures.append(await _figure(what, rtt_ms, operation, [next(numbers) for _ in range(times)]))
        for what, operation in (("frames", frames), ("commands", command)):
            before = transactions
            done, took_s = await _at_once(operation, numbers, seconds)
            rates.append(Rate(what, rtt_ms, done / took_s, (transactions - before) / done))
    link.rtt_s = 0.0
    await leases.close()
    await ledger.close()
    return figures, rates


async def _at_once(operation: Operation, numbers: Iterator[int], seconds: float) -> tuple[int, float]:
    """Do an operation again and again, LANES at the same time; returns how often, and the seconds it took."""
    done, begin = 0, time.perf_counter()

    async def lane() -> None:
        nonlocal done
        while time.perf_counter() < begin + seconds:
            await operation(next(numbers))
            done += 1

    await asyncio.gather(*(lane() for _ in range(LANES)))
    return done, time.perf_counter() - begin


async def _figure(what: str, rtt_ms: float, operation: Operation, numbers: Sequence[int]) -> Figure:
    took_ms, trips = list[float](), list[int]()
    for number in numbers:
        begin = time.perf_counter()
        with counting() as spent:
            await operation(number)
        took_ms.append((time.perf_counter() - begin) * 1_000)
        trips.append(spent.in_a_row)
    return Figure(what, rtt_ms, max(trips), median(took_ms),
                  sorted(took_ms)[min(len(took_ms) - 1, int(len(took_ms) * 0.99))], max(took_ms))


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{one['what']:32}{one['rtt_ms']:>6.1f} ms round trip: {one['trips']} in a row, p50 {one['p50_ms']:>7.1f} "
             f"ms, {one['p50_ms'] / (one['trips'] * one['rtt_ms']):>6.2f} of them (p99 {one['p99_ms']:.1f} ms, slowest "
             f"{one['slowest_ms']:.1f} ms)"
             for one in report["figures"]]
    lines += [f"{one['what'] + f', {LANES} at a time':32}{one['rtt_ms']:>6.1f} ms round trip: {one['a_second']:>8,.0f} "
              f"a second, {one['commits']:.3f} transactions each" for one in report["rates"]]
    lines += [f"{'a gateway dies (simulated)':32}{one['rtt_ms']:>6.1f} ms round trip: {one['sessions']:,} sessions "
              f"at work, the last of its {one['had']:,} is read after {one['served_s']:.1f} s; {one['falsely_dead']} "
              f"living gateways taken for dead, {one['broken']} invariants broken" for one in report["failovers"]]
    return "\n".join([*lines, f"machine's load {report['load']:.1f}"])
