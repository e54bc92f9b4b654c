"""What is asked of the ledger about a tenant's audit log, and what it does for its signer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from interlock.command.audit_tree import SubtreeHashes
from interlock.protocol.records import AuditRecord

MakeRoom = Callable[[str], Awaitable[None]]
"""Has a tenant's log signed up to its end. Raises LedgerError, with one sentence, if that cannot be done."""


class AuditReads(Protocol):
    """Reads of audit logs. Records are in the order of their `seq`, from 1 without gaps."""

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]: ...

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        """Records that bind rows (`command.register`), those after a seq, in order; without their personal values."""
        ...

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        """(count, last hash) of a tenant's log; (0, 64 zeros) when empty."""
        ...

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        """(count, Merkle root) of a tenant's log, of one instant."""
        ...

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        """Hashes of whole subtrees of a tenant's log, a list for each span; fewer where the log does not go so far."""
        ...

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        """Records with personal values that were not erased, of one `who.id` or of all, oldest first."""
        ...

    async def audit_tenants(self) -> list[str]: ...

    def on_audit(self, notify: Callable[[str], None]) -> None:
        """Call `notify` with a tenant after each commit that wrote audit records up to where it is due, or beyond."""
        ...

    def expect_audit(self, tenant_id: str, seq: int) -> None:
        """From now on `notify` is due for a tenant at the record `seq`; never, while no one has said so."""
        ...

    def bound_audit(self, make_room: MakeRoom) -> None:
        """From now on hold the bound on unsigned records (`command.audit`), in the transactions themselves: a
        batch that finds no room behind the last checkpoint waits for `make_room`, and fails as that fails (U-3)."""
        ...

    def began_audit(self, tenant_id: str) -> bool:
        """Return whether the first record of a tenant's log was written through this object."""
        ...
