"""The door: host name, origin, credentials and role, in this order, before anything else is looked at (K-1, K-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from starlette.types import Scope

from interlock.config import GatewaySection
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

Headers = Iterable[tuple[bytes, bytes]]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names that a gateway always answers for, with any port."""

Said = Mapping[bytes, Sequence[str]]
"""A request's headers by their names, each with all its values."""
_SAID = "interlock.said"


def said(scope: Scope) -> Said:
    """Give a request's headers by name: they are gone through once, no matter who asks for them."""
    headers: Headers = scope["headers"]
    known: tuple[Headers, Said] | None = scope.get(_SAID)
    if known is not None and known[0] is headers:  # A scope that was made of another one has headers of its own.
        return known[1]
    found: dict[bytes, list[str]] = {}
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name in found:
            found[name].append(text)
        else:
            found[name] = [text]
    scope[_SAID] = headers, found
    return found


class RequestGuard:
    """Host and origin of every request, WebSocket and plain (K-2)."""

    def __init__(self, config: GatewaySection) -> None:
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in config.hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in config.origins)
        self._tls = config.tls_cert is not None
        self._behind_proxy = config.behind_proxy

    def check(self, headers: Said) -> None:
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
        """Whether a page came from this gateway (J-9): its origin is the name and port that the request itself is for.
        The scheme counts too: over a page that was loaded in clear, the network decides what it does."""
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


def bearer(headers: Said) -> str:
    """Take the token from `Authorization: Bearer`. Raises Problem Unauthorized."""
    found = headers.get(b"authorization", ())
    scheme, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem("Unauthorized", "This request carries no bearer key.")
    return token.strip()


def allow(principal: Principal, roles: frozenset[str]) -> None:
    """Raises Problem Forbidden when the principal's role is not among `roles`."""
    if principal.role not in roles and principal.roles.isdisjoint(roles):
        raise Problem("Forbidden", f"The role {principal.role} may not do this; {', '.join(sorted(roles))} may.")
