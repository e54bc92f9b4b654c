"""What a restored ledger lacks, as far as this gateway has found it since its start: for the log, `status`, `doctor`.

The audit log has a record `ledger_restored` of each finding; this list is for people who look now.
"""

from __future__ import annotations

from interlock.protocol.answers import MissingSession, RestoredLedger

SESSIONS_LISTED = 100
"""Sessions of a tenant that are named; the others are counted."""
TOLD_APART = 10_000
"""Findings of a tenant that are known again; one beyond them counts each time it is found."""


class Setbacks:
    """By tenant."""

    def __init__(self) -> None:
        self._found: dict[str, RestoredLedger] = {}
        self._seen: dict[str, set[tuple[object, ...]]] = {}
        self.held: set[str] = set()
        """The tenants of which nothing may start: commands of theirs that may have run are not closed yet."""

    def of(self, tenant_id: str) -> RestoredLedger | None:
        """Return what is known to be missing; None if nothing is."""
        return self._found.get(tenant_id)

    def hold(self, tenant_id: str) -> None:
        """Start nothing of a tenant: its commands that may have run already are not closed yet."""
        self.held.add(tenant_id)

    def release(self, tenant_id: str) -> None:
        """They are closed."""
        self.held.discard(tenant_id)

    def records(self, tenant_id: str, signed: int, kept: int) -> None:
        """Note that `signed` audit records were signed and only `kept` are there."""
        found = self._of(tenant_id)
        found.records_signed, found.records_kept = signed, kept

    def session(self, tenant_id: str, missing: MissingSession) -> bool:
        """Note what a session lacks; returns whether that is news: a runner repeats in each hello which sessions it
        has. Beyond SESSIONS_LISTED sessions are only counted."""
        found, seen = self._of(tenant_id), self._seen.setdefault(tenant_id, set())
        this = (missing.session_id, missing.runner_id, missing.known, missing.frames, missing.controls,
                len(missing.commands))
        if this in seen:
            return False
        if len(seen) < TOLD_APART:
            seen.add(this)
        found.session_count += 1
        found.commands_closed += len(missing.commands)
        if len(found.sessions) < SESSIONS_LISTED:
            found.sessions.append(missing)
        return True

    def commands(self, tenant_id: str, count: int) -> None:
        """Note how many commands were closed because no one knows the outcome of them."""
        self._of(tenant_id).commands_closed += count

    def _of(self, tenant_id: str) -> RestoredLedger:
        return self._found.setdefault(tenant_id, RestoredLedger())
