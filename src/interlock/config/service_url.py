"""URLs of services that a secret is sent to with each request."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def check_service_url(name: str, url: str) -> None:
    """Raises ValueError for a URL whose requests others on the network could read, or that another host than the one
    which it seems to name would receive: it is https, or http to this host alone, and has no user name in it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port  # It is read only when it is asked for.
    except ValueError:
        raise ValueError(f"{name}: {url!r} is not a URL") from None
    if not host or "@" in parts.netloc or parts.scheme not in ("https", "http") or (
            parts.scheme == "http" and not _is_loopback(host)):
        raise ValueError(f"{name}: an https URL without a user name; the token is in every request")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
