"""Quotas: executes a day, for a tenant and for each of its principals, exactly (K-3).

The count of a day is read from the ledger once and updated from then on, so that it survives a restart.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from interlock.config import RatesSection
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

DAY_MS = 24 * 60 * 60 * 1000
MAX_COUNTS = 10_000
"""Cached counts; beyond it the least recently used one is read from the ledger again."""


class Quotas:
    """The remaining executes of today; the day is that of UTC."""

    def __init__(self, ledger: Ledger, clock: Clock, section: RatesSection, *, shared: bool = False) -> None:
        """Create the quotas; `clock` is that of the commands' times. With `shared` other gateways also count: then
        nothing is cached, and each execute reads the ledger."""
        self._ledger = ledger
        self._clock = clock
        self.configure(section)
        self._counts: OrderedDict[tuple[int, str, str], int] = OrderedDict()
        self._pending: dict[tuple[int, str, str], int] = {}
        """Counted executes that are not committed yet: a repeated read of the count would miss them."""
        self._reading = asyncio.Lock()
        self._shared = shared

    def configure(self, section: RatesSection) -> None:
        """Apply other limits; what was started today stays counted."""
        self._tenant_limit = section.tenant_commands_a_day
        self._principal_limit = section.principal_commands_a_day
        self.limited = bool(self._tenant_limit or self._principal_limit)
        """Whether anything is counted."""

    @asynccontextmanager
    async def counted(self, principal: Principal) -> AsyncGenerator[None]:
        """Count one execute; one that fails inside is not counted. Raises Problem QuotaExceeded."""
        day = self._clock.now_ms() // DAY_MS
        tenant = principal.tenant_id
        places = [((day, tenant, ""), self._tenant_limit, "tenant"),
                  ((day, tenant, principal.actor.id), self._principal_limit, "principal")]
        taken: list[tuple[int, str, str]] = []
        async with self._reading:
            for place, limit, whose in places:
                if limit and await self._count(place) >= limit:
                    raise self._exceeded(limit, whose)
            for place, limit, _ in places:
                if limit:
                    self._counts[place] = await self._count(place) + 1
                    self._pending[place] = self._pending.get(place, 0) + 1
                    taken.append(place)
        done = False
        try:
            yield
            done = True
        finally:
            for place in taken:
                self._pending[place] -= 1
                if not self._pending[place]:
                    del self._pending[place]
                if not done and place in self._counts:
                    self._counts[place] -= 1

    async def _count(self, place: tuple[int, str, str]) -> int:
        known = self._counts.pop(place, None)
        if known is None or self._shared:
            day, tenant, actor = place
            known = await self._ledger.executes_since(tenant, actor or None, day * DAY_MS)
            known += self._pending.get(place, 0)
        self._counts[place] = known
        if len(self._counts) > MAX_COUNTS:
            self._counts.popitem(last=False)
        return known

    def _exceeded(self, limit: int, whose: str) -> Problem:
        left_s = (DAY_MS - self._clock.now_ms() % DAY_MS) // 1000 + 1
        return Problem("QuotaExceeded", f"This {whose} may start {limit} commands a day, and has.",
                       hint="The day ends at midnight UTC; the limits stand under [rates] in the gateway's config.",
                       headers={"Retry-After": str(left_s)})
