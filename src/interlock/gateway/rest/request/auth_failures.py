"""Audit records of refused credentials and roles: counted, and written at most once a second per source (U-1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

import structlog
from starlette.requests import HTTPConnection

from interlock.command.redaction import SECRETS
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

INTERVAL_MS = 1_000
"""Minimum interval between a source's records; each has the number of refusals that it covers."""
MAX_SOURCES = 1_024
"""Sources that are counted separately; beyond it the least recently used one starts again."""

MAX_USER_AGENT = 256
"""Maximum length of a `User-Agent` that is stored."""
NOTHING: Mapping[str, str] = MappingProxyType({})

log = structlog.get_logger("interlock.gateway")


class Denials:
    """Counts refusals of 401 and 403. A failing record does not weaken the refusal."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._sources: OrderedDict[tuple[str, str, str], tuple[int, int]] = OrderedDict()

    async def note(self, tenant_id: str, who: str, role: str, code: str, personal: Mapping[str, str] = NOTHING) -> None:
        """Count one refusal of `who` from an address in a tenant, and record it if the last record is old enough."""
        source, now = (tenant_id, who, personal.get("ip", "")), self._clock.monotonic_ms()
        written_ms, count = self._sources.pop(source, (now - INTERVAL_MS, 0))
        count += 1
        due = now - written_ms >= INTERVAL_MS
        self._sources[source] = (now, 0) if due else (written_ms, count)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        if not due:
            return
        draft = AuditDraft(tenant_id=tenant_id, at=iso(self._clock.now_ms()), who={"id": who, "role": role},
                           action="auth_denied", meta={"code": code, "count": count}, personal=dict(personal))
        try:
            await self._ledger.commit(WriteBatch([AuditAppend(draft)]))
        except LedgerError as error:
            log.warning("denial_not_recorded", error=str(error))


def personal_of(request: HTTPConnection) -> dict[str, str]:
    """Return a request's personal data, for the erasable part of a record (U-4)."""
    facts = {"ip": request.client.host if request.client is not None else "",
            "user_agent": SECRETS.text(request.headers.get("user-agent", "")[:MAX_USER_AGENT])}
    return {name: text for name, text in facts.items() if text}
