"""Authentication: the credential of a request, or its ticket, and the rate limits of both (K-1, K-2, K-3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from starlette.requests import HTTPConnection
from starlette.types import Scope

from interlock.gateway.access.credentials import BROWSER_PREFIX, KEY_PREFIX, OWNER_TENANT, RUNNER_PREFIX
from interlock.gateway.rest.request.auth_failures import Denials, personal_of
from interlock.gateway.rest.request.browser_halves import BROWSER_HEADER, browser_token, cookie_name
from interlock.gateway.rest.request.request_guard import bearer, headers_of
from interlock.gateway.rest.routes import media_ranges, unversioned
from interlock.gateway.rest.service import Front
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

RATE_HEADERS = "interlock.rate_headers"
"""Key of a request's scope: the headers of K-3 for its response."""
CREDENTIAL = "interlock.credential"
"""Key of a request's scope: the token it was accepted with; an open stream ends with it."""
HOPS = "interlock.hops"
"""Set in a request that another gateway forwarded and counted: how many gateways it has passed."""
ADMITTED = "interlock.admitted"
"""Set in an internal request of this gateway for an accepted connection: the credential of that connection, which is
looked up and counted like one in a request."""
SUSPECTS_AT_ONCE = 4
"""Maximum number of parallel look-ups of credentials from addresses above `refused_a_minute`."""
RECEIVED_MS = "interlock.received_ms"
"""Key of a request's scope: the wall time at which it was received."""
TICKET = "ticket"
_NEVER_IN_A_URL = re.compile("|".join((KEY_PREFIX, RUNNER_PREFIX, BROWSER_PREFIX, "eyJ")).encode())


class Authentication:
    """The look-up and counting of a request's principal: refusals count against their address, requests against
    principal and tenant."""

    def __init__(self, front: Front, denials: Denials) -> None:
        self._access = front.access
        self._clock = front.clock
        self._denials = denials
        self._cookie = cookie_name(front.facts.gateway_id)
        self._suspect_slots = asyncio.Semaphore(SUSPECTS_AT_ONCE)

    async def known(self, scope: Scope) -> Principal:
        """Return the principal. Raises Problem Unauthorized, RateLimited, or the one of an issuer's failure."""
        source = str(scope["client"][0]) if scope.get("client") else ""
        now, scope[RECEIVED_MS] = self._clock.monotonic_ms(), self._clock.now_ms()
        if HOPS in scope:
            scope[CREDENTIAL] = bearer(headers_of(scope))
            return await self._access.credentials.principal(scope[CREDENTIAL])
        has_ticket = b"ticket=" in scope["query_string"]
        try:
            principal = await self._principal(scope, source, now)
        except Problem as problem:
            if problem.code == "Unauthorized":
                await self._denials.note(OWNER_TENANT, "unknown", "none", problem.code,
                                         personal_of(HTTPConnection(scope)))
                # Without a credential the answer is 401, however often.
                if has_ticket or ADMITTED in scope or not headers_of(scope).keys().isdisjoint(
                        (b"authorization", BROWSER_HEADER)):
                    self._access.rates.refused(source)
            raise
        scope[RATE_HEADERS] = self._access.rates.take(principal, now)
        return principal

    async def _principal(self, scope: Scope, source: str, now_ms: int) -> Principal:
        query: bytes = scope["query_string"]
        path: str = scope["path"]
        url = path.encode() if not query else b"\n".join((query, unquote_to_bytes(query), path.encode()))
        if _NEVER_IN_A_URL.search(url) is not None:
            raise Problem("Unauthorized", "The URL holds a credential, and logs and histories keep URLs.",
                          hint="Revoke it, and send another as `Authorization: Bearer`.")
        if ADMITTED in scope:
            return await self._admitted(scope)
        ticket = _taken_ticket(scope)
        if ticket is not None:
            async with self._looking(source):
                principal, scope[CREDENTIAL] = await self._access.tickets.spend(ticket, unversioned(path))
            # The key may have been revoked since it requested the ticket.
            await self._access.credentials.principal(scope[CREDENTIAL])
            return principal
        headers = headers_of(scope)
        token = browser_token(headers, self._cookie) if BROWSER_HEADER in headers else bearer(headers)
        if token.startswith(BROWSER_PREFIX) and BROWSER_HEADER not in headers:
            raise Problem("Unauthorized", "A browser session is not a bearer key.")
        scope[CREDENTIAL] = token
        principal = self._access.credentials.known(token, now_ms)
        if principal is None:
            async with self._looking(source):
                principal = await self._access.credentials.principal(token)
        if BROWSER_HEADER in headers:
            await self._access.browsers.note_use(principal.tenant_id, token)
        return principal

    async def _admitted(self, scope: Scope) -> Principal:
        token: str = scope[ADMITTED]
        scope[CREDENTIAL] = token
        principal = await self._access.credentials.principal(token)
        if token.startswith(BROWSER_PREFIX):
            await self._access.browsers.note_use(principal.tenant_id, token)
        return principal

    @asynccontextmanager
    async def _looking(self, source: str) -> AsyncGenerator[None]:
        """Limit look-ups of credentials. A good one is accepted however many bad ones come from its address (a NAT, a
        proxy, a shared host), also just after a restart. So each is looked up; those of an address that sends many bad
        ones run a few at a time, which keeps the ledger free for the others."""
        if not self._access.rates.is_refusing(source):
            yield
            return
        async with self._suspect_slots:
            yield


def _taken_ticket(scope: Scope) -> str | None:
    """Remove the ticket from the URL of a stream, and return its credential; None if there is none, or if it is not
    valid."""
    if b"ticket=" not in scope["query_string"] or b"authorization" in headers_of(scope):
        return None
    pairs: list[tuple[str, str]] = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    found = [value for name, value in pairs if name == TICKET]
    streams = scope["type"] == "websocket" or (
        scope["method"] == "GET" and "text/event-stream" in media_ranges(headers_of(scope).get(b"accept", ())))
    if len(found) != 1 or not streams:
        return None
    scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != TICKET]).encode()
    return found[0]


def rates_beside(scope: Scope, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of K-3 that a response with `headers` lacks."""
    rate_headers: Mapping[str, str] = scope.get(RATE_HEADERS) or {}
    if not rate_headers:
        return []
    has = {name for name, _ in headers}
    written = [(name.lower().encode(), value.encode()) for name, value in rate_headers.items()]
    return [pair for pair in written if pair[0] not in has]
