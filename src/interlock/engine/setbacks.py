"""What a restored ledger lacks, as found by gateways since their start: for the log, `status`, `doctor`.

The audit log has a record `ledger_restored` of each finding; this list is for people who look now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from interlock.protocol.answers import MissingSession, RestoredLedger

SESSIONS_LISTED = 100
"""Sessions of a tenant that are listed; further ones are counted."""
FINDINGS_KNOWN = 10_000
"""Findings of a tenant that are recognised as repetitions; one beyond them counts each time it is found."""

Findings = Sequence[RestoredLedger]


class Setbacks:
    """The findings, by tenant."""

    def __init__(self) -> None:
        self._ask: Callable[[str], Awaitable[Findings]] | None = None
        self._found: dict[str, RestoredLedger] = {}
        self._seen: dict[str, set[tuple[object, ...]]] = {}
        self.held: set[str] = set()
        """The tenants for which nothing may start: their commands that may have run are not closed yet."""

    def of(self, tenant_id: str) -> RestoredLedger | None:
        """Return what this gateway knows to be missing; None if nothing is."""
        return self._found.get(tenant_id)

    def ask_by(self, ask: Callable[[str], Awaitable[Findings]]) -> None:
        """Set `ask`, which returns the findings of the other gateways of the cluster for a tenant."""
        self._ask = ask

    async def anywhere(self, tenant_id: str) -> RestoredLedger | None:
        """Return what any gateway knows to be missing; None if nothing is. A runner reports to the gateway that it is
        attached to, and behind a balancer any of them answers a person."""
        own = self._found.get(tenant_id)
        others = await self._ask(tenant_id) if self._ask is not None else ()
        return merged([*([own] if own is not None else []), *others])

    def hold(self, tenant_id: str) -> None:
        """Start nothing for a tenant: its commands that may have run already are not closed yet."""
        self.held.add(tenant_id)

    def release(self, tenant_id: str) -> None:
        """Allow work for the tenant again: its commands are closed."""
        self.held.discard(tenant_id)

    def records(self, tenant_id: str, signed: int, kept: int) -> None:
        """Record that `signed` audit records were signed and only `kept` exist."""
        found = self._of(tenant_id)
        found.records_signed, found.records_kept = signed, kept

    def session(self, tenant_id: str, missing: MissingSession) -> bool:
        """Record what a session lacks; returns whether that is new: a runner repeats its sessions in each hello. Beyond
        SESSIONS_LISTED, sessions are only counted."""
        found, seen = self._of(tenant_id), self._seen.setdefault(tenant_id, set())
        this = _apart(missing)
        if this in seen:
            return False
        if len(seen) < FINDINGS_KNOWN:
            seen.add(this)
        found.session_count += 1
        found.commands_closed += len(missing.commands)
        if len(found.sessions) < SESSIONS_LISTED:
            found.sessions.append(missing)
        return True

    def commands(self, tenant_id: str, count: int) -> None:
        """Record how many commands were closed because their outcome is unknown."""
        self._of(tenant_id).commands_closed += count

    def _of(self, tenant_id: str) -> RestoredLedger:
        return self._found.setdefault(tenant_id, RestoredLedger())


def merged(findings: Findings) -> RestoredLedger | None:
    """Return the findings of several gateways combined; None if there are none. A finding of two gateways counts
    once."""
    if not findings:
        return None
    signed = max(findings, key=lambda one: one.records_signed or 0)
    named: dict[tuple[object, ...], MissingSession] = {}
    repeated = 0
    for missing in (session for one in findings for session in one.sessions):
        repeated += named.setdefault(_apart(missing), missing) is not missing
    return RestoredLedger(
        records_signed=signed.records_signed, records_kept=signed.records_kept,
        commands_closed=sum(one.commands_closed for one in findings),
        session_count=sum(one.session_count for one in findings) - repeated,
        sessions=list(named.values())[:SESSIONS_LISTED])


def _apart(missing: MissingSession) -> tuple[object, ...]:
    """Return what distinguishes a finding from another."""
    return (missing.session_id, missing.runner_id, missing.known, missing.frames, missing.controls,
            len(missing.commands))
