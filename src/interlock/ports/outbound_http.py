"""Requests by the gateway to addresses that a config or a tenant names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class OutboundResponse(NamedTuple):
    """The response; a redirect is a response like any other, and is never followed."""

    status: int
    body: bytes
    retry_after: str | None = None
    """The header Retry-After as it was sent: seconds or a date."""


class UrlRefused(Exception):
    """Raised if the gateway must not send requests to the URL; the text is one sentence with its remedy."""


class Unreached(Exception):
    """Raised if no response arrived in time, or if it exceeded the size limit; the text is one sentence."""


class Outgoing(Protocol):
    """Guarantees: requests are sent only to a public address over https, or to one that the config allows; the
    connection is made to the address that was checked; redirects and proxies of the environment are not followed; body
    and time are bounded. No other code sends requests to configured addresses."""

    def check(self, url: str) -> None:
        """Check the URL without resolving its host name. Raises UrlRefused."""
        ...

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        """Raises UrlRefused or Unreached."""
        ...
