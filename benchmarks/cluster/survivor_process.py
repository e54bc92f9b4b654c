"""A cluster member that takes over a dead gateway's sessions and reads them, for the benchmark `takeover`.

`python -m benchmarks.cluster.survivor_process STORE` prints its progress as lines of JSON, and ends when its standard
input does. Cluster member, leases, ledger and queue of reads are the product's. A session's rows are read as the engine
reads them, and no lane is built from them. Its bus is its own: no message is needed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Container, Mapping, Sequence

import msgspec
import uvloop

from interlock.app.place import SystemClock
from interlock.backends.bus_local.bus import LocalBus
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.engine.bridge import seals
from interlock.engine.cluster.cluster import Cluster, Holder
from interlock.engine.cluster.takeover import Clocked
from interlock.engine.lanes.due_sessions import DueSessions
from interlock.engine.lanes.lane_reader import SEALS_READ
from interlock.engine.membership import Elsewhere
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.ledger import LaneName
from interlock.ports.stored_lanes import LaneQuestion
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import PAGE_MAX, RECENT_MESSAGE_IDS

REPORT_S = 0.05


class Progress(msgspec.Struct):
    """What a survivor has done by a time on the machine's monotonic clock."""

    at_s: float
    read: int
    """Sessions that it took over and read."""
    claims: int
    claimed: int
    """Sessions of these claims."""
    deaths: int
    """How often it was considered dead."""
    cpu_s: float


class ReadingHolder(Holder):
    """Reads what it takes over, as `ClusterPeers` and `Lanes` do, and keeps none of it."""

    def __init__(self, ledger: PostgresLedger, cluster: Cluster) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._due = DueSessions(self._read)
        self.read: set[LaneName] = set()
        cluster.bind(self)

    @property
    def ready(self) -> bool:
        return True

    def epoch_of(self, session_id: str) -> int | None:
        return None

    def delivered_of(self, session_id: str) -> int | None:
        return None

    async def let_go(self) -> None:
        self.read.clear()

    async def let_go_older(self, epochs: Mapping[LaneName, int]) -> None:
        """It has none in memory."""

    async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
        found = await self._ledger.session_clocks(lanes)
        return [Clocked(one.lane, 0.0, one) for one in found if one.deadline_ms is not None]

    def take_up(self, one: Clocked) -> None:
        assert one.clock is not None, "every session of the benchmark has a clock"
        self._due.read_claimed(one.clock)

    def unread(self) -> int:
        return self._due.unread()

    async def fewer_unread(self, limit: int, within_s: float) -> None:
        await self._due.fewer_unread(limit, within_s)

    def put_off(self, lanes: Container[LaneName]) -> list[LaneName]:
        return self._due.put_off(lanes)

    async def _read(self, lanes: Sequence[LaneName]) -> None:
        clocks = self._due.take_clocks(lanes)
        asked = await asyncio.gather(*(self._cluster.take(one, clocks[one].runner_id) for one in lanes),
                                     return_exceptions=True)
        taken = [one for one, answer in zip(lanes, asked, strict=True) if not isinstance(answer, Elsewhere)]
        await self._ledger.stored_lanes(taken, RECENT_MESSAGE_IDS)
        await self._ledger.lane_histories(
            [LaneQuestion(one.tenant_id, session_stream(one.name), None, [], seals.frames_of(one.name))
             for one in taken], PAGE_MAX, SEALS_READ)
        self.read.update(taken)


async def survive(store: str) -> None:
    """Take over until standard input ends."""
    clock, settings = SystemClock(), PostgresSettings(store)
    ledger, leases = await open_ledger(settings, clock), await open_leases(settings)
    cluster = Cluster(leases, LocalBus(), ledger, Viewers(ledger), os.urandom, "bench")
    holder = ReadingHolder(ledger, cluster)
    claims = claimed = deaths = 0

    def count(sessions: int, _passed_on: int) -> None:
        nonlocal claims, claimed
        claims, claimed = claims + 1, claimed + sessions

    def died() -> None:
        nonlocal deaths
        deaths += 1

    cluster.takeover.counted.connect(count)
    cluster.on_death.connect(died)
    await cluster.start()
    cluster.run()
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not over.done():
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(msgspec.json.encode(Progress(time.monotonic(), len(holder.read), claims, claimed, deaths,
                                           used.ru_utime + used.ru_stime)).decode(), flush=True)
        await asyncio.wait([over], timeout=REPORT_S)
    cluster.abandon()
    await leases.close()
    await ledger.close()


def main() -> None:
    """Run until standard input ends."""
    uvloop.run(survive(sys.argv[1]))


if __name__ == "__main__":
    main()
