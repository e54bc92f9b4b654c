"""The readiness of the gateway: its ledger accepts writes, its lanes are up, its logs are signed (`/readyz`)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal

import msgspec

from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.gateway.rest.service import Front
from interlock.ports.ledger import LedgerError, PutFact, WriteBatch
from interlock.protocol.answers import Readiness
from interlock.protocol.clock import iso
from interlock.protocol.limits import MIB

PROBE_MS = 1_000
"""The ledger is written to at most this often, however often it is probed: the path requires no credential."""
PROBE_TIMEOUT_S = 5.0
"""A ledger that has not written by then counts as failing; the next probe waits for the pending write."""
PROBE = "ready_probe"
ROOM_BYTES = MIB
"""With less than this free for the state directory the ledger counts as failing: a small write may still fit space that
the ledger allocated before, and nothing else would."""


class Ready:
    """The probe; its result is cached for PROBE_MS."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._seen: tuple[int, bool] | None = None
        self._probing: asyncio.Task[bool] | None = None

    async def look(self) -> Readiness:
        """Return the readiness. A drain does not affect it: running work is still to be read and answered."""
        writes = await self._writes()
        up = self._front.desk.engine_status().up
        signs = not self._front.signing.stalled
        ready = Readiness(ok=writes and up and signs, ledger="writes" if writes else "refuses",
                          lanes="up" if up else "down", audit="signs" if signs else "refuses",
                          bus=self._bus(),
                          draining=any(drain.scope == "gateway" for drain in self._front.desk.drains.of(OWNER_TENANT)))
        self._front.metrics.ready.set(ready.ok)
        return ready

    def _bus(self) -> Literal["reachable", "away"] | msgspec.UnsetType:
        if (cluster := self._front.cluster) is None:
            return msgspec.UNSET
        return "reachable" if cluster.connected else "away"

    async def _writes(self) -> bool:
        now = self._front.clock.monotonic_ms()
        if self._seen is not None and now - self._seen[0] < PROBE_MS:
            return self._seen[1]
        if not await asyncio.to_thread(has_room, Path(self._front.facts.state_dir)):
            self._seen = (now, False)
            return False
        # One at a time: a blocked ledger does not accumulate a write for each probe.
        probing = self._probing = self._probing or asyncio.create_task(self._probe(), name="ready probe")
        done, _ = await asyncio.wait([probing], timeout=PROBE_TIMEOUT_S)
        good = bool(done) and probing.result()
        self._seen = (now, good)
        return good

    async def _probe(self) -> bool:
        try:
            await self._front.desk.ledger.commit(WriteBatch([PutFact(PROBE, iso(self._front.clock.now_ms()))]))
        except LedgerError:
            return False
        finally:
            self._probing = None
        return True


def has_room(directory: Path) -> bool:
    """Return whether ROOM_BYTES are free on a directory's file system; True if that is unknown."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize >= ROOM_BYTES
