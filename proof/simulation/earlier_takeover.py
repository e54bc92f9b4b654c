"""The former takeover, in which renewals of a lease waited for takeovers: kept to check that the simulation notices it.

One beat a second renewed the lease and then took over what the dead had left, one lane after another, on one
connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from interlock.engine.cluster.cluster import Cluster
from interlock.engine.engine import Engine
from interlock.ports.bus import BusError
from interlock.ports.leases import RENEW_EVERY_MS
from interlock.ports.ledger import LedgerError
from proof.simulation.costs import LEASES, LEDGER, Cost

ORPHANS = 256
"""Lanes that one beat took over."""
EARLIER_LEDGER = {**LEDGER, "commit": Cost("ledger", 11, "together")}
EARLIER_LEASES = {**LEASES, "renew": Cost("leases", 1), "take": Cost("leases", 8)}
"""Taking a lane was a transaction of its own, and a renewal waited for its turn behind those."""


async def beat_for_ever(cluster: Cluster, engine: Engine, leases: Any) -> None:
    """Do each second what one task did then, one thing after the other."""
    while True:
        await asyncio.sleep(RENEW_EVERY_MS / 1000)
        with suppress(LedgerError, BusError, TimeoutError):
            await cluster.renewal.once()
            await cluster.beat()
            for lane in await leases.orphans(ORPHANS):
                await engine.lanes.tick(lane)
