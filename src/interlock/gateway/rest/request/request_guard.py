"""The request guard: address, host name, origin, credentials and role, in this order, before anything else is read
(K-1, K-2)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from starlette.types import Scope

from interlock.config import GatewaySection
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

Headers = Iterable[tuple[bytes, bytes]]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ADDRESSES_KEPT = 1_024
"""Cached addresses: the same few repeat."""
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names that a gateway always accepts, with any port."""

HeaderValues = Mapping[bytes, Sequence[str]]
"""A request's headers by name, each with all its values."""
_HEADERS = "interlock.headers"


def headers_of(scope: Scope) -> HeaderValues:
    """Return a request's headers by name: they are parsed once per request."""
    headers: Headers = scope["headers"]
    known: tuple[Headers, HeaderValues] | None = scope.get(_HEADERS)
    if known is not None and known[0] is headers:  # A derived scope has headers of its own.
        return known[1]
    found: dict[bytes, list[str]] = {}
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name in found:
            found[name].append(text)
        else:
            found[name] = [text]
    scope[_HEADERS] = headers, found
    return found


class _Peer(NamedTuple):
    """The other end of a connection: "" without an address."""

    address: str
    is_proxy: bool
    stranger: bool
    """It uses plain HTTP, and is not allowed to."""


class Peers:
    """The peers that may use a listener without TLS: this machine, and the trusted proxies."""

    def __init__(self, config: GatewaySection) -> None:
        self._clear = config.tls_cert is None
        self._proxies: Sequence[Network] = (
            [ipaddress.ip_network(text) for text in config.trusted_proxies] if config.behind_proxy else []
        )
        self._behind_proxy = config.behind_proxy
        self._known = lru_cache(ADDRESSES_KEPT)(self._peer)

    def source(self, scope: Any) -> str:
        """Return the address that a request comes from, behind trusted proxies. Raises Problem Forbidden for another
        peer without TLS."""
        client, server = scope.get("client"), scope.get("server")
        peer = self._known(client[0] if client else "", str(server[0]) if server else "")
        if peer.stranger:
            raise Problem("Forbidden", "This gateway is spoken to in clear by its proxy only.",
                          hint="Come through the proxy, or add the proxy's address to `gateway.trusted_proxies`.")
        return self._forwarded(headers_of(scope), peer.address) if peer.is_proxy else peer.address

    def _peer(self, client: str, server: str) -> _Peer:
        peer = _address(client)
        if peer is None:
            return _Peer("", is_proxy=False, stranger=False)
        is_proxy = self._is_proxy(peer)
        return _Peer(str(peer), is_proxy, self._clear and not is_proxy and not peer.is_loopback
                     and str(peer) != str(_address(server) or ""))

    def _is_proxy(self, peer: Address) -> bool:
        return self._behind_proxy and (peer.is_loopback or any(peer in network for network in self._proxies))

    def _forwarded(self, headers: HeaderValues, peer: str) -> str:
        """Evaluate X-Forwarded-For from its end: each trusted proxy vouches for the address before its own only."""
        source = peer
        for text in reversed(",".join(headers.get(b"x-forwarded-for", ())).split(",")):
            found = _address(text.strip())
            if found is None:
                break
            source = str(found)
            if not self._is_proxy(found):
                break
        return source


@lru_cache(ADDRESSES_KEPT)
def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A listener on :: sees IPv4 peers as ::ffff:a.b.c.d.
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


class RequestGuard:
    """Checks host and origin of every request, WebSocket or not (K-2)."""

    def __init__(self, config: GatewaySection) -> None:
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in config.hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in config.origins)
        self._tls = config.tls_cert is not None
        self._behind_proxy = config.behind_proxy

    def check(self, headers: HeaderValues) -> None:
        """Raises Problem MisdirectedRequest or Forbidden."""
        named = headers.get(b"host", ())
        if len(named) != 1 or not self._answers_for(named[0].lower()):
            shown = named[0] if len(named) == 1 else "no single host"
            raise Problem("MisdirectedRequest", f"This gateway does not answer for {shown!r}.")
        for origin in headers.get(b"origin", ()):
            if origin.lower() not in self._origins and not self._is_own(origin.lower(), named[0].lower()):
                raise Problem("Forbidden", f"Pages of {origin!r} may not use this gateway.",
                              hint="Add the origin to `gateway.origins` in the config.")

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether a page came from this gateway (J-9): its origin is the name and port of the request itself.
        The scheme counts too: the network controls a page that was loaded without TLS."""
        scheme, _, place = origin.partition("://")
        if place != host:
            return False
        if self._tls:
            return scheme == "https"
        if not self._behind_proxy:
            return scheme == "http"
        name, port, _ = host.rpartition(":")
        return scheme == "https" or (scheme == "http" and bool(port) and name in LOOPBACK_NAMES)

    def is_secure(self, host: str) -> bool:
        """Return whether a request for `host` reaches this gateway, or the proxy before it, over TLS."""
        return self._tls or (self._behind_proxy and host.rpartition(":")[0] not in LOOPBACK_NAMES
                             and host not in LOOPBACK_NAMES)

    def _answers_for(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host, ""
        return (not port or port.isdigit()) and (name in self._hosts or host in self._hosts)


def bearer(headers: HeaderValues) -> str:
    """Return the token of `Authorization: Bearer`. Raises Problem Unauthorized."""
    found = headers.get(b"authorization", ())
    scheme, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem("Unauthorized", "This request carries no bearer key.")
    return token.strip()


def allow(principal: Principal, roles: frozenset[str]) -> None:
    """Raises Problem Forbidden when the principal's role is not among `roles`."""
    if principal.role not in roles and principal.roles.isdisjoint(roles):
        raise Problem("Forbidden", f"The role {principal.role} may not do this; {', '.join(sorted(roles))} may.")
