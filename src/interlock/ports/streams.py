"""Reads of the ledger's numbered streams (S-1)."""

from __future__ import annotations

from typing import Protocol

from interlock.protocol.records import Event, EventKind


class StreamReads(Protocol):
    """Reads of a tenant's streams. Numbers are 1, 2, 3 … without gaps. No event is in a stream of another tenant; a
    store of one file does not check that, since stream names are unique in it."""

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]: ...

    async def tail(self, tenant_id: str, stream: str, after: int, limit: int
                   ) -> list[tuple[int, EventKind, bytes, int]]:
        """Return what `events` returns, as (n, kind, body, at_ms), for readers of large parts of a stream."""
        return [(one.n, one.kind, one.body, one.at_ms) for one in await self.events(tenant_id, stream, after, limit)]

    async def head(self, tenant_id: str, stream: str) -> int:
        """Return the highest number of the stream; 0 if it is empty."""
        ...

    async def recent_message_ids(self, tenant_id: str, stream: str, limit: int) -> list[str]:
        """Return the message_ids of the last `limit` events of kind C or refused."""
        ...
