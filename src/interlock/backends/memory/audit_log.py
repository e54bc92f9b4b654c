"""The audit log in lists: sealed like the one on a disk, its tree recomputed at each query. For tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from interlock.command.audit.audit import FIRST_PREV, SALT_BYTES, AuditRefused, seal
from interlock.command.audit.audit_tree import SubtreeHashes, root_of
from interlock.ports.ledger import LedgerError
from interlock.protocol.records import AuditDraft, AuditRecord

Undo = list[Callable[[], object]]


class MemoryAudit:
    """The logs of all tenants."""

    def __init__(self) -> None:
        self._logs: dict[str, list[AuditRecord]] = {}

    def seal(self, draft: AuditDraft, undo: Undo) -> int:
        """Append a record; returns its number. Raises LedgerError."""
        log = self._logs.setdefault(draft.tenant_id, [])
        salts = [os.urandom(SALT_BYTES) for _ in draft.personal]
        try:
            record = seal(draft, len(log) + 1, log[-1].hash if log else FIRST_PREV, salts)
        except AuditRefused as error:
            raise LedgerError(str(error)) from error
        log.append(record)
        undo.append(log.pop)
        return record.seq

    def erase(self, tenant_id: str, seqs: Iterable[int], undo: Undo) -> None:
        """Forget personal values."""
        log = self._logs.get(tenant_id, [])
        for seq in seqs:
            if 0 < seq <= len(log):
                undo.append(lambda at=seq - 1, old=log[seq - 1]: log.__setitem__(at, old))
                log[seq - 1] = msgspec.structs.replace(log[seq - 1], personal={})

    def records(self, tenant_id: str) -> list[AuditRecord]:
        """Return a tenant's log."""
        return self._logs.get(tenant_id, [])

    def tenants(self) -> list[str]:
        """Return the tenants that have one."""
        return sorted(tenant_id for tenant_id, log in self._logs.items() if log)

    def tree(self, tenant_id: str) -> tuple[int, bytes]:
        """Return its size and root."""
        log = self.records(tenant_id)
        return len(log), root_of([bytes.fromhex(record.hash) for record in log])

    def hashes(self, tenant_id: str, span: SubtreeHashes) -> list[bytes]:
        """Return the roots of complete subtrees."""
        log, size = self.records(tenant_id), 1 << span.level
        leaves = [bytes.fromhex(record.hash) for record in log[span.start * size : span.end * size]]
        return [root_of(leaves[at : at + size]) for at in range(0, len(leaves) - size + 1, size)]

    def personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        """Return records with personal values."""
        found = (record.seq for record in self.records(tenant_id)
                 if record.personal and who in (None, msgspec.json.decode(record.body)["who"]["id"]))
        return list(islice(found, limit))
