"""The hosts that a boxed agent may reach, by name, and the allowed addresses (H-19). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

PROXY_PORT = 7419
"""Port of the proxy, on the loopback of the agent's own network."""
TLS_PORT = 443
MAX_ENTRIES = 64
MAX_NAME_CHARS = 253
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_TRANSLATED = tuple(IPv6Network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
"""IPv6 addresses that contain an IPv4 address, which may be any."""


class Endpoint(NamedTuple):
    """A host and a port that may be reached. `tls`: the first bytes must name the same host. `anywhere`: the config
    names it as a model's host, so its name may resolve to a private or loopback address."""

    host: str
    port: int
    tls: bool = True
    anywhere: bool = False

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


class Reach(NamedTuple):
    """The hosts that an agent may reach; all others are refused. `ports` are open to any public host by name."""

    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[int, ...] = ()

    def find(self, host: str, port: int) -> Endpoint | None:
        """Return the endpoint that allows a host (in the form of `normal`) and port; None if there is none."""
        for endpoint in self.endpoints:
            if (endpoint.host, endpoint.port) == (host, port):
                return endpoint
        return Endpoint(host, port, tls=port == TLS_PORT) if port in self.ports and address_of(host) is None else None

    @property
    def local(self) -> tuple[Endpoint, ...]:
        """Return the models on the runner's own loopback, each reached at the same port of the agent's own."""
        return tuple(one for one in self.endpoints if one.anywhere and is_loopback_name(one.host))

    @property
    def listening(self) -> tuple[int, ...]:
        """Return the ports to listen on in the agent's network."""
        if not self.endpoints and not self.ports:
            return ()
        return tuple(dict.fromkeys((PROXY_PORT, *(one.port for one in self.local if one.port != PROXY_PORT))))

    def __str__(self) -> str:
        return ", ".join((*map(str, self.endpoints), *(f"any public host at port {port}" for port in self.ports)))


def normal(host: str) -> str | None:
    """Return the canonical spelling of a host: lower case, no trailing dot, an address as `ipaddress` writes it; None
    if it is neither a name nor an address."""
    address = address_of(host)
    if address is not None:
        return str(address)
    name = host.lower().removesuffix(".")
    if len(name) > MAX_NAME_CHARS or _NAME.fullmatch(name) is None:
        return None
    # A text that a resolver may read as an address in another spelling (0x7f.1, 2130706433) is not a name.
    return None if re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)", name.rsplit(".", 1)[-1]) else name


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address of a host that is one; None for a name."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_loopback_name(host: str) -> bool:
    """Return whether a host's spelling means this machine's loopback."""
    address = address_of(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def is_public(text: str) -> bool:
    """Return whether an address is public: not this machine's, a private network's or a cloud's metadata service."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif any(address in network for network in _TRANSLATED):
            return False
    return address.is_global and not address.is_multicast


def may_connect(endpoint: Endpoint, address: str) -> bool:
    """Return whether an endpoint's host may be reached at an address of its name."""
    return endpoint.anywhere or is_public(address) or address_of(endpoint.host) is not None


def from_url(url: str) -> Endpoint:
    """Parse a model's base URL. Raises ValueError with one clause."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = normal(parts.hostname or "")
    if parts.scheme not in ("http", "https") or host is None:
        raise ValueError(f"{url!r} is not an http or https URL with a host")
    tls = parts.scheme == "https"
    return Endpoint(host, parts.port or (TLS_PORT if tls else 80), tls=tls and address_of(host) is None, anywhere=True)


def from_entries(entries: Iterable[str]) -> Reach:
    """Parse a list of the config: hosts (`api.example.com`, at port 443), hosts with a port, ports. Raises ValueError
    with one sentence."""
    endpoints: list[Endpoint] = []
    ports: list[int] = []
    for entry in entries:
        host, port = _split(entry)
        if host is None:
            ports.append(port)
            continue
        if is_loopback_name(host) or host in ("0.0.0.0", "::"):
            raise ValueError(f"network: {entry!r} is this machine itself, which a box keeps from its agent; a model "
                             "that runs here is reached by its base URL with network = \"model\"")
        endpoints.append(Endpoint(host, port, tls=port == TLS_PORT and address_of(host) is None))
    if len(endpoints) + len(ports) > MAX_ENTRIES:
        raise ValueError(f"network: {len(endpoints) + len(ports)} entries are more than {MAX_ENTRIES}")
    return Reach(tuple(dict.fromkeys(endpoints)), tuple(dict.fromkeys(ports)))


def _split(entry: str) -> tuple[str | None, int]:
    named, colon, number = entry.rpartition(":")
    if entry.isdecimal():
        named, number = "", entry
    elif not colon or address_of(entry) is not None or entry.endswith("]"):
        named, number = entry, str(TLS_PORT)
    host = normal(named) if named else None
    is_port = number.isdecimal() and 0 < int(number) < 65_536
    if not entry or not is_port or (named and host is None) or (colon and not named):
        raise ValueError(f"network: {entry!r} is neither a host, host:port nor a port; write \"api.example.com\", "
                         "\"example.com:8443\" or \"443\"")
    return host, int(number)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
