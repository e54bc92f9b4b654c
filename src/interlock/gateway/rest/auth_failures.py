"""Refused credentials and roles leave a record: counted, and written at most once a second a source (U-1)."""

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
"""A source gets at most one record in this time; it has the number of refusals that it is for."""
MAX_SOURCES = 1_024
"""Sources that are counted apart; past it the one that was quiet longest starts again."""

MAX_USER_AGENT = 256
"""Maximum length of a `User-Agent` that is stored."""
NOTHING: Mapping[str, str] = MappingProxyType({})

log = structlog.get_logger("interlock.gateway")


class Denials:
    """Counts refusals of 401 and 403. A record that cannot be written does not soften the refusal."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._sources: OrderedDict[tuple[str, str, str], tuple[int, int]] = OrderedDict()

    async def note(self, tenant_id: str, who: str, role: str, code: str, personal: Mapping[str, str] = NOTHING) -> None:
        """Count one refusal of `who` from an address in a tenant, and write it when the last record is old enough."""
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
    """Return what a request shows of the person behind it, for the part of a record that can be erased (U-4)."""
    facts = {"ip": request.client.host if request.client is not None else "",
            "user_agent": SECRETS.text(request.headers.get("user-agent", "")[:MAX_USER_AGENT])}
    return {name: text for name, text in facts.items() if text}
