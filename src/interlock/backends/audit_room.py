"""The wait of a batch that exceeds the bound after the last checkpoint until more is signed, for every ledger (U-3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from interlock.command.audit.audit import TailBound, TailFull
from interlock.ports.ledger import AuditAppend, LedgerError, MakeRoom, Receipt, WriteBatch
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX

TRIES = 100
"""Maximum attempts of a batch; after each signature others may have used the room."""


class AuditRoom:
    """The commit of batches, with a signature first for those that exceed the bound."""

    def __init__(self) -> None:
        self.bound = TailBound()
        """For the transactions."""
        self.begun: set[str] = set()
        """Tenants whose first record was written through this object: nothing of their logs can have been replaced."""
        self._make_room: MakeRoom | None = None
        self._notify: Callable[[str], None] = lambda _tenant_id: None
        self._due: dict[str, int] = {}
        """The record of each tenant at which the signer is notified."""
        self._making: dict[str, asyncio.Future[None]] = {}
        """Signatures under way, by tenant: all who wait for one share it."""

    def bind(self, make_room: MakeRoom) -> None:
        """Enforce the bound from now on."""
        self._make_room = make_room
        self.bound.enforce()

    def watch(self, notify: Callable[[str], None]) -> None:
        """Call `notify` with a tenant after each commit that wrote its due record, or later ones."""
        self._notify = notify

    def expect(self, tenant_id: str, seq: int) -> None:
        """Set the due record of a tenant to `seq`."""
        self._due[tenant_id] = seq

    async def commit(self, batch: WriteBatch, write: Callable[[WriteBatch], Awaitable[Receipt]]) -> Receipt:
        """Write a batch. Raises LedgerError, also if the log cannot be signed."""
        for _ in range(TRIES):
            try:
                return self._noting(batch, await write(batch))
            except NoRoom as full:
                tenants = Counter(one.draft.tenant_id for one in batch.writes if isinstance(one, AuditAppend))
                if self._make_room is None or tenants[full.tenant_id] > UNSIGNED_RECORDS_MAX:
                    raise
                await self._made(self._make_room, full.tenant_id)
        return self._noting(batch, await write(batch))

    async def _made(self, make_room: MakeRoom, tenant_id: str) -> None:
        making = self._making.get(tenant_id)
        if making is None or making.done():
            making = self._making[tenant_id] = asyncio.ensure_future(make_room(tenant_id))
            making.add_done_callback(_seen)
        await asyncio.shield(making)

    def _noting(self, batch: WriteBatch, receipt: Receipt) -> Receipt:
        if not receipt.audit_seqs:
            return receipt
        last = dict[str, int]()
        seqs = iter(receipt.audit_seqs)
        for write in batch.writes:
            if isinstance(write, AuditAppend):
                seq = last[write.draft.tenant_id] = next(seqs)
                if seq == 1:
                    self.begun.add(write.draft.tenant_id)
        for tenant_id, seq in last.items():
            if seq >= self._due.get(tenant_id, seq + 1):
                self._notify(tenant_id)
        return receipt


def _seen(making: asyncio.Future[None]) -> None:
    """Retrieve the result: its waiters may have been cancelled."""
    if not making.cancelled():
        making.exception()


class AuditedLedger:
    """A ledger's support for the signer of its audit logs (`ports.audit_reads`)."""

    _room: AuditRoom

    def on_audit(self, notify: Callable[[str], None]) -> None:
        self._room.watch(notify)

    def expect_audit(self, tenant_id: str, seq: int) -> None:
        self._room.expect(tenant_id, seq)

    def bound_audit(self, make_room: MakeRoom) -> None:
        self._room.bind(make_room)

    def began_audit(self, tenant_id: str) -> bool:
        return tenant_id in self._room.begun


class NoRoom(LedgerError):
    """The port's form of TailFull."""

    def __init__(self, full: TailFull) -> None:
        super().__init__(str(full))
        self.tenant_id = full.tenant_id
        self.room = full.room
