"""Reads of a tenant's audit log, and the ledger's support for its signer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from interlock.command.audit.audit_tree import SubtreeHashes
from interlock.protocol.records import AuditRecord

MakeRoom = Callable[[str], Awaitable[None]]
"""Signs a tenant's log up to its end. Raises LedgerError, with one sentence, if that fails."""


class AuditReads(Protocol):
    """Reads of audit logs. Records are in the order of their `seq`, from 1 without gaps."""

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]: ...

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        """Return the audit records after a seq that bind rows (`command.audit.register`), in order, without their
        personal values."""
        ...

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        """Return (count, last hash) of a tenant's log; (0, 64 zeros) when empty."""
        ...

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        """Return (count, Merkle root) of a tenant's log at one instant."""
        ...

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        """Return hashes of complete subtrees of a tenant's log, a list for each span; fewer if the log is shorter."""
        ...

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        """Return the records whose personal values were not erased, of one `who.id` or of all, oldest first."""
        ...

    async def audit_tenants(self) -> list[str]: ...

    def on_audit(self, notify: Callable[[str], None]) -> None:
        """Call `notify` with a tenant after each commit that writes audit records up to or beyond the seq where it is
        due."""
        ...

    def expect_audit(self, tenant_id: str, seq: int) -> None:
        """Make `notify` due for a tenant at the record `seq`; it is never due before the first call."""
        ...

    def bound_audit(self, make_room: MakeRoom) -> None:
        """Enforce the bound on unsigned records (`command.audit.audit`) within the transactions: a batch that exceeds
        it waits for `make_room`, and fails if that fails (U-3)."""
        ...

    def began_audit(self, tenant_id: str) -> bool:
        """Return whether the first record of a tenant's log was written through this object."""
        ...
