"""Takeover of a dead gateway's sessions by the others, over a link with latency: until all are claimed, and all read.

PostgreSQL is reached through a link that delays each direction by half a round trip. Each survivor is a process
(`survivor_process`). The dead gateway is an instance with a whole lease that is not renewed again, as after a kill -9
just after a renewal, which is the longest case. Its sessions have a clock, so all of them have to be read.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import asyncpg
import msgspec

from benchmarks import REPOSITORY
from benchmarks.cluster.slow_postgres import slow_postgres
from benchmarks.cluster.survivor_process import Progress
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import PostgresLeases, open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.engine.bridge.lane_state import LaneState
from interlock.ports.leases import INSTANCE_LIFE_MS, Instance
from interlock.ports.ledger import Append, LaneName, Ledger, PutSession, WriteBatch
from interlock.protocol.identifiers import session_stream
from interlock.protocol.records import SessionRecord

TENANT, DEAD = "default", "i_dead"
SURVIVORS, ROUNDS = 2, 3
EVENTS = 4
"""Events of each session."""
BATCH = 500
FAR_MS = 4_000_000_000_000
LONG_MS = 3_600_000
LIMIT_S = 120.0
"""A takeover that takes longer is not waited for."""
LOOK_S = 0.02
OWNED = "SELECT count(*) FROM lane WHERE instance_id = $1"
SET_BACK = "UPDATE lane SET instance_id = $1"


class Taken(NamedTuple):
    """One takeover. Seconds are from the last renewal of the dead gateway, whose lease is part of them."""

    rtt_ms: float
    sessions: int
    survivors: int
    lease_s: float
    claimed_s: float
    """Until no session was the dead gateway's."""
    read_s: float
    """Until all of them were read."""
    claims: int
    falsely_dead: int
    """Survivors that were considered dead."""
    cpu_s: float
    """Processor time of the survivors for it, all together."""


class Survivor:
    """A process that takes over, and its last report."""

    def __init__(self, store: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", "benchmarks.cluster.survivor_process", store],
                                         text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY)
        self.progress: Progress | None = None
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "with a pipe"
        for line in self._process.stdout:
            if line.startswith("{"):  # Others are its log.
                self.progress = msgspec.json.decode(line, type=Progress)

    @property
    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End it."""
        with self._process as process:
            assert process.stdin is not None, "with a pipe"
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run(rtts_ms: Sequence[float], sessions: int, survivors: int = SURVIVORS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure takeovers of so many sessions by so many survivors, `rounds` times at each round trip."""
    with slow_postgres() as database:
        asyncio.run(_fill(database.direct_url, sessions))
        taken = list[Taken]()
        for _ in range(rounds):
            for rtt_ms in rtts_ms:
                database.link.rtt_s = rtt_ms / 1_000
                taken.append(asyncio.run(_taken(database.direct_url, database.url, rtt_ms, sessions, survivors)))
    return {"takeovers": [one._asdict() for one in taken], "load": os.getloadavg()[0]}


async def _fill(url: str, sessions: int) -> None:
    """Write sessions with a clock, each with its lane."""
    settings = PostgresSettings(url)
    ledger, leases = await open_ledger(settings, SystemClock()), await open_leases(settings)
    try:
        await leases.join(Instance("i_filling", ""), LONG_MS)
        for first in range(0, sessions, BATCH):
            await _fill_batch(ledger, leases, range(first, min(first + BATCH, sessions)))
        await leases.leave("i_filling")
    finally:
        await leases.close()
        await ledger.close()


async def _fill_batch(ledger: Ledger, leases: PostgresLeases, numbers: range) -> None:
    rows = [_row(number) for number in numbers]
    await asyncio.gather(*(leases.take(LaneName(TENANT, one.session_id), "i_filling") for one in rows))
    await ledger.commit(WriteBatch([PutSession(one) for one in rows] + [
        Append(TENANT, session_stream(one.session_id), "C", 1, b"." * 400, f"m-{one.session_id}-{number}")
        for one in rows for number in range(EVENTS)]))


def _row(number: int) -> SessionRecord:
    session_id, key = f"00000000-0000-4000-8000-{number:012d}", f"agent:shell:lane-{number}"
    lane = LaneState(session_id=session_id, tenant_id=TENANT, session_key=key, agent_id="shell", runner_id="r",
                     workspace="/w", created_ms=1, opening="open", n=EVENTS)
    return SessionRecord(session_id=session_id, tenant_id=TENANT, session_key=key, agent_id="shell", runner_id="r",
                         workspace="/w", state="running", created_ms=1, updated_ms=1, deadline_ms=FAR_MS,
                         machine=msgspec.json.encode(lane), usage={})


async def _taken(url: str, through: str, rtt_ms: float, sessions: int, count: int) -> Taken:
    direct: Any = await cast("Any", asyncpg).connect(url)
    leases = await open_leases(PostgresSettings(url))
    survivors = list[Survivor]()
    try:
        dead = DEAD + os.urandom(4).hex()
        await leases.join(Instance(dead, ""), LONG_MS)
        await direct.execute(SET_BACK, dead)
        await direct.execute("VACUUM ANALYZE")
        survivors += [Survivor(through) for _ in range(count)]
        await _until(survivors, lambda: all(one.progress is not None for one in survivors))
        await asyncio.sleep(1.0 + os.urandom(1)[0] / 256)  # At any time between two looks of theirs.
        before = [cast("Progress", one.progress).cpu_s for one in survivors]
        began_s = time.monotonic()
        await leases.renew(dead)
        claimed_s = 0.0

        async def all_claimed() -> None:
            nonlocal claimed_s
            while await direct.fetchval(OWNED, dead):  # noqa: ASYNC110 - other processes change it
                await asyncio.sleep(LOOK_S)
            claimed_s = time.monotonic() - began_s

        claiming = asyncio.create_task(all_claimed())
        await _until(survivors, lambda: claiming.done() and
                     sum(cast("Progress", one.progress).read for one in survivors) >= sessions)
        last = [cast("Progress", one.progress) for one in survivors]
        read_s = max(one.at_s for one in last) - began_s
        return Taken(rtt_ms, sessions, count, INSTANCE_LIFE_MS / 1_000, claimed_s, read_s,
                     sum(one.claims for one in last), sum(one.deaths for one in last),
                     sum(one.cpu_s - had for one, had in zip(last, before, strict=True)))
    finally:
        for one in survivors:
            one.stop()
        await leases.close()
        await direct.close()


async def _until(survivors: list[Survivor], condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until_s or any(one.ended for one in survivors):
            raise RuntimeError(f"the takeover is not done: {[one.progress for one in survivors]}")
        await asyncio.sleep(LOOK_S)


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    return "\n".join([
        *(f"{one['rtt_ms']:>6.1f} ms round trip, {one['sessions']:,} sessions, {one['survivors']} survivors: all "
          f"claimed after {one['claimed_s']:.2f} s and read after {one['read_s']:.2f} s, of which the lease is "
          f"{one['lease_s']:g} s; {one['claims']} claims, {one['cpu_s']:.1f} s of processor time, "
          f"{one['falsely_dead']} living gateways taken for dead" for one in report["takeovers"]),
        f"machine's load {report['load']:.1f}"])
