"""The health of a cluster's gateways and of their shared servers, for `status`, `/readyz` and `/metrics` (C-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.ports.bus import Bus, CutOff
from interlock.ports.leases import ClusterMember, Leases
from interlock.ports.ledger import LedgerError
from interlock.protocol.answers import ClusterGateway, ClusterHealth, LostLease, SharedServer
from interlock.protocol.clock import iso

PROBE_TIMEOUT_MS = 1_000
"""A server that does not answer within this is reported as unreachable."""
LOSS_SHOWN_S = 3_600.0
"""A lost lease is shown for this time."""
STANDBY_WAIT_MS = 2_000
"""A commit that waits longer for a synchronous standby is reported: a connected one confirms in milliseconds."""


def bus_trouble(where: str) -> str:
    """Return what stops while the bus is unavailable."""
    return (f"The gateways cannot reach one another: {where} does not answer. A request for a session of another "
            "gateway is answered 503, and sessions whose runners are attached to the gateway that is asked go on.")


def standby_trouble(where: str) -> str:
    """Return what stops while a synchronous standby does not confirm."""
    return (f"The ledger at {where} waits for its synchronous standby: nothing is taken until a standby follows again, "
            "or synchronous_standby_names no longer asks for one.")


class ClusterWatch:
    """Probes of PostgreSQL and NATS on demand. Nothing is cached, so nothing reported is old."""

    def __init__(self, leases: Leases, bus: Bus, store: str, last_loss: Callable[[], tuple[float, str] | None],
                 now_s: Callable[[], float] | None = None) -> None:
        """Create the watch; `store` is the ledger's address for people, without its password; `last_loss` returns how
        many seconds ago this gateway lost its lease, and why; `now_s` is a monotonic clock."""
        self._leases = leases
        self._bus = bus
        self._store = store
        self._last_loss = last_loss
        self._now_s = now_s or (lambda: asyncio.get_running_loop().time())

    @property
    def connected(self) -> bool:
        """Return whether this gateway is connected to the bus now. Sends nothing."""
        return self._bus.connected()

    async def look(self) -> ClusterHealth:
        """Probe both servers in parallel; returns within PROBE_TIMEOUT_MS."""
        (members, database), bus = await asyncio.gather(self._look_at_database(), self._look_at_bus())
        return ClusterHealth(gateways=[_shown(one) for one in members], database=database, bus=bus,
                             lost_lease=_recent(self._last_loss()))

    async def _look_at_database(self) -> tuple[list[ClusterMember], SharedServer]:
        began_s = self._now_s()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_MS / 1000):
                found = await self._leases.survey()
        except (LedgerError, TimeoutError) as error:
            why = "" if isinstance(error, TimeoutError) else f" ({error})"
            return [], SharedServer(where=self._store, reachable=False, trouble=(
                f"The ledger at {self._store} does not answer{why}: nothing is taken until it does."))
        took_ms = round((self._now_s() - began_s) * 1000, 2)
        trouble = standby_trouble(self._store) if found.standby_wait_ms >= STANDBY_WAIT_MS else found.trouble
        return found.members, SharedServer(where=self._store, reachable=True, version=found.version, latency_ms=took_ms,
                                           trouble=trouble)

    async def _look_at_bus(self) -> SharedServer:
        where = self._bus.where
        try:
            found = await self._bus.probe(PROBE_TIMEOUT_MS)
        except CutOff:
            return SharedServer(where=where, reachable=False, trouble=bus_trouble(where))
        return SharedServer(where=where, reachable=True, version=found.version, latency_ms=round(found.latency_ms, 2))


def _recent(loss: tuple[float, str] | None) -> LostLease | None:
    if loss is None or loss[0] > LOSS_SHOWN_S:
        return None
    return LostLease(ago_s=int(loss[0]), reason=loss[1])


def _shown(member: ClusterMember) -> ClusterGateway:
    return ClusterGateway(instance_id=member.instance_id, address=member.address,
                          since=iso(member.since_ms) if member.since_ms else None,
                          last_beat_at=iso(member.renewed_ms), lanes=member.lanes)
