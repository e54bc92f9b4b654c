"""Renewal of a gateway's lease: a task of its own that waits for nothing else (C-4).

A gateway that took over many sessions, or whose writes queue, must not be considered dead because it is busy. The task
also tracks how much of the lease is left, so that the gateway can stop taking on work before it expires, and what the
gateway's loop received of the processor, so that a loss can be explained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from interlock.engine.cluster.lease_loss import LeaseLoss, ProcessorTime, processor_time
from interlock.ports.leases import INSTANCE_LIFE_MS, RENEW_EVERY_MS, Leases
from interlock.ports.ledger import LedgerError
from interlock.ports.outage_log import OutageLog
from interlock.ports.signals import Signal

RETRY_S = 0.2
"""A renewal that failed is tried again after this."""
BEHIND_S = INSTANCE_LIFE_MS / 3_000
"""A gateway with less than this left of its lease is behind: it claims no lanes, and passes on those it has not
read."""
WAIT_REPORTED_S = RENEW_EVERY_MS / 1000
"""A gateway that waited this long for a processor between two renewals reports that."""
log = structlog.get_logger("interlock.cluster")


class Renewal:
    """The renewal of the instance that `instance_id` names; `expired` is awaited with an id whose row has expired.
    `renewed` is sent after each renewal with the seconds that were left of the lease, `waited` with the seconds that
    the loop waited for a processor since the last one. `processor` returns what the loop's thread received of it."""

    def __init__(self, leases: Leases, instance_id: Callable[[], str], expired: Callable[[str], Awaitable[None]],
                 processor: Callable[[], ProcessorTime | None] = processor_time) -> None:
        self._leases = leases
        self._instance_id = instance_id
        self._expired = expired
        self._processor = processor
        self._until_s = 0.0
        self._had: ProcessorTime | None = None
        self._failure = ""
        self._lost: tuple[float, str] | None = None
        self._outage = OutageLog(log, "lease_not_renewed", "lease_renewed_again",
                              lambda: asyncio.get_running_loop().time())
        self._starved = OutageLog(log, "processor_missing", "processor_available",
                                  lambda: asyncio.get_running_loop().time())
        self.renewed = Signal[[float]]()
        self.waited = Signal[[float]]()

    def joined(self, asked_s: float) -> None:
        """Start a lease; `asked_s` is the loop's time at which it was requested."""
        self._began(asked_s, self._processor())

    def _began(self, asked_s: float, had: ProcessorTime | None) -> None:
        self._until_s, self._had, self._failure = asked_s + INSTANCE_LIFE_MS / 1000, had, ""

    def lost(self) -> LeaseLoss:
        """Return why the lease is lost, which was just found; `last_loss` returns it from now on."""
        now_s, spent = asyncio.get_running_loop().time(), self._spent(self._processor())
        loss = LeaseLoss(now_s - self._until_s + INSTANCE_LIFE_MS / 1000, spent, self._failure)
        if spent is not None:
            self.waited(spent.waited_s)
        self._lost = now_s, loss.sentence()
        return loss

    def last_loss(self) -> tuple[float, str] | None:
        """Return how many seconds ago this gateway lost its lease, and why; None if it never did."""
        return None if self._lost is None else (asyncio.get_running_loop().time() - self._lost[0], self._lost[1])

    def _spent(self, now: ProcessorTime | None) -> ProcessorTime | None:
        return now.since(self._had) if now is not None and self._had is not None else None

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
                self._failure = str(error)
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
        asked_s, former, has = asyncio.get_running_loop().time(), self._instance_id(), self._processor()
        if not await self._leases.renew(former):
            await self._expired(former)
            return
        if former == self._instance_id():
            left_s = max(0.0, self.left_s())
            self.renewed(left_s)
            self._report_wait(self._spent(has), left_s)
            self._began(asked_s, has)

    def _report_wait(self, spent: ProcessorTime | None, left_s: float) -> None:
        if spent is None:
            return
        self.waited(spent.waited_s)
        if spent.waited_s < WAIT_REPORTED_S:
            self._starved.ended()
            return
        self._starved.failed(f"This gateway's host has no free processor: since its last renewal it waited "
                             f"{spent.waited_s * 1000:,.0f} ms for one. A gateway that waits longer than its lease "
                             "loses its sessions to others.", left_s=round(left_s, 3))
