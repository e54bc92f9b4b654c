"""Search of the audit log: by actor, action, object and time (J-13, Y-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from interlock.command.audit.audit import ACTIONS
from interlock.gateway.rest.routes import ApiRequest
from interlock.protocol.access import GIVEN_ROLES, named_roles
from interlock.protocol.clock import parse_iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditRecord

NAMES = ("actor", "action", "command", "session", "approval", "from", "to")
"""The parameters of a search."""
CLOCK_SLACK_MS = 3_600_000
"""Records are in the order of their numbers; a clock that was set back may date a later one earlier by at most this."""


class _Who(msgspec.Struct):
    id: str = ""
    role: str = ""


class _Searched(msgspec.Struct):
    at: str
    who: _Who
    action: str
    command_id: str | None = None
    session_id: str | None = None
    approval_id: str | None = None


_searched = msgspec.json.Decoder(_Searched)


class AuditSearch(NamedTuple):
    """The search criteria; None matches all. Times are Unix milliseconds, the end exclusive."""

    actor: str | None
    action: str | None
    command: str | None
    session: str | None
    approval: str | None
    from_ms: int | None
    to_ms: int | None

    @property
    def test(self) -> Callable[[AuditRecord], bool] | None:
        """Return the test of a record; None if every record matches."""
        return self._fits if any(one is not None for one in self) else None

    def is_before(self, record: AuditRecord) -> bool:
        """Return whether a record, and so each one before it, is older than the search."""
        return self.from_ms is not None and parse_iso(_read(record).at) < self.from_ms - CLOCK_SLACK_MS

    def is_after(self, record: AuditRecord) -> bool:
        """Return whether a record, and so each one after it, is younger than the search."""
        return self.to_ms is not None and parse_iso(_read(record).at) >= self.to_ms + CLOCK_SLACK_MS

    def _fits(self, record: AuditRecord) -> bool:
        found = _read(record)
        return (self.action in (None, found.action) and self.command in (None, found.command_id)
                and self.session in (None, found.session_id) and self.approval in (None, found.approval_id)
                and (self.actor is None or is_named(self.actor, found.who.id, found.who.role))
                and self._is_within(found.at))

    def _is_within(self, at: str) -> bool:
        if self.from_ms is None and self.to_ms is None:
            return True
        at_ms = parse_iso(at)
        return (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms < self.to_ms)


def search_of(call: ApiRequest) -> AuditSearch:
    """Read a search from the query. Raises Problem InvalidPayload."""
    action = call.text("action")
    if action is not None and action not in ACTIONS:
        raise Problem("InvalidPayload", f"There is no action {action!r} in the audit log.",
                      errors=(Place("action", "not a known action"),), hint=f"Known: {', '.join(sorted(ACTIONS))}.")
    return AuditSearch(call.text("actor"), action, call.text("command"), call.text("session"), call.text("approval"),
                       _instant(call, "from"), _instant(call, "to"))


def is_named(wanted: str, who: str, role: str) -> bool:
    """Return whether an actor matches: `ann` finds `user:ann`, and `user:ann` no agent of that name. `user:ann` finds a
    plain `ann` with a role of a key: so earlier versions recorded who read the log, paired a runner or was refused."""
    if who == wanted:
        return True
    if ":" not in wanted:
        return who.partition(":")[2] == wanted
    return ":" not in who and wanted.partition(":")[2] == who and not named_roles(role).isdisjoint(GIVEN_ROLES)


def _instant(call: ApiRequest, name: str) -> int | None:
    text = call.text(name)
    if text is None:
        return None
    try:
        return parse_iso(text)
    except (ValueError, OverflowError):
        raise Problem("InvalidPayload", f"`{name}` is an ISO 8601 instant, such as 2026-11-23T08:00:00Z.",
                      errors=(Place(name, "not an instant"),)) from None


def _read(record: AuditRecord) -> _Searched:
    return _searched.decode(record.body)
