"""Requests that the gateway itself makes to addresses that a config or a tenant names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class OutboundResponse(NamedTuple):
    """What came back; a redirect is an answer like any other, and is never followed."""

    status: int
    body: bytes
    retry_after: str | None = None
    """The header Retry-After as it was sent: seconds or a date."""


class UrlRefused(Exception):
    """The URL leads where nothing of this gateway goes; the text is one sentence with its remedy."""


class Unreached(Exception):
    """No one answered within the time, or the answer was larger than it may be; the text is one sentence."""


class Outgoing(Protocol):
    """Guarantees: a request goes to a public address over https, or to one that the config allows; the address that
    was checked is the one that is connected to; redirects and proxies of the environment are not followed; body and
    time are bounded. Nothing else makes requests to addresses that somebody names."""

    def check(self, url: str) -> None:
        """Refuse what the URL alone shows to be wrong, without looking its name up. Raises UrlRefused."""
        ...

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        """Raises UrlRefused or Unreached."""
        ...
