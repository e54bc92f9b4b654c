"""Check a gateway's URL as typed, before the HTTP client is imported."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from interlock.cli.verb_error import usage

EXAMPLE = "http://127.0.0.1:7420"
_ADDRESS = re.compile(r"(?:(wss?)://)?([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(?:/rawp)?/?")
"""The address of a link, which a runner dials, and an address without a scheme."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def checked_url(text: str) -> str:
    """Check a gateway's URL, and return it without a trailing slash. Raises Trouble."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise usage(f"{text!r} is not a URL: {error}.", f"Write it as {EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise usage(f"{text!r} is not the URL of a gateway.", f"Write it as {_as_http(text)}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise usage("A gateway's URL carries no name, password, query or fragment.",
                    "Give the key in $INTERLOCK_KEY.")
    return text.rstrip("/")


def _as_http(text: str) -> str:
    """Return the URL that was probably meant, or else an example."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        return EXAMPLE
    clear = match[1] == "ws" or (match[1] is None and match[2] in _LOOPBACK)
    return f"http{'' if clear else 's'}://{match[2]}{match[3] or ''}"
