"""Shared servers of several gateways: the ledger on PostgreSQL beside the bare batched insert, and a hop over NATS
beside TCP.

Server and driver are on this machine, so their processor time adds up; PostgreSQL waits for the disk (`fsync` on).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

import asyncpg
import msgspec

from benchmarks.cluster import gateway_failover, processor_time
from interlock.app.own_servers import start_nats, start_postgres
from interlock.app.place import SystemClock
from interlock.backends.bus_nats.bus import open_bus
from interlock.backends.bus_nats.places import read_places
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.ports.ledger import Append, AuditAppend, LaneName, PutCommand, PutIdempotency, PutSession, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, CommandRecord, IdempotencyRecord, SessionRecord
from interlock.protocol.resources import Actor, Command, Target

WAITING = 64
"""Sessions, or people, that have one thing each under way."""
GROUP = 512
"""Rows of one bare insert: as many as the ledger puts into a transaction at the most."""
ROUNDS = 3
HOPS = 400
GROWTH_LIMIT = 1.15
TAKEOVER_S = 5.0
BODY = b"." * 400
BARE = """
INSERT INTO bare (stream_id, n, kind, at_ms, message_id, body)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bytea[])
"""
MAKE_BARE = """
CREATE TABLE IF NOT EXISTS bare (stream_id bigint, n bigint, kind text, at_ms bigint, message_id text, body bytea,
                                 PRIMARY KEY (stream_id, n))
"""


class Row(NamedTuple):
    """A figure beside its limit, of the same run."""

    what: str
    value: float
    unit: str
    limit: float
    of: str


class RunSize(NamedTuple):
    """The sizes of the measurement other than `seconds`."""

    kills: int = 100
    stops: int = 10
    frames: int = 10_000
    """Of each of three runners, in each round."""


def run(seconds: float, size: RunSize | None = None) -> dict[str, Any]:
    """Measure; rounds of each alternate, medians are given."""
    size = size or RunSize()
    share = seconds / (3 * ROUNDS + 1)
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        database, bus = start_postgres(folder, options=["max_connections=200"]), start_nats(folder)
        try:
            report = asyncio.run(_measure(database.url, bus.url, share))
            report["sharing"] = _sharing(folder, database.url, bus.url, size.frames)
        finally:
            database.stop()
            bus.stop()
    report["failover"] = gateway_failover.failover(size.kills, size.stops) if size.kills or size.stops else {}
    return report


def _sharing(folder: Path, database: str, bus: str, frames: int) -> dict[str, float]:
    names = ("alone", "shared")
    asyncio.run(_make(database, names))
    stores = [database.replace("/postgres?", f"/{name}?") for name in names]
    with contextlib.ExitStack() as stack:
        places = [processor_time.start(stack, folder / name, count, store, bus)
                  for name, count, store in zip(names, (1, processor_time.RUNNERS), stores, strict=True)]
        one, three = (processor_time.attach(stack, place) for place in places)
        alone_us, shared_us = processor_time.sharing(one, three, frames, ROUNDS)
    return {"one_us": alone_us, "three_us": shared_us, "growth": shared_us / alone_us}


async def _make(database: str, names: Sequence[str]) -> None:
    connection = await cast("Any", asyncpg).connect(database)
    for name in names:
        await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


async def _measure(database: str, bus: str, share: float) -> dict[str, Any]:
    ledger = await open_ledger(PostgresSettings(database), SystemClock())
    bare, frames, commands = list[float](), list[float](), list[float]()
    for number in range(ROUNDS):
        bare.append(await _bare(database, share, number))
        frames.append(await _frames(ledger, share))
        commands.append(await _commands(ledger, share, number))
    await ledger.close()
    hop, ask, tcp = await _hops(bus)
    limit = median(bare)
    rows = [
        Row(f"durable frames, {WAITING} sessions", median(frames), "/s", limit, f"rows of bare inserts by {GROUP}"),
        Row(f"commands, {WAITING} at once", median(commands), "/s", limit, f"rows of bare inserts by {GROUP}"),
        Row("a note over NATS", hop * 1e6, "µs", tcp * 1e6, "half a round over loopback TCP"),
        Row("a request over NATS and its answer", ask * 1e6, "µs", 2 * tcp * 1e6, "a round over loopback TCP"),
    ]
    return {"rows": [row._asdict() for row in rows], "load": os.getloadavg()[0]}


async def _bare(database: str, seconds: float, stream: int) -> float:
    connection = await cast("Any", asyncpg).connect(database)
    await connection.execute(MAKE_BARE)
    count, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        await connection.execute(BARE, [stream] * GROUP, list(range(count, count + GROUP)), ["C"] * GROUP, [0] * GROUP,
                                 ["m"] * GROUP, [BODY] * GROUP)
        count += GROUP
    await connection.close()
    return count / (now - begin)


def _session(number: int) -> PutSession:
    return PutSession(SessionRecord(
        session_id=f"S{number}", tenant_id="t", session_key=f"agent:shell:{number}", agent_id="shell", runner_id="r",
        workspace="/w", state="running", created_ms=1, updated_ms=2, deadline_ms=None, machine=BODY, usage={}))


async def _frames(ledger: PostgresLedger, seconds: float) -> float:
    """As a lane commits them: a frame, the session's row, under the lane's epoch."""
    count, end = 0, time.perf_counter() + seconds

    async def write(number: int) -> None:
        nonlocal count
        epoch = await ledger.take(LaneName("t", f"S{number}"))
        while time.perf_counter() < end:
            await ledger.commit(WriteBatch([Append("t", f"s/S{number}", "C", 1, BODY, "m"), _session(number)],
                                           [(LaneName("t", f"S{number}"), epoch)]))
            count += 1

    begin = time.perf_counter()
    await asyncio.gather(*map(write, range(WAITING)))
    return count / (time.perf_counter() - begin)


async def _commands(ledger: PostgresLedger, seconds: float, round_: int) -> float:
    """As one is taken in: its row, its first event, the tenant's feed, an audit record, the answer that is kept."""
    count, end = 0, time.perf_counter() + seconds

    async def submit(number: int) -> None:
        nonlocal count
        while time.perf_counter() < end:
            name = f"cmd_{round_}_{number}_{count}"
            command = Command(id=name, created_at=iso(1), updated_at=iso(1), tenant_id="t",
                              actor=Actor(type="user", id="u"), type="execute", target=Target(agent_id="shell"),
                              state="queued", timeout_ms=5, payload=msgspec.Raw(b'{"messages":[]}'))
            count += 1
            await ledger.commit(WriteBatch([
                PutCommand(CommandRecord(command=command, session_id=f"S{number}", created_ms=1)), _session(number),
                Append("t", f"c/{name}", "status", 1, BODY), Append("t", "t/t", "feed", 1, BODY),
                AuditAppend(AuditDraft(tenant_id="t", at=iso(1), who={"id": "u", "role": "owner"}, action="enqueue",
                                       command_id=name)),
                PutIdempotency(IdempotencyRecord(tenant_id="t", scope=name, fingerprint="f", status=202, headers={},
                                                 body=BODY, created_ms=1)),
            ]))

    begin = time.perf_counter()
    await asyncio.gather(*map(submit, range(WAITING)))
    return count / (time.perf_counter() - begin)


async def _hops(address: str) -> tuple[float, float, float]:
    here, there = await open_bus(read_places(address), "bench"), await open_bus(read_places(address), "bench")
    received = asyncio.Event()
    await there.subscribe("note", lambda _: received.set())

    async def answer(body: bytes) -> bytes:
        return body

    await there.serve("ask", answer)
    notes, asks, rounds = list[float](), list[float](), list[float]()
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for _ in range(HOPS):
        begin = time.perf_counter()
        here.publish("note", BODY)
        await received.wait()
        notes.append(time.perf_counter() - begin)
        received.clear()
        begin = time.perf_counter()
        await here.request("ask", BODY, 5_000)
        asks.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        writer.write(BODY)
        await reader.readexactly(len(BODY))
        rounds.append(time.perf_counter() - begin)
    writer.close()
    server.close()
    await here.close()
    await there.close()
    return median(notes), median(asks), median(rounds) / 2


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{row['what']:38}{row['value']:>10,.0f} {row['unit']:3}{row['value'] / row['limit']:>7.2f} of "
             f"{row['limit']:,.0f} {row['unit']} ({row['of']})" for row in report["rows"]]
    shared = report["sharing"]
    lines.append(f"{'processor time of a frame, 3 gateways':38}{shared['three_us']:>10,.0f} µs {shared['growth']:>7.2f}"
                 f" of {shared['one_us']:,.0f} µs (one gateway; at most {GROWTH_LIMIT})")
    for how, times in report["failover"].items():
        if times:
            lines.append(f"{f'{how}, until the next acknowledgement':38}{_at(times, 0.5):>10,.2f} s  p50, p99 "
                         f"{_at(times, 0.99):.2f} s, slowest {times[-1]:.2f} s, {len(times)} times (at most "
                         f"{TAKEOVER_S:.0f} s)")
    return "\n".join([*lines, f"machine's load {report['load']:.1f}"])


def _at(sorted_s: list[float], part: float) -> float:
    return sorted_s[min(len(sorted_s) - 1, int(len(sorted_s) * part))]
