"""Delays between attempts at a link (L-5), and checks of the addresses that may be dialled (L-2). Pure."""

from __future__ import annotations

import os
import re
import socket
from urllib.parse import urlsplit

from interlock.config.service_url import is_loopback
from interlock.ports.clock import Entropy
from interlock.protocol.limits import RECONNECT_MAX_MS, RECONNECT_MIN_MS

RAWP_PATH = "/rawp"
_CONNECT_FAILED = re.compile(r"\[Errno (\d+)\] Connect call failed")
"""The text of asyncio for each address of a host that it could not connect to."""


class UnsafeUrl(ValueError):
    """The token must not be sent to this gateway URL; the text is one sentence for the user."""


class Backoff:
    """Exponential delays with full jitter: before attempt n, uniform in 0 … min(most, least · 2^n) ms (L-5)."""

    def __init__(self, entropy: Entropy, least_ms: int = RECONNECT_MIN_MS, most_ms: int = RECONNECT_MAX_MS) -> None:
        self._entropy = entropy
        self._least_ms = least_ms
        self._most_ms = most_ms
        self._ceiling_ms = least_ms

    def reset(self) -> None:
        """Start again with the shortest delay, after a link was established."""
        self._ceiling_ms = self._least_ms

    def yield_way(self, ceiling_ms: int) -> None:
        """Wait long after another runner opened the link with the same token, or the two would alternate."""
        self._ceiling_ms = ceiling_ms

    def next_ms(self) -> int:
        """Draw the delay before the next attempt, in milliseconds."""
        ceiling, self._ceiling_ms = self._ceiling_ms, max(self._least_ms, min(self._ceiling_ms * 2, self._most_ms))
        return int.from_bytes(self._entropy(4), "big") * ceiling >> 32


def rawp_url(url: str) -> str:
    """Return the URL at which a gateway with this address accepts its runners' links."""
    return url.replace("http", "ws", 1).rstrip("/") + RAWP_PATH if url.startswith("http") else url


def moved_url(old: str, place: str) -> str:
    """Return the URL of the gateway at `place`, which the gateway at `old` named. Raises UnsafeUrl, also for one
    without TLS if the old one has TLS: else a gateway could send a token to any program on the runner's own machine."""
    url = rawp_url(place)
    check_url(url)
    if old.startswith("wss:") and not url.startswith("wss:"):
        raise UnsafeUrl(f"The gateway's new address {place!r} has no TLS, unlike the old one.")
    return url


def check_url(url: str) -> str:
    """Return the host of a URL that may be dialled. Raises UnsafeUrl (L-2: only TLS beyond loopback)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise UnsafeUrl(f"The gateway's URL {url!r} cannot be read: {error}.") from None
    if parts.scheme not in ("ws", "wss") or not host:
        raise UnsafeUrl(f"The gateway's URL {url!r} is not of the form wss://HOST/rawp.")
    if parts.scheme == "ws" and not is_loopback(host):
        raise UnsafeUrl(f"The runner does not send its token in clear to {host}: use wss:// instead of ws://.")
    return host


def failed_dial(error: Exception) -> str:
    """Return in words why a gateway could not be dialled, without a number or a full stop."""
    if numbers := _CONNECT_FAILED.findall(str(error)):
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror
    return str(error).rstrip(".")
