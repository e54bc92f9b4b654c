"""What keys travel over: TLS in the gateway, or a proxy of known address in front of it (L-2)."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from interlock.config import GatewaySection
from interlock.gateway.rest.request_guard import Said, said
from interlock.protocol.problems import Problem

ADDRESSES_KEPT = 1_024
"""Addresses that were read last: the same few ask again and again."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BindRefused(Exception):
    """The address cannot be listened on; the text is one sentence with its remedy."""


def may_be_public(config: GatewaySection) -> bool:
    """Tell whether a public address may be bound: with TLS, or behind proxies whose addresses are known."""
    return config.tls_cert is not None or bool(config.behind_proxy and config.trusted_proxies)


def tls_context(config: GatewaySection) -> ssl.SSLContext | None:
    """Read certificate and key, or None where TLS is not set. Raises BindRefused."""
    if config.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, config)
    return context


def load_certificate(context: ssl.SSLContext, config: GatewaySection) -> None:
    """Read certificate and key, also again into a context in use: new connections get them. Raises BindRefused."""
    cert, key = (Path(str(path)).expanduser() for path in (config.tls_cert, config.tls_key))
    for path in (cert, key):
        if not path.is_file():
            raise BindRefused(f"There is no file {path}; correct `gateway.tls_cert` and `gateway.tls_key`.")
    try:
        # An empty password: a key that is encrypted is an error, not a question on the terminal.
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BindRefused(f"The certificate {cert} and the key {key} cannot be used: {error}; both are PEM files that "
                          "belong together, the key not encrypted.") from None


class _Peer(NamedTuple):
    """Who is at the other end of a connection: "" is no one who has an address."""

    address: str
    is_proxy: bool
    stranger: bool
    """Speaks in clear, and may not."""


class Peers:
    """Who may speak to a listener in clear, and for whom: this machine, and the proxies that are trusted."""

    def __init__(self, config: GatewaySection) -> None:
        self._clear = config.tls_cert is None
        self._proxies: Sequence[Network] = (
            [ipaddress.ip_network(text) for text in config.trusted_proxies] if config.behind_proxy else []
        )
        self._behind_proxy = config.behind_proxy
        self._known = lru_cache(ADDRESSES_KEPT)(self._peer)

    def source(self, scope: Any) -> str:
        """Give the address that a request comes from, seen past trusted proxies. Raises Problem Forbidden for a
        stranger who speaks in clear."""
        client, server = scope.get("client"), scope.get("server")
        peer = self._known(client[0] if client else "", str(server[0]) if server else "")
        if peer.stranger:
            raise Problem("Forbidden", "This gateway is spoken to in clear by its proxy only.",
                          hint="Come through the proxy, or add the proxy's address to `gateway.trusted_proxies`.")
        return self._forwarded(said(scope), peer.address) if peer.is_proxy else peer.address

    def _peer(self, client: str, server: str) -> _Peer:
        peer = _address(client)
        if peer is None:
            return _Peer("", is_proxy=False, stranger=False)
        is_proxy = self._is_proxy(peer)
        return _Peer(str(peer), is_proxy, self._clear and not is_proxy and not peer.is_loopback
                     and str(peer) != str(_address(server) or ""))

    def _is_proxy(self, peer: Address) -> bool:
        return self._behind_proxy and (peer.is_loopback or any(peer in network for network in self._proxies))

    def _forwarded(self, headers: Said, peer: str) -> str:
        """Read X-Forwarded-For from its end: each trusted proxy vouches for the address before its own, no other."""
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

