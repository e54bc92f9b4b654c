"""Rows that determine permissions, compared with the audit log before they are used (H-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from interlock.command.audit.register import (
    BoundRecord,
    Register,
    RegisterRow,
    adopted,
    differs,
    drain_row,
    drains_on_record,
    log_of,
    missing,
    row_of,
    sentence,
)
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, WriteBatch
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, DrainRecord

R = TypeVar("R", bound=BoundRecord)
LOOKS = 3
"""Number of reads of a row that differs: it may be changed, with its record, between the reads of it and of the log."""
REPORTED = 1_024
"""Number of reported rows that are remembered; beyond it, they are reported again."""
WHO = {"id": "gateway", "role": "system"}
log = structlog.get_logger("interlock.gateway")


class RowAudit:
    """The comparison of rows with the log. Each look reads the records since the last one, by an index."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        """Create the comparison; `clock` is the machine's own: it dates records."""
        self._ledger = ledger
        self._clock = clock
        self._registers: dict[str, Register] = {}
        self._reported: set[RegisterRow] = set()

    async def register(self, tenant_id: str) -> Register:
        """Return the state of rows by a tenant's log, up to now."""
        register = self._registers.setdefault(tenant_id, Register())
        register.read(await self._ledger.audit_rows(tenant_id, register.seq))
        return register

    async def adopted(self) -> Register:
        """Return the owner's register, read only until rows are bound: what was adopted then never changes."""
        owners = self._registers.setdefault(OWNER_TENANT, Register())
        return owners if owners.begun else await self.register(OWNER_TENANT)

    async def look(self, tenant_id: str) -> None:
        """Read the logs about a tenant's rows, in parallel: for `genuine` with `looked`."""
        await asyncio.gather(*(self.register(one) for one in {tenant_id, OWNER_TENANT}))

    async def genuine(self, tenant_id: str, record: R, again: Callable[[], Awaitable[R | None]], *,
                      looked: bool = False) -> R | None:
        """Return a row if it matches its audit record, read again if it changed meanwhile; if it does not match, report
        and audit it, and return None. `again` reads the row. With `looked`, `look` was called while `record` was read:
        the first comparison reads nothing."""
        found: R | None = record
        how: str | None = None
        for _ in range(LOOKS):
            if found is None:
                return None
            record = found
            how = self._how(tenant_id, row_of(record)) if looked else await self.how(tenant_id, row_of(record))
            if how is None:
                return record
            looked = False
            found = await again()
        await self._report(row_of(record), how or "")
        return None

    async def how(self, tenant_id: str, row: RegisterRow) -> str | None:
        """Return how a row differs from the log; None if it does not."""
        await self.register(tenant_id)
        if tenant_id != OWNER_TENANT:
            await self.register(OWNER_TENANT)
        return self._how(tenant_id, row)

    def _how(self, tenant_id: str, row: RegisterRow) -> str | None:
        return differs(row, self._registers[tenant_id], self._registers[OWNER_TENANT])

    async def is_missing(self, name: str) -> bool:
        """Return whether a missing row is on record in the owner's log; if it is, this is reported and audited."""
        if name not in (await self.register(OWNER_TENANT)).rows:
            return False
        await self._report(RegisterRow(name, ""), "was removed")
        return True

    async def lost_denials(self, tenant_id: str, there: set[str]) -> list[str]:
        """Return the remembered rules that do not allow, are in force by the log, and are not among `there`: rows that
        were removed or changed. Each is reported and audited."""
        own = await self.register(tenant_id)
        owners = await self.register(OWNER_TENANT)
        denials = set(own.denials)
        if tenant_id != OWNER_TENANT:
            denials |= {name for name in owners.denials if name not in own.rows}
        lost = sorted(denials - there)
        for name in lost:
            await self._report(RegisterRow(name, ""), "is missing, or not the one in its audit record")
        return lost

    async def drains(self) -> set[tuple[str, str, str]]:
        """Return the drains that are in force by the logs, as (tenant, scope, name)."""
        owners = await self.register(OWNER_TENANT)
        tenants = sorted({OWNER_TENANT, *await self._ledger.audit_tenants()})
        return {(tenant_id, scope, name) for tenant_id in tenants
                for scope, name in drains_on_record(tenant_id, await self.register(tenant_id), owners)}

    async def drain_is_missing(self, tenant_id: str, scope: str, name: str) -> None:
        """Report and audit that the row of a drain that is in force was removed."""
        await self._report(drain_row(tenant_id, scope, name), "was removed; it stays in force until it is undrained")

    async def adopt(self, others: Callable[[], Awaitable[dict[str, str]]] | None = None) -> bool:
        """Bind the existing rows, once in the life of a ledger: from then on each change has a record. `others` returns
        names and digests of further rows. Returns whether it did. Raises LedgerError."""
        if (await self.register(OWNER_TENANT)).begun:
            return False
        at = iso(self._clock.now_ms())
        drafts = [AuditDraft(tenant_id=OWNER_TENANT, at=at, who=WHO, action="adopted", meta=meta)
                  for meta in adopted(await self._all(), await others() if others is not None else {})]
        await self._ledger.commit(WriteBatch([AuditAppend(draft) for draft in drafts]))
        return True

    async def check(self) -> list[str]:
        """Compare all rows with the log; returns one sentence for each that differs, each of which is reported and
        audited."""
        records = await self._all()
        sentences: list[str] = []
        for record in records:
            if isinstance(record, DrainRecord):
                continue  # One that was inserted only stops work, as `status` shows; a missing one is named below.
            how = await self.how(log_of(record), row_of(record))
            if how is not None:
                sentences.append(sentence(row_of(record).name, how))
                await self._report(row_of(record), how)
        tenants = {OWNER_TENANT, *await self._ledger.audit_tenants()}
        registers = [await self.register(tenant_id) for tenant_id in sorted(tenants)]
        for name in missing(map(row_of, records), registers):
            sentences.append(sentence(name, "was removed"))
            await self._report(RegisterRow(name, ""), "was removed")
        return sentences

    async def _all(self) -> list[BoundRecord]:
        tenants = await self._ledger.tenants()
        names = {OWNER_TENANT, *(one.tenant_id for one in tenants), *await self._ledger.audit_tenants()}
        records: list[BoundRecord] = [*tenants]
        for name in sorted(names):
            records += await self._ledger.keys(name)
            records += await self._ledger.rules(name, revoked=True)
            records += await self._ledger.signing_keys(name)
            records += await self._ledger.runners(name)
        return [*records, *await self._ledger.drains()]

    async def _report(self, row: RegisterRow, how: str) -> None:
        if row in self._reported:
            return
        if len(self._reported) >= REPORTED:
            self._reported.clear()
        self._reported.add(row)
        log.error("row_differs", sentence=sentence(row.name, how),
                  remedy="somebody edited the database: see `interlock audit verify`, and make the row again")
        draft = AuditDraft(tenant_id=OWNER_TENANT, at=iso(self._clock.now_ms()), who=WHO, action="tampered",
                           meta={"about": row.name, "how": how})
        try:
            await self._ledger.commit(WriteBatch([AuditAppend(draft)]))
        except LedgerError as error:
            log.warning("not_audited", about=row.name, error=str(error))
