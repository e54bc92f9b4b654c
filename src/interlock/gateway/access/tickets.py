"""Tickets by which a browser opens a stream: it cannot send headers there, and a key is never part of a URL (K-2)."""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from interlock.gateway.access.credentials import digest
from interlock.ports.bus import BusError
from interlock.ports.clock import Clock, Entropy
from interlock.protocol.access import StreamTicket
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

TICKET_PREFIX = "ilt_"
TICKET_BYTES = 32
TICKET_LIFE_MS = 30_000
MAX_TICKETS = 10_000
"""Open tickets at one time; a further one is answered 429 QuotaExceeded."""
MAX_OWN_TICKETS = 100
"""Open tickets of one principal."""


_ISSUER = re.compile(r"[A-Za-z0-9_]{1,64}")
_asked = msgspec.msgpack.Decoder(tuple[str, str])
_spent = msgspec.msgpack.Decoder(tuple[Principal, str])


class Tickets:
    """Open tickets, by their SHA-256. They exist in this process only: a restart ends them, and a page requests a new
    one. One that is presented to another gateway of the cluster is redeemed here."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._instance_id: Callable[[], str] = lambda: ""
        self._ask: Callable[[str, bytes], Awaitable[bytes]] | None = None
        self._clock = clock
        self._entropy = entropy
        self._open: OrderedDict[str, tuple[int, Principal, str, str]] = OrderedDict()

    def join(self, instance_id: Callable[[], str], ask: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        """Name this gateway in each ticket, since there are others. `ask` has the gateway that issued a ticket redeem
        it, with the result of `spend_for`; it raises BusError."""
        self._instance_id, self._ask = instance_id, ask

    def give(self, principal: Principal, path: str, token: str) -> StreamTicket:
        """Issue a ticket that opens `path` once, as the principal whose `token` requested it. Raises Problem
        QuotaExceeded."""
        now = self._clock.monotonic_ms()
        while self._open and next(iter(self._open.values()))[0] <= now:
            self._open.popitem(last=False)
        own = sum(holder == principal for _, holder, _, _ in self._open.values())
        if own >= MAX_OWN_TICKETS or len(self._open) >= MAX_TICKETS:
            raise Problem("QuotaExceeded", "Too many tickets are open.", hint="Each is over after 30 seconds.",
                          headers={"Retry-After": str(TICKET_LIFE_MS // 1000)})
        issuer = self._instance_id()
        secret = base64.urlsafe_b64encode(self._entropy(TICKET_BYTES)).rstrip(b"=").decode()
        ticket = TICKET_PREFIX + (issuer + "." if issuer else "") + secret
        self._open[digest(ticket)] = (now + TICKET_LIFE_MS, principal, path, token)
        return StreamTicket(ticket=ticket, path=path, expires_at=iso(self._clock.now_ms() + TICKET_LIFE_MS))

    async def spend(self, ticket: str, path: str) -> tuple[Principal, str]:
        """Redeem a ticket; returns its principal and the token it was issued for: its stream ends with that one. It is
        used up by the first try, for whatever path, at whatever gateway. Raises Problem Unauthorized."""
        issuer, dot, _ = ticket.removeprefix(TICKET_PREFIX).partition(".")
        if not dot or self._ask is None or issuer == self._instance_id() or not _ISSUER.fullmatch(issuer):
            return self._spend(ticket, path)
        try:
            spent = await self._ask(issuer, msgspec.msgpack.encode((ticket, path)))
        except BusError:
            spent = b""  # The gateway that issued it is gone, and the ticket with it.
        if not spent:
            raise _refused()
        return _spent.decode(spent)

    async def spend_for(self, request: bytes) -> bytes:
        """Redeem a ticket that was presented to another gateway; b"" if it is invalid."""
        try:
            return msgspec.msgpack.encode(self._spend(*_asked.decode(request)))
        except Problem:
            return b""

    def _spend(self, ticket: str, path: str) -> tuple[Principal, str]:
        good = self._open.pop(digest(ticket), None)
        if good is None or good[0] <= self._clock.monotonic_ms() or good[2] != path:
            raise _refused()
        return good[1], good[3]


def _refused() -> Problem:
    return Problem("Unauthorized", "This ticket is not known, was used, is over, or is for another path.",
                   hint="Ask for another: `POST /v1/stream-tickets`.")
