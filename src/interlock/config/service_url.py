"""URLs of services that receive a secret with each request."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def check_service_url(url: str) -> None:
    """Raise ValueError for an `api_url` whose requests others on the network could read, or that another host than the
    apparent one would receive: it must be https, or http to this host only, without a user name."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port  # It is parsed only when it is accessed.
    except ValueError:
        raise ValueError(f"api_url: {url!r} is not a URL") from None
    if not host or "@" in parts.netloc or parts.scheme not in ("https", "http") or (
            parts.scheme == "http" and not is_loopback(host)):
        raise ValueError("api_url: an https URL without a user name; the token is in every request")


def is_loopback(host: str) -> bool:
    """Return whether `host` never leaves this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
