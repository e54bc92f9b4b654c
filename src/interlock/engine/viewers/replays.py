"""Scheduling of ledger pages for viewers that are not live yet (S-1, S-4).

A viewer far behind is read to in pages, and each page is held in memory until it is written to its reader. So few pages
are under way at a time: some of each reader's streams, some of a tenant's, some of all. Waiting viewers take turns by
reader, so that a reader that opens a thousand streams delays only itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from typing import NamedTuple

PAGES_AT_ONCE = 8
"""Pages under way, of all readers together."""
PAGES_OF_TENANT = 4
PAGES_OF_READER = 2
REST_MAX_S = 0.05
"""While viewers wait, the next page begins as long after the last one as that took, up to this: half of the processor's
time is left to commands."""
HOLD_S = 1.0
"""Maximum time for which a page counts as in progress: a slower reader does not delay the others."""


class ReplayReader(NamedTuple):
    """The reader that a viewer reads for."""

    tenant_id: str = ""
    actor: str = ""


NOBODY = ReplayReader()


class PageTurn:
    """Permission to have one page under way. `end` may be called more than once."""

    def __init__(self, replays: Replays, reader: ReplayReader) -> None:
        self._replays = replays
        self._reader = reader
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self._timer = loop.call_later(HOLD_S, self.end)
        self._ended = False

    def end(self) -> None:
        """End the turn: the page is written, or is no longer awaited."""
        if not self._ended:
            self._ended = True
            self._timer.cancel()
            self._replays.ended(self._reader, asyncio.get_running_loop().time() - self._began)


class Replays:
    """The scheduler of turns. There are never more than the limits allow; no viewer waits while there are fewer."""

    def __init__(self) -> None:
        self._under_way: Counter[ReplayReader] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._rest: asyncio.TimerHandle | None = None
        self._waiting: OrderedDict[ReplayReader, deque[asyncio.Future[None]]] = OrderedDict()
        """The waiting viewers, by reader; the reader that had a turn last is the last one."""

    @property
    def resting(self) -> bool:
        """Return whether the waiting viewers continue in a moment."""
        return self._rest is not None

    @property
    def waiting(self) -> int:
        """Return how many wait for a turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def under_way(self) -> int:
        """Return how many pages are under way."""
        return self._under_way.total()

    async def turn(self, reader: ReplayReader) -> PageTurn:
        """Wait for a turn, and take it."""
        if reader not in self._waiting and self._has_room(reader):
            self._begin(reader)
            return PageTurn(self, reader)
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(reader, deque()).append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.ended(reader)  # The turn was granted, and its waiter is gone.
            else:
                self._forget(reader, waiting)
            raise
        return PageTurn(self, reader)

    def ended(self, reader: ReplayReader, took_s: float = 0.0) -> None:
        """Record the end of a page; waiting viewers continue in a moment."""
        self._under_way[reader] -= 1
        self._of_tenant[reader.tenant_id] -= 1
        if not self._under_way[reader]:
            del self._under_way[reader]
        if not self._of_tenant[reader.tenant_id]:
            del self._of_tenant[reader.tenant_id]
        if self._waiting and self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(min(took_s, REST_MAX_S), self._go_on)

    def _go_on(self) -> None:
        self._rest = None
        for one in list(self._waiting):
            if self.under_way >= PAGES_AT_ONCE:
                return
            if self._has_room(one):
                self._grant(one)

    def _grant(self, reader: ReplayReader) -> None:
        queue = self._waiting.pop(reader)
        while queue:
            waiting = queue.popleft()
            if not waiting.done():  # Otherwise its task was cancelled a moment ago, and has not run since.
                self._begin(reader)
                waiting.set_result(None)
                break
        if queue:
            self._waiting[reader] = queue

    def _has_room(self, reader: ReplayReader) -> bool:
        return (self.under_way < PAGES_AT_ONCE and self._of_tenant[reader.tenant_id] < PAGES_OF_TENANT
                and self._under_way[reader] < PAGES_OF_READER)

    def _begin(self, reader: ReplayReader) -> None:
        self._under_way[reader] += 1
        self._of_tenant[reader.tenant_id] += 1

    def _forget(self, reader: ReplayReader, waiting: asyncio.Future[None]) -> None:
        queue = self._waiting.get(reader, deque())
        if waiting in queue:
            queue.remove(waiting)
        if not queue:
            self._waiting.pop(reader, None)
