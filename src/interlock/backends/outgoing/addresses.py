"""The URLs and addresses that outgoing requests may use: no other machine of the network, and no metadata service."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from interlock.ports.outbound_http import UrlRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL_CHARS = 2_048
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
NOT_OUTSIDE = tuple(map(ipaddress.ip_network, (
    "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10", "3fff::/20", "5f00::/16", "192.88.99.0/24")))
"""Ranges that Python considers public and that are not: forms with an embedded IPv4 address (RFC 4291 2.5.5.1, RFC
2765), a local translator (RFC 8215), site-local addresses, and ranges that were withdrawn or never routed."""
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_OUTSIDE = re.compile(r"[^\x21-\x7e]|\\")


class TargetUrl(NamedTuple):
    """A parsed URL. `path` includes its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Return the value of `Host`."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == {"http": 80, "https": 443}[self.scheme] else f"{name}:{self.port}"


def taken_apart(url: str) -> TargetUrl:
    """Parse a URL as strictly as possible: an ambiguous one is refused. Raises UrlRefused."""
    if len(url) > MAX_URL_CHARS or _OUTSIDE.search(url):
        raise UrlRefused("The URL is too long, or has characters that no URL has.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlRefused(f"The URL cannot be read: {error}.") from None
    if parts.scheme not in ("http", "https"):
        raise UrlRefused("The URL must begin with https://.")
    if "@" in parts.netloc or parts.fragment:
        raise UrlRefused("The URL carries a name, a password or a fragment; leave them out.")
    host = parts.hostname or ""
    if not (_HOST.fullmatch(host) or is_address(host)) or port == 0:
        raise UrlRefused("The URL names no host that can be asked.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return TargetUrl(parts.scheme, host, port or {"http": 80, "https": 443}[parts.scheme], path)


def is_address(host: str) -> bool:
    """Return whether a host is written as an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


class Fence:
    """The permitted addresses: all public ones over https, and those of the allowed networks."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed: list[Network] = [ipaddress.ip_network(text) for text in allowed]

    def check_scheme(self, target: TargetUrl) -> None:
        """Raise UrlRefused for an unencrypted URL that is not allowed."""
        if target.scheme != "https" and not self._allowed:
            raise UrlRefused(f"{target.host} is asked over https only; `outgoing.allow` names networks that may be "
                             "asked in clear.")

    def check(self, target: TargetUrl, address: str) -> None:
        """Raise UrlRefused if the address, or one embedded in it, is not permitted."""
        found = ipaddress.ip_address(address)
        for meant in _meant(found):
            if any(meant in network for network in self._allowed):
                continue
            if target.scheme != "https":
                raise UrlRefused(f"{target.host} is asked over https only; `outgoing.allow` names networks that may be "
                                 "asked in clear.")
            if not meant.is_global or meant.is_multicast or any(meant in inside for inside in NOT_OUTSIDE):
                raise UrlRefused(f"{target.host} is an address inside: private, link-local, loopback or reserved. If "
                                 "it is meant, add its network to `outgoing.allow` in the config.")


def _meant(address: Address) -> list[Address]:
    """Return an address, and the IPv4 addresses that translators would map it to."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    hidden: list[Address] = [address]
    if address.sixtofour is not None:
        hidden.append(address.sixtofour)
    if address.teredo is not None:
        hidden += address.teredo
    if address in NAT64:
        hidden.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return hidden
