"""The door: host name, origin, credentials and role, in this order, before anything else is looked at (K-1, K-2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

Headers = Iterable[tuple[bytes, bytes]]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names that a gateway always answers for, with any port."""

READERS = frozenset({"viewer", "operator", "approver", "auditor", "admin", "owner"})
OPERATORS = frozenset({"operator", "admin", "owner"})
APPROVERS = frozenset({"approver", "admin", "owner"})
ADMINS = frozenset({"admin", "owner"})
AUDITORS = frozenset({"auditor", "admin", "owner"})
OWNERS = frozenset({"owner"})
EVERYBODY = READERS | {"runner"}
RAW_VIEWERS = frozenset({"operator", "auditor", "admin", "owner"})
"""Who may ask for the raw view (S-6)."""


def values(headers: Headers, name: bytes) -> list[str]:
    """Give all values of a header."""
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


class Door:
    """Host and origin of every request, WebSocket and plain (K-2)."""

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    def check(self, headers: Headers) -> None:
        """Raises Problem MisdirectedRequest or Forbidden."""
        headers = list(headers)
        named = values(headers, b"host")
        if len(named) != 1 or not self._answers_for(named[0].lower()):
            shown = named[0] if len(named) == 1 else "no single host"
            raise Problem("MisdirectedRequest", f"This gateway does not answer for {shown!r}.")
        for origin in values(headers, b"origin"):
            if origin.lower() not in self._origins:
                raise Problem("Forbidden", f"Pages of {origin!r} may not use this gateway.",
                              hint="Add the origin to `gateway.origins` in the config.")

    def _answers_for(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host, ""
        return (not port or port.isdigit()) and (name in self._hosts or host in self._hosts)


def bearer(headers: Headers) -> str:
    """Take the token from `Authorization: Bearer`. Raises Problem Unauthorized."""
    found = values(headers, b"authorization")
    scheme, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem("Unauthorized", "This request carries no bearer key.")
    return token.strip()


def allow(principal: Principal, roles: frozenset[str]) -> None:
    """Raises Problem Forbidden when the principal's role is not among `roles`."""
    if principal.roles.isdisjoint(roles):
        raise Problem("Forbidden", f"The role {principal.role} may not do this; {', '.join(sorted(roles))} may.")
