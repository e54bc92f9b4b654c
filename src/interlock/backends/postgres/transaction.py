"""What happens inside a transaction: a group of batches becomes a few statements, streams get their numbers, audit
drafts their seal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from interlock.backends.audit_room import NoRoom
from interlock.backends.postgres import statements
from interlock.backends.postgres.database import Connection
from interlock.backends.postgres.entries import Entries
from interlock.backends.postgres.tables import OPS, TABLES, Step, columns
from interlock.backends.postgres.texts import held
from interlock.command.audit import FIRST_PREV, SALT_BYTES, AuditRefused, seal
from interlock.command.audit_tail import CHECKPOINT_FACT, TailBound, TailFull
from interlock.command.audit_tree import Frontier
from interlock.ports.ledger import Append, Audit, Batch, EraseAudit, LedgerError, PutTranscript, Receipt
from interlock.protocol.records import AuditDraft, AuditRecord, TranscriptLine


class Group:
    """What batches that are committed together write. Filled without a database, then carried out by `run`."""

    def __init__(self, entries: Entries | None = None, bound: TailBound | None = None) -> None:
        """`entries` writes transcript lines where this database keeps the transcripts; audit records stay within
        `bound`."""
        self._bound = bound or TailBound()
        self.receipts: list[Receipt] = []
        self._entries = entries
        self._steps: dict[str, list[Step]] = {}
        self._appends: list[tuple[Append, Receipt]] = []
        self._drafts: list[tuple[AuditDraft, Receipt]] = []
        self._lines: list[TranscriptLine] = []
        self.erases = False

    def add(self, batch: Batch) -> None:
        """Take a batch more. Raises LedgerError, ValueError for what cannot be written; then throw the group away."""
        receipt = Receipt([], [])
        self.receipts.append(receipt)
        for write in batch.writes:
            if isinstance(write, Append):
                self._appends.append((write, receipt))
            elif isinstance(write, Audit):
                self._drafts.append((write.draft, receipt))
            elif isinstance(write, PutTranscript) and self._entries is not None:
                self._lines.append(write.line)
            else:
                op = OPS.get(type(write))
                if op is None:
                    raise LedgerError(f"The ledger knows no write {type(write).__name__}.")
                self.erases = self.erases or isinstance(write, EraseAudit)
                steps = self._steps.setdefault(op.table, [])
                if not steps or steps[-1].op is not op:
                    steps.append(Step(op))
                steps[-1].add(op.rows(write))

    async def run(self, connection: Connection) -> None:
        """Do all of it in the transaction that is open, and fill the receipts."""
        for table in TABLES:
            for step in self._steps.get(table, ()):
                await _run_step(connection, step)
        if self._lines and self._entries is not None:
            await self._entries.add(connection, self._lines)
        if self._appends:
            await self._append(connection)
        if self._drafts:
            # Last: others who write to the same tenant's log wait for this row until the commit.
            await self._seal(connection)

    async def _append(self, connection: Connection) -> None:
        added = Counter(held(write.stream) for write, _ in self._appends)
        names = sorted(added)
        left = dict(added)
        events: list[tuple[object, ...]] = []
        for write, _ in self._appends:
            name = held(write.stream)
            left[name] -= 1
            events.append((write.stream, left[name], write.kind, write.at_ms, write.message_id, write.body))
        found = await connection.fetch(statements.APPEND, names, [added[name] for name in names], *_columns(events))
        last = {name: head - added[name] for name, head in found}
        for write, receipt in self._appends:
            name = held(write.stream)
            last[name] += 1
            receipt.numbers.append(last[name])

    async def _seal(self, connection: Connection) -> None:
        tenants = sorted({held(draft.tenant_id) for draft, _ in self._drafts})
        found = await connection.fetch(statements.HOLD_HEADS, tenants, CHECKPOINT_FACT)
        if len(found) < len(tenants):
            await connection.execute(statements.ADD_HEADS, tenants, FIRST_PREV)
            found = await connection.fetch(statements.HOLD_HEADS, tenants, CHECKPOINT_FACT)
        logs = {tenant: _Log(Frontier(count, bytes(peaks)), last_hash) for tenant, count, last_hash, peaks, _ in found}
        self._check_bound({tenant: (count, noted) for tenant, count, _, _, noted in found})
        made = _Made([], [], [])
        for draft, receipt in self._drafts:
            receipt.audit_seqs.append(logs[held(draft.tenant_id)].seal(draft, made))
        await connection.execute(statements.ADD_RECORDS, *_columns(
            [(record.tenant_id, record.seq, record.hash, record.body) for record in made.records]))
        if made.nodes:
            await connection.execute(statements.ADD_NODES, *_columns(made.nodes))
        if made.personal:
            await connection.execute(statements.ADD_PERSONAL, *_columns(made.personal))
        await connection.execute(statements.PUT_HEADS, tenants, [logs[one].tree.size for one in tenants],
                                 [logs[one].last_hash for one in tenants], [logs[one].tree.peaks for one in tenants])


    def _check_bound(self, heads: dict[str, tuple[int, str | None]]) -> None:
        added = Counter(draft.tenant_id for draft, _ in self._drafts)
        for tenant_id, more in added.items():
            size, noted = heads[held(tenant_id)]
            try:
                self._bound.check(tenant_id, size, noted, more)
            except TailFull as full:
                raise NoRoom(full) from None


class _Made(NamedTuple):
    """Rows that sealing makes."""

    records: list[AuditRecord]
    nodes: list[tuple[object, ...]]
    personal: list[tuple[object, ...]]


class _Log:
    """How far a tenant's log goes in the open transaction."""

    __slots__ = ("last_hash", "tree")

    def __init__(self, tree: Frontier, last_hash: str) -> None:
        self.tree = tree
        self.last_hash = last_hash

    def seal(self, draft: AuditDraft, made: _Made) -> int:
        """Seal a draft; gives its number."""
        try:
            record = seal(draft, self.tree.size + 1, self.last_hash,
                          [os.urandom(SALT_BYTES) for _ in draft.personal])
        except AuditRefused as error:
            raise LedgerError(str(error)) from error
        made.records.append(record)
        made.nodes.extend((record.tenant_id, *grown) for grown in self.tree.grow(bytes.fromhex(record.hash)))
        made.personal.extend((record.tenant_id, record.seq, name, draft.who["id"], salt, value.encode())
                             for name, (salt, value) in record.personal.items())
        self.last_hash = record.hash
        return record.seq


async def _run_step(connection: Connection, step: Step) -> None:
    op = step.op
    if op.every is None:
        await connection.execute(op.sql, *step.columns())
        return
    found = await connection.fetch(op.sql, *step.columns())
    if len(found) < len(step.rows):
        raise op.every()


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return columns(rows)
