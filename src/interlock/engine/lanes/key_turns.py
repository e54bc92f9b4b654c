"""Serialisation of work on a session key: by a lock in this gateway, and by a lane of the key's among the gateways of a
cluster (R-2, I-1).

A gateway takes the lane of the key's session before the key. In the other order, two gateways that each held the key of
a session of the other's would send their requests to each other until both gave up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from interlock.engine.lanes.lanes import Lanes
from interlock.engine.membership import Hold
from interlock.ports.ledger import LaneName, Ledger


class KeyTurn(NamedTuple):
    """A held key. `taken` is the session whose lane was taken before it, if any."""

    hold: Hold | None
    taken: str | None


class KeyTurns:
    """The keys that are in use now."""

    def __init__(self, ledger: Ledger, lanes: Lanes) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def are_taken(self, tenant_id: str, key: str) -> bool:
        """Return whether this gateway does something with the key now, or is about to."""
        return (tenant_id, key) in self._locks

    @asynccontextmanager
    async def first(self, tenant_id: str, key: str) -> AsyncGenerator[Hold | None]:
        """Hold a key that has no session yet. Raises Elsewhere, LedgerError."""
        async with self._lock(tenant_id, key), self._lanes.room.hold(tenant_id, key) as hold:
            yield hold

    @asynccontextmanager
    async def next(self, tenant_id: str, key: str) -> AsyncGenerator[KeyTurn]:
        """Hold a key and the lane of its session. Raises Elsewhere, LedgerError."""
        async with self._lock(tenant_id, key):
            taken = await self._take_session(tenant_id, key) if self._lanes.room.shared else None
            async with self._lanes.room.hold(tenant_id, key) as hold:
                yield KeyTurn(hold, taken)

    async def _take_session(self, tenant_id: str, key: str) -> str | None:
        record = await self._ledger.session_by_key(tenant_id, key)
        if record is None:
            return None
        await self._lanes.meet(LaneName(record.tenant_id, record.session_id), record.runner_id)
        return record.session_id

    def _lock(self, tenant_id: str, key: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant_id, key), asyncio.Lock())
