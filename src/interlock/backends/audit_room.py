"""Wait with a batch that finds no room behind the last checkpoint until more is signed: for every ledger (U-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from interlock.command.audit_tail import TailBound, TailFull
from interlock.ports.ledger import AuditAppend, LedgerError, MakeRoom, Receipt, WriteBatch
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX

TRIES = 100
"""A batch is tried so often; each time others may have taken the room that a signature made."""


class AuditRoom:
    """Commits batches, and has the log signed before those for which there is no room."""

    def __init__(self) -> None:
        self.bound = TailBound()
        """For the transactions."""
        self.begun: set[str] = set()
        """Tenants whose first record was written through this room: nothing of their logs can have been replaced."""
        self._make_room: MakeRoom | None = None

    def bind(self, make_room: MakeRoom) -> None:
        """Hold the bound from now on."""
        self._make_room = make_room
        self.bound.on = True

    async def commit(self, batch: WriteBatch, write: Callable[[WriteBatch], Awaitable[Receipt]]) -> Receipt:
        """Write a batch. Raises LedgerError, also if the log cannot be signed."""
        for _ in range(TRIES):
            try:
                return self._noting(batch, await write(batch))
            except NoRoom as full:
                tenants = Counter(one.draft.tenant_id for one in batch.writes if isinstance(one, AuditAppend))
                if self._make_room is None or tenants[full.tenant_id] > UNSIGNED_RECORDS_MAX:
                    raise
                await self._make_room(full.tenant_id)
        return self._noting(batch, await write(batch))

    def _noting(self, batch: WriteBatch, receipt: Receipt) -> Receipt:
        if 1 in receipt.audit_seqs:
            audits = (write.draft.tenant_id for write in batch.writes if isinstance(write, AuditAppend))
            self.begun |= {tenant_id for tenant_id, seq in zip(audits, receipt.audit_seqs, strict=True) if seq == 1}
        return receipt


class NoRoom(LedgerError):
    """The port's form of TailFull."""

    def __init__(self, full: TailFull) -> None:
        super().__init__(str(full))
        self.tenant_id = full.tenant_id
