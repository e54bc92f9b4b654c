"""Open streams of credentials, server-sent events and WebSockets: ended together with their credential.

A request is authorised when it arrives; a stream stays open, so its principal is looked up repeatedly (K-1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

import structlog

from interlock.config import RatesSection
from interlock.engine.viewers.replays import ReplayReader
from interlock.gateway.access.credentials import Credentials
from interlock.ports.ledger import LedgerError
from interlock.protocol.problems import Problem

CHECK_S = 0.5
"""Interval at which each credential of an open stream is looked up. Revocations by this gateway take effect at once;
those by another one on the same ledger, expiries, and suspended tenants within this and CACHE_MS."""

RETRY_AFTER_S = 5
"""`Retry-After` for a reader with too many open streams."""

Kind = Literal["sse", "websocket"]

log = structlog.get_logger("interlock.gateway")


class OpenStream:
    """An open stream. `lost` is set once its credential has ended."""

    def __init__(self, kind: Kind, token: str) -> None:
        self.kind: Kind = kind
        self.token = token
        self.lost = asyncio.Event()


class _OpenCount:
    """How many of a kind each principal and each tenant has open."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._of_reader: Counter[ReplayReader] = Counter()
        self._of_tenant: Counter[str] = Counter()

    def check(self, reader: ReplayReader, reader_limit: int, tenant_limit: int) -> None:
        """Refuse one more beyond a limit; 0 is none. Raises Problem RateLimited."""
        for whose, count, limit in (("principal", self._of_reader[reader], reader_limit),
                                    ("tenant", self._of_tenant[reader.tenant_id], tenant_limit)):
            if limit and count >= limit:
                raise Problem("RateLimited", f"This {whose} has {limit} {self._kind} open, which is the most it may "
                              "have.",
                              hint=f"Close some, or raise `{whose}_streams` under [rates] in the gateway's config.",
                              headers={"Retry-After": str(RETRY_AFTER_S)})

    def count(self, reader: ReplayReader, more: int) -> None:
        """Count one that was opened or closed. Zero counts are removed: there may be any number of readers over
        time."""
        self._of_reader[reader] += more
        self._of_tenant[reader.tenant_id] += more
        if not self._of_reader[reader]:
            del self._of_reader[reader]
        if not self._of_tenant[reader.tenant_id]:
            del self._of_tenant[reader.tenant_id]


class Openings:
    """All open streams. One task checks them while there are any."""

    def __init__(self, credentials: Credentials, section: RatesSection | None = None) -> None:
        self._credentials = credentials
        self._streams, self._sockets = _OpenCount("streams"), _OpenCount("WebSockets")
        self.configure(section or RatesSection())
        self._open: set[OpenStream] = set()
        self._forgotten = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        credentials.on_forget.connect(self._forgotten.set)

    def counts(self) -> Counter[str]:
        """Return how many there are of each kind."""
        return Counter(opening.kind for opening in self._open)

    def configure(self, section: RatesSection) -> None:
        """Apply other limits; open streams stay open."""
        self._reader_limit, self._tenant_limit = section.principal_streams, section.tenant_streams

    def check(self, reader: ReplayReader) -> None:
        """Refuse a stream beyond the limit of a principal or a tenant. Raises Problem RateLimited."""
        self._streams.check(reader, self._reader_limit, self._tenant_limit)

    @contextmanager
    def counted(self, reader: ReplayReader) -> Generator[None]:
        """Count a stream while it is open. Raises Problem RateLimited."""
        with self._counted(self._streams, reader):
            yield

    @contextmanager
    def counted_socket(self, reader: ReplayReader) -> Generator[None]:
        """Count a WebSocket while it is open, by the same limits and apart from its streams: one that follows none
        also takes a descriptor. Raises Problem RateLimited."""
        with self._counted(self._sockets, reader):
            yield

    @contextmanager
    def _counted(self, open_: _OpenCount, reader: ReplayReader) -> Generator[None]:
        open_.check(reader, self._reader_limit, self._tenant_limit)
        open_.count(reader, 1)
        try:
            yield
        finally:
            open_.count(reader, -1)

    @contextmanager
    def hold(self, kind: Kind, token: str) -> Generator[OpenStream]:
        """Watch a credential while its stream is open."""
        opening = OpenStream(kind, token)
        self._open.add(opening)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="open streams")
        try:
            yield opening
        finally:
            self._open.discard(opening)
            if not self._open and self._watching:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._forgotten.wait()
            self._forgotten.clear()
            for token in {opening.token for opening in self._open}:
                if await self._is_refused(token):
                    self._end(token)

    async def _is_refused(self, token: str) -> bool:
        """Return whether a token is refused. An issuer or a ledger that does not answer refuses no accepted
        credential."""
        try:
            await self._credentials.principal(token)
        except Problem as problem:
            return problem.code == "Unauthorized"
        except LedgerError:
            return False
        return False

    def _end(self, token: str) -> None:
        ended = [opening for opening in self._open if opening.token == token and not opening.lost.is_set()]
        for opening in ended:
            opening.lost.set()
        if ended:
            log.info("streams_ended", reason="their credential is accepted no more", count=len(ended))
