"""Check a gateway's URL as typed, before the HTTP client is imported."""

from __future__ import annotations

from urllib.parse import urlsplit

from interlock.cli.verb_error import usage


def checked_url(text: str) -> str:
    """Check a gateway's URL, and return it without a trailing slash. Raises Trouble."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise usage(f"{text!r} is not a URL: {error}.", "Write it as http://127.0.0.1:7420") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise usage(f"{text!r} is not the URL of a gateway.", "Write it as http://127.0.0.1:7420")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise usage("A gateway's URL carries no name, password, query or fragment.",
                    "Give the key in $INTERLOCK_KEY.")
    return text.rstrip("/")
