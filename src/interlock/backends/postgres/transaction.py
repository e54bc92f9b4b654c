"""Inside a transaction: a group of batches becomes a few statements, streams get their numbers, audit drafts their
seal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interlock.backends.audit_room import NoRoom
from interlock.backends.postgres import statements
from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.entries import Entries
from interlock.backends.postgres.operations import TableStatement, columns
from interlock.backends.postgres.single import HELD, MOVE_HEADS, NOTED, NotAtOnce, Single
from interlock.backends.postgres.tables import TABLES, controls_apart, operation_of
from interlock.backends.postgres.texts import encoded, lane_columns
from interlock.command.audit.audit import (
    CHECKPOINT_FACT,
    FIRST_PREV,
    SALT_BYTES,
    AuditRefused,
    TailBound,
    TailFull,
    noted_size,
    seal,
)
from interlock.command.audit.audit_tree import Frontier
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    EraseAudit,
    LaneName,
    LedgerError,
    PutTranscript,
    Receipt,
    TenantMoving,
    WriteBatch,
)
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import AuditDraft, AuditRecord, TranscriptLine


class CommitGroup:
    """The writes of batches that are committed together. Filled without a database, then executed by `run`."""

    def __init__(self, entries: Entries | None = None, bound: TailBound | None = None) -> None:
        """Create the group; `entries` writes transcript lines if this database stores the transcripts; audit records
        stay within `bound`."""
        self._bound = bound or TailBound()
        self.receipts: list[Receipt] = []
        self._entries = entries
        self._steps: dict[str, list[TableStatement]] = {}
        self._appends: list[tuple[Append, Receipt]] = []
        self._drafts: list[tuple[AuditDraft, Receipt]] = []
        self._lines: list[TranscriptLine] = []
        self.heads: dict[str, AuditHead] = {}
        """The audit heads after this group, once it is committed."""
        self.erases = False

    def add(self, batch: WriteBatch) -> None:
        """Add a batch. Raises LedgerError, ValueError for an invalid one; then discard the group."""
        receipt = Receipt([], [])
        self.receipts.append(receipt)
        for write in batch.writes:
            if isinstance(write, Append):
                self._appends.append((write, receipt))
            elif isinstance(write, AuditAppend):
                self._drafts.append((write.draft, receipt))
            elif isinstance(write, PutTranscript) and self._entries is not None:
                self._lines.append(write.line)
            else:
                op = operation_of(write)
                if op is None:
                    raise LedgerError(f"The ledger knows no write {type(write).__name__}.")
                self.erases = self.erases or isinstance(write, EraseAudit)
                steps = self._steps.setdefault(op.table, [])
                if not steps or steps[-1].op is not op:
                    steps.append(TableStatement(op))
                steps[-1].add(op.rows(write))

    async def run(self, connection: PostgresConnection) -> None:
        """Execute all of it in the open transaction, and fill the receipts."""
        for table in TABLES:
            for step in self._steps.get(table, ()):
                await _run_step(connection, step)
        if self._lines and self._entries is not None:
            await self._entries.add(connection, self._lines)
        if self._appends:
            await self._append(connection)
        if self._drafts:
            # Last: others that write to the same tenant's log wait for this row until the commit.
            await self._seal(connection)

    def single(self, writer_id: str, number: int, lanes: Mapping[LaneName, int], heads: Mapping[str, AuditHead]
               ) -> Single:
        """Return the whole transaction as one statement behind these audit heads. Raises NotAtOnce if it cannot be one,
        LedgerError for what cannot be written."""
        steps = self._commuting()
        single = Single()
        if lanes:
            single.add([("held", HELD)], [*lane_columns(lanes), list(lanes.values())])
            single.check("fenced", "held", len(lanes))
        for place, step in enumerate(steps):
            single.change(f"step_{place}", step.op.sql, step.columns())
            if step.op.every is not None:
                single.check("refused", f"step_{place}", len(step.rows))
        if self._lines and self._entries is not None:
            self._entries.add_to(single, self._lines)
        single.add(statements.EVENTS_APPENDED, self._events() if self._appends else [[] for _ in range(10)])
        single.add([("noted", NOTED)], [writer_id, number])
        single.check("decided", "noted", 1)
        if self._drafts:
            self._seal_behind(single, heads)
        return single

    async def look(self, connection: PostgresConnection) -> None:
        """Read what `single` needs to know of the transcripts that this group writes to."""
        if self._lines and self._entries is not None:
            await self._entries.look(connection, self._lines)

    def check_room(self, heads: Mapping[str, AuditHead]) -> None:
        """Return if the records may follow these heads, which have just been read. Raises NoRoom."""
        tenants = self.tenants()
        if all(tenant in heads for tenant in tenants):
            self._check_bound({tenant: (heads[tenant].size, heads[tenant].noted) for tenant in tenants})

    def tenants(self) -> list[str]:
        """Return the tenants whose audit logs this group writes to, in the order in which their heads are locked."""
        return sorted({encoded(draft.tenant_id) for draft, _ in self._drafts})

    def _commuting(self) -> list[TableStatement]:
        """Return the statements. Raises NotAtOnce if one of them concerns rows of another one."""
        steps: list[TableStatement] = []
        for table in TABLES:
            own = self._steps.get(table, [])
            if len(own) > 1:
                merged = controls_apart(own) if table == "control" else None
                if merged is None:
                    raise NotAtOnce("writes")
                own = merged
            steps += own
        return steps

    def _seal_behind(self, single: Single, heads: Mapping[str, AuditHead]) -> None:
        added = Counter(encoded(draft.tenant_id) for draft, _ in self._drafts)
        tenants = self.tenants()
        for tenant in tenants:
            head = heads.get(tenant)
            if head is None:
                raise NotAtOnce("head")
            if not head.has_room(added[tenant], bounded=self._bound.enforced):
                raise NotAtOnce("bound")  # There may be a newer checkpoint.
        logs, made = self._sealed({tenant: heads[tenant] for tenant in tenants})
        single.change("moved", MOVE_HEADS, [*_head_columns(tenants, logs), [heads[one].size for one in tenants],
                                            [heads[one].last_hash for one in tenants]])
        single.check("head", "moved", len(tenants))
        for name, sql, rows in made.statements():
            single.add([(name, sql)], _columns(rows))
        self.heads = {one: logs[one].head(heads[one].noted) for one in tenants}

    def number(self, heads: Sequence[int]) -> None:
        """Fill the receipts from the new heads of the streams, ordered by name."""
        self._number(dict(zip(sorted({encoded(write.stream) for write, _ in self._appends}), heads, strict=True)))

    async def _append(self, connection: PostgresConnection) -> None:
        found = await connection.fetch(statements.APPEND, *self._events())
        self._number(dict(found))

    def _events(self) -> list[list[Any]]:
        added = Counter((encoded(write.stream), encoded(write.tenant_id)) for write, _ in self._appends)
        streams = sorted(added)
        left = dict(added)
        events: list[tuple[object, ...]] = []
        for write, _ in self._appends:
            stream = encoded(write.stream), encoded(write.tenant_id)
            left[stream] -= 1
            events.append((write.tenant_id, write.stream, left[stream], write.kind, write.at_ms, write.message_id,
                           write.body))
        return [[tenant_id for _, tenant_id in streams], [name for name, _ in streams],
                [added[stream] for stream in streams], *_columns(events)]

    def _number(self, heads: Mapping[str, int]) -> None:
        added = Counter(encoded(write.stream) for write, _ in self._appends)
        last = {name: head - added[name] for name, head in heads.items()}
        for write, receipt in self._appends:
            name = encoded(write.stream)
            last[name] += 1
            receipt.numbers.append(last[name])

    async def _seal(self, connection: PostgresConnection) -> None:
        tenants = self.tenants()
        found = await connection.fetch(statements.HOLD_HEADS, tenants, CHECKPOINT_FACT)
        if len(found) < len(tenants):
            await connection.execute(statements.ADD_HEADS, tenants, FIRST_PREV)
            found = await connection.fetch(statements.HOLD_HEADS, tenants, CHECKPOINT_FACT)
        heads = {tenant: AuditHead(count, last_hash, bytes(peaks), noted)
                 for tenant, count, last_hash, peaks, noted, _ in found}
        if frozen := [tenant for tenant, *_, is_frozen in found if is_frozen]:
            raise TenantMoving(f"The tenant {frozen[0]} is being moved, so nothing is written for it.")
        self._check_bound({tenant: (head.size, head.noted) for tenant, head in heads.items()})
        logs, made = self._sealed(heads)
        for _, sql, rows in made.statements():
            await connection.execute(sql, *_columns(rows))
        await connection.execute(statements.PUT_HEADS, *_head_columns(tenants, logs))
        self.heads = {one: logs[one].head(heads[one].noted) for one in tenants}

    def _sealed(self, heads: Mapping[str, AuditHead]) -> tuple[dict[str, _Log], _Made]:
        """Seal the drafts after these heads; an earlier attempt's numbers are dropped."""
        logs = {tenant: _Log(Frontier(head.size, head.peaks), head.last_hash) for tenant, head in heads.items()}
        made = _Made([], [], [])
        for _, receipt in self._drafts:
            receipt.audit_seqs.clear()
        for draft, receipt in self._drafts:
            receipt.audit_seqs.append(logs[encoded(draft.tenant_id)].seal(draft, made))
        return logs, made

    def _check_bound(self, heads: dict[str, tuple[int, str | None]]) -> None:
        added = Counter(draft.tenant_id for draft, _ in self._drafts)
        for tenant_id, more in added.items():
            size, noted = heads[encoded(tenant_id)]
            try:
                self._bound.check(tenant_id, size, noted, more)
            except TailFull as full:
                raise NoRoom(full) from None


class _Made(NamedTuple):
    """Rows created by sealing."""

    records: list[AuditRecord]
    nodes: list[tuple[object, ...]]
    personal: list[tuple[object, ...]]

    def statements(self) -> list[tuple[str, str, list[tuple[object, ...]]]]:
        """Return a name, a statement and its rows, for each table that gets some."""
        records: list[tuple[object, ...]] = [(one.tenant_id, one.seq, one.hash, one.body) for one in self.records]
        every = [("records", statements.ADD_RECORDS, records), ("nodes", statements.ADD_NODES, self.nodes),
                 ("personal", statements.ADD_PERSONAL, self.personal)]
        return [one for one in every if one[2]]


class AuditHead(NamedTuple):
    """The end of a tenant's log in the database, and the fact of its last checkpoint as it was last read."""

    size: int
    last_hash: str
    peaks: bytes
    noted: str | None

    def has_room(self, more: int, *, bounded: bool) -> bool:
        """Return whether records certainly fit after the checkpoint, of which a newer one may exist."""
        signed = noted_size(self.noted)
        return not bounded or (signed is not None and self.size + more <= signed + UNSIGNED_RECORDS_MAX)


class _Log:
    """The end of a tenant's log in the open transaction."""

    __slots__ = ("last_hash", "tree")

    def __init__(self, tree: Frontier, last_hash: str) -> None:
        self.tree = tree
        self.last_hash = last_hash

    def head(self, noted: str | None) -> AuditHead:
        """Return the current end of the log."""
        return AuditHead(self.tree.size, self.last_hash, bytes(self.tree.peaks), noted)

    def seal(self, draft: AuditDraft, made: _Made) -> int:
        """Seal a draft; returns its number."""
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


async def _run_step(connection: PostgresConnection, step: TableStatement) -> None:
    op = step.op
    if op.every is None:
        await connection.execute(op.sql, *step.columns())
        return
    found = await connection.fetch(op.sql, *step.columns())
    if len(found) < len(step.rows):
        raise op.every()


def _head_columns(tenants: Sequence[str], logs: Mapping[str, _Log]) -> list[list[Any]]:
    return [list(tenants), [logs[one].tree.size for one in tenants], [logs[one].last_hash for one in tenants],
            [logs[one].tree.peaks for one in tenants]]


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return columns(rows)
