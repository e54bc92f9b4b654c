"""Renewal of a gateway's lease: a task of its own that waits for nothing else (C-4).

A gateway that took over many sessions, or whose writes queue, must not be considered dead because it is busy. The task
also tracks how much of the lease is left, so that the gateway can stop taking on work before it expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from interlock.ports.leases import INSTANCE_LIFE_MS, RENEW_EVERY_MS, Leases
from interlock.ports.ledger import LedgerError
from interlock.ports.outage_log import OutageLog
from interlock.ports.signals import Signal

RETRY_S = 0.2
"""A renewal that failed is tried again after this."""
BEHIND_S = INSTANCE_LIFE_MS / 3_000
"""A gateway with less than this left of its lease is behind: it claims no lanes, and passes on those it has not
read."""
log = structlog.get_logger("interlock.cluster")


class Renewal:
    """The renewal of the instance that `instance_id` names; `expired` is awaited with an id whose row has expired.
    `renewed` is sent after each renewal with the seconds that were left of the lease."""

    def __init__(self, leases: Leases, instance_id: Callable[[], str], expired: Callable[[str], Awaitable[None]]
                 ) -> None:
        self._leases = leases
        self._instance_id = instance_id
        self._expired = expired
        self._until_s = 0.0
        self._outage = OutageLog(log, "lease_not_renewed", "lease_renewed_again",
                              lambda: asyncio.get_running_loop().time())
        self.renewed = Signal[[float]]()

    def joined(self, asked_s: float) -> None:
        """Start a lease; `asked_s` is the loop's time at which it was requested."""
        self._until_s = asked_s + INSTANCE_LIFE_MS / 1000

    def left_s(self) -> float:
        """Return the minimum of seconds left of the lease; negative once it may have expired."""
        return self._until_s - asyncio.get_running_loop().time()

    @property
    def behind(self) -> bool:
        """Return whether this gateway should take on nothing more."""
        return self.left_s() < BEHIND_S

    async def run(self) -> None:
        """Renew periodically, until cancelled."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + RENEW_EVERY_MS / 1000
        while True:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            try:
                await self.once()
            except LedgerError as error:
                self._outage.failed(str(error), left_s=round(max(0.0, self.left_s()), 3))
                due_s = loop.time() + RETRY_S
            except Exception:
                log.exception("lease_not_renewed")
                due_s = loop.time() + RETRY_S
            else:
                self._outage.ended()
                due_s = max(due_s + RENEW_EVERY_MS / 1000, loop.time())

    async def once(self) -> None:
        """Renew now. Raises LedgerError, BusError."""
        asked_s, former = asyncio.get_running_loop().time(), self._instance_id()
        if not await self._leases.renew(former):
            await self._expired(former)
            return
        if former == self._instance_id():
            self.renewed(max(0.0, self.left_s()))
            self.joined(asked_s)
