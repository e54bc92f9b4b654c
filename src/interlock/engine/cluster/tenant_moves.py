"""A gateway's part in the move of a tenant: it checks for moves, closes the tenant, reads what arrived, and
acknowledges it (K-1).

The store itself refuses changes of a tenant that is being handed over. The hand-over is complete because every gateway
knows of it: work outside lanes has ended, and at the destination no rule or drain of the tenant is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from interlock.ports.leases import ACKNOWLEDGED, RENEW_EVERY_MS, Leases, TenantMove

LOOK_S = RENEW_EVERY_MS / 1000
"""How often a gateway looks whether a tenant is to be moved."""
LOOK_WHILE_MOVING_S = 0.05
"""Interval between checks while a move is under way."""
OVERDUE_EVERY_LOOKS = 10
log = structlog.get_logger("interlock.cluster")


class TenantMoves:
    """The follower of tenants' moves."""

    def __init__(self, leases: Leases, instance_id: Callable[[], str]) -> None:
        self._leases = leases
        self._instance_id = instance_id
        self._learn: Callable[[], Awaitable[None]] = _nothing
        self._known: dict[str, TenantMove] = {}
        self._acknowledged: set[tuple[TenantMove, str]] = set()
        self._looks = 0

    def learn_by(self, learn: Callable[[], Awaitable[None]]) -> None:
        """Call `learn` after each change: it closes the tenants that are closed now, and reads tenants' data again."""
        self._learn = learn

    async def look(self) -> float:
        """Apply the changes; returns the seconds until the next check. Raises LedgerError."""
        found = {move.tenant_id: move for move in await self._leases.moves()}
        if self._looks % OVERDUE_EVERY_LOOKS == 0 or self._known.keys() - found.keys():
            for tenant_id in await self._leases.end_overdue_moves():
                log.warning("tenant_move_given_up", tenant_id=tenant_id)
        self._looks += 1
        if found != self._known:
            await self._learn()
            self._known = found
            log.info("tenant_moves", moves={move.tenant_id: move.step for move in found.values()})
        mine = self._instance_id()
        wanted = {(move, mine) for move in found.values() if move.step in ACKNOWLEDGED}
        for move, instance_id in sorted(wanted - self._acknowledged):
            await self._leases.acknowledge(move, instance_id)
        self._acknowledged = wanted
        return LOOK_WHILE_MOVING_S if found else LOOK_S


async def _nothing() -> None:
    await asyncio.sleep(0)
