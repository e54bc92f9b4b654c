"""Creation, suspension and restoration of tenants, by an owner only (K-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.command.audit.register import bound
from interlock.gateway.access.credentials import OWNER_TENANT, Credentials, owns_all
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, Put, PutIdempotency, WriteBatch
from interlock.protocol.access import MAX_TENANTS, TENANT_ID, TenantBody
from interlock.protocol.clock import iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, IdempotencyRecord, Principal, TenantRecord

Remember = Callable[[Any], IdempotencyRecord]


class TenantStore:
    """The tenants of a gateway. Everything returned is durable and audited; refusals are `Problem`s."""

    def __init__(self, ledger: Ledger, clock: Clock, credentials: Credentials) -> None:
        self._ledger = ledger
        self._clock = clock
        self._credentials = credentials
        self._changing = asyncio.Lock()

    async def list(self, principal: Principal) -> list[TenantRecord]:
        """Return all tenants, by id. Raises Problem Forbidden."""
        _check(principal)
        return await self._ledger.tenants()

    async def make(self, principal: Principal, body: TenantBody, remember: Remember) -> TenantRecord:
        """Create a tenant. Raises Problem Forbidden, InvalidPayload, Conflict or QuotaExceeded."""
        _check(principal)
        if TENANT_ID.fullmatch(body.tenant_id) is None:
            raise Problem("InvalidPayload", "A tenant's id has a-z, 0-9 and -, at most 63 of them.",
                          errors=(Place("/tenant_id", "invalid"),))
        async with self._changing:
            known = await self._ledger.tenants()
            if any(one.tenant_id == body.tenant_id for one in known):
                raise Problem("Conflict", f"There is a tenant {body.tenant_id} already.",
                              hint="See `interlock tenants`.")
            if len(known) >= MAX_TENANTS:
                raise Problem("QuotaExceeded", f"This gateway has {MAX_TENANTS} tenants already.")
            record = TenantRecord(tenant_id=body.tenant_id, name=body.name.strip(), created_ms=self._clock.now_ms())
            await self._commit(record, principal, "tenant_made", remember(record))
        return record

    async def suspend(self, principal: Principal, tenant_id: str, remember: Remember, *, suspended: bool
                      ) -> TenantRecord:
        """Refuse every credential of a tenant, or accept them again. Raises Problem Forbidden, NotFound or Conflict."""
        _check(principal)
        async with self._changing:
            known = await self._ledger.tenant(tenant_id)
            if known is None:
                raise Problem("NotFound", f"There is no tenant {tenant_id}.", hint="See `interlock tenants`.")
            if tenant_id == OWNER_TENANT and suspended:
                raise Problem("Conflict", f"The tenant {OWNER_TENANT} is the owner's own.",
                              hint="While it is suspended, no key could restore it.")
            if known.moved:
                raise Problem("Conflict", known.moved, hint="Suspend or restore it there.")
            record = msgspec.structs.replace(known, suspended=suspended)
            await self._commit(record, principal, "tenant_suspended" if suspended else "tenant_restored",
                               remember(record))
        self._credentials.forget()
        return record

    async def _commit(self, record: TenantRecord, principal: Principal, step: str, answer: IdempotencyRecord) -> None:
        """Commit with an audit record in the owner's log, since the owner acted; the tenant's own log starts with its
        own actions."""
        draft = AuditDraft(tenant_id=principal.tenant_id, at=iso(self._clock.now_ms()), who=principal.who,
                           action="policy_change", meta={"step": step, "tenant_id": record.tenant_id, **bound(record)})
        await self._ledger.commit(WriteBatch([Put(record), AuditAppend(draft), PutIdempotency(answer)]))


def _check(principal: Principal) -> None:
    if not owns_all(principal):
        raise Problem("Forbidden", "Tenants are the business of the gateway's own owner.")
