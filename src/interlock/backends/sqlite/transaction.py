"""Inside a transaction: batches become rows, streams get their numbers, audit drafts their seal."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import get_args

import apsw

from interlock.backends import rows
from interlock.backends.audit_room import NoRoom
from interlock.backends.sqlite import entities, queries
from interlock.backends.sqlite.database import Row, SqliteDatabase, Value
from interlock.command.audit.audit import CHECKPOINT_FACT, SALT_BYTES, AuditRefused, LogEnd, TailBound, TailFull
from interlock.ports.ledger import (
    FIRST_EPOCH,
    AdvanceFact,
    Append,
    AuditAppend,
    BeginLane,
    DropControls,
    DropTranscript,
    EraseAudit,
    Fenced,
    LedgerError,
    LedgerWrite,
    NameTaken,
    PutApproval,
    PutCommand,
    PutControl,
    PutFact,
    PutFile,
    PutIdempotency,
    PutSession,
    PutTranscript,
    Receipt,
    WriteBatch,
)
from interlock.protocol.records import AuditDraft, SessionRecord

UNBOUND = TailBound()
"""Of a ledger that no signer works on."""
CACHED_STREAMS = 65_536
"""Cached stream heads; beyond it, the cache is cleared."""
CACHED_ROWS = 65_536
"""Cached lanes' epochs, and sessions' rows."""
GATHERED = (queries.ADD_COMMANDS, queries.PUT_COMMANDS, queries.PUT_CONTROLS, queries.ADD_IDEMPOTENCY,
            queries.PUT_TRANSCRIPTS, queries.ADD_AUDIT, queries.ADD_AUDIT_NODES, queries.ADD_EVENTS,
            queries.ADD_STREAMS, queries.RAISE_STREAMS)
"""Tables whose rows are written together, at the end."""

SCOPES = 1_000_000
"""Idempotency scopes that one part of a filter holds at its rate of errors; then another one is begun."""
BIT_NUMBER = 24
"""Bits of a bit's number: a part takes 2 MB."""
PROBES = 4

ROWS_A_STEP = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Rows of one statement: each step of SQLite releases the interpreter lock, and reacquiring it from a busy event loop
can cost more than the row. Up to 63 rows are at most three statements of these sizes."""


def write_rows(connection: SqliteDatabase, table: queries.BufferedTable, rows: Sequence[Sequence[Value]]) -> None:
    """Write rows in their order. Raises SQLite's errors."""
    done = 0
    for size in ROWS_A_STEP:
        while len(rows) - done >= size:
            connection.execute(table.statement(size), [value for row in rows[done : done + size] for value in row])
            done += size


class Absent:
    """Knows of most idempotency scopes at once that they were never added: nearly every command comes under a key of
    its own. A Bloom filter: what was added is never called absent; of the rest, one in hundreds is looked up in vain.
    Any thread may add or ask."""

    def __init__(self) -> None:
        self._parts = [_part()]
        self._count = 0
        self._adding = Lock()  # Two threads that set bits of one byte would lose one.

    def add(self, scope: str) -> None:
        """Add a scope, which is never reported absent again."""
        with self._adding:
            if self._count >= SCOPES:
                self._parts = [*self._parts, _part()]
                self._count = 0
            self._count += 1
            part = self._parts[-1]
            for bit in _bits(scope):
                part[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, scope: str) -> bool:
        """Return whether the scope was certainly never added."""
        bits = _bits(scope)
        for part in self._parts:
            for bit in bits:
                if not part[bit >> 3] & (1 << (bit & 7)):
                    break
            else:
                return False
        return True


def _part() -> bytearray:
    return bytearray(1 << (BIT_NUMBER - 3))


def _bits(scope: str) -> list[int]:
    # The two halves of one hash make as many as are wanted.
    whole, mask = hash(scope), (1 << BIT_NUMBER) - 1
    start, step = whole & mask, whole >> 32 | 1
    return [(start + probe * step) & mask for probe in range(PROBES)]


class WriteBuffer:
    """The remaining writes of one transaction, in the order in which its tables are named."""

    def __init__(self, connection: SqliteDatabase, tables: Sequence[queries.BufferedTable]) -> None:
        self._connection = connection
        self._rows: dict[queries.BufferedTable, list[Sequence[Value]]] = {table: [] for table in tables}

    def add(self, table: queries.BufferedTable, row: Sequence[Value]) -> None:
        """Add a row for a later write."""
        self._rows[table].append(row)

    def write(self, table: queries.BufferedTable) -> None:
        """Write the rows of one table. Raises SQLite's errors."""
        waiting = self._rows[table]
        if waiting:
            write_rows(self._connection, table, waiting)
            waiting.clear()

    def write_all(self) -> None:
        """Write all. Raises SQLite's errors."""
        for table in self._rows:
            self.write(table)

    def forget(self) -> None:
        """Drop all: the transaction is rolled back."""
        for waiting in self._rows.values():
            waiting.clear()


class Transaction:
    """The writer's view of the store: its connection, and cached heads.

    The caches include the open transaction's changes, so `forget` must follow every rollback.
    """

    def __init__(self, connection: SqliteDatabase) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._pending = WriteBuffer(connection, GATHERED)
        self._epochs: dict[str, int] = {}
        self._commands: dict[str, PutCommand] = {}
        """The last write of each command of this transaction; `new` if the ledger does not have it yet."""
        self._sessions: dict[str, tuple[SessionRecord, Row]] = {}
        self._written: dict[str, Row] = {}
        """The parts of sessions' rows that a frame does not change."""
        self._streams: dict[str, list[int]] = {}
        self._opened: dict[str, None] = {}
        """Streams that this transaction begins, in the order of their ids."""
        self._dirty: set[str] = set()
        self._audit: dict[str, LogEnd] = {}
        self._dirty_audit: set[str] = set()
        self._last_stream_id = -1
        self.absent_scopes = Absent()
        """Idempotency scopes that were not written since the ledger was opened."""
        self._erased = False

    @property
    def connection(self) -> SqliteDatabase:
        """Return the connection, for other work in this transaction: it sees all that was done, and may change
        anything."""
        self.flush()
        self._epochs.clear()
        self._written.clear()
        return self._connection

    def apply(self, batch: WriteBatch, bound: TailBound = UNBOUND) -> Receipt:
        """Apply a batch; its audit records stay within `bound`. Raises Fenced, NameTaken, LedgerError or SQLite's own
        errors, with part of it done."""
        for lane, epoch in batch.epochs:
            self._check_epoch(lane.name, epoch)
        receipt = Receipt([], [])
        for write in batch.writes:
            if isinstance(write, Append):
                receipt.numbers.append(self._append(write))
            elif isinstance(write, AuditAppend):
                receipt.audit_seqs.append(self._seal(write.draft, bound))
            else:
                _WRITES[type(write)](self, write)
        return receipt

    def flush(self) -> None:
        """Write what has been collected; before the commit."""
        for name in self._opened:
            stream_id, head = self._streams[name]
            self._pending.add(queries.ADD_STREAMS, (stream_id, name, head))
        for name in self._dirty.difference(self._opened):
            stream_id, head = self._streams[name]
            self._pending.add(queries.RAISE_STREAMS, (stream_id, head))
        self._dirty.clear()
        self._opened.clear()
        for write in self._commands.values():
            self._pending.add(queries.ADD_COMMANDS if write.new else queries.PUT_COMMANDS,
                              rows.command_row(write.record))
        self._commands.clear()
        self._write_idempotency()
        self._pending.write_all()
        self._write_sessions()
        for tenant_id in sorted(self._dirty_audit):
            log = self._audit[tenant_id]
            self._execute(queries.PUT_AUDIT_HEAD, (tenant_id, log.size, log.last_hash, log.peaks))
        self._dirty_audit.clear()
        if len(self._streams) > CACHED_STREAMS:
            self._streams.clear()
        for kept in (self._epochs, self._written):
            if len(kept) > CACHED_ROWS:
                kept.clear()

    def forget(self) -> None:
        """Drop everything that a rolled back transaction may have changed."""
        self._streams.clear()
        self._dirty.clear()
        self._opened.clear()
        self._pending.forget()
        self._epochs.clear()
        self._commands.clear()
        self._sessions.clear()
        self._written.clear()
        self._audit.clear()
        self._dirty_audit.clear()
        self._last_stream_id = -1

    def take(self, lane: str) -> int:
        """Assign a lane its next epoch."""
        epoch = self._epochs[lane] = int(self._execute(queries.TAKE_LANE, (lane,)).get)
        return epoch

    def _check_epoch(self, lane: str, epoch: int) -> None:
        held = self._epochs.get(lane)
        if held is None:
            held = self._execute(queries.LANE_EPOCH, (lane,)).get
            if held is not None:
                self._epochs[lane] = held
        if held != epoch:
            raise Fenced(f"The lane {lane} has the epoch {held or 0}, and the batch carries {epoch}: another owner "
                         "took it.")

    def _append(self, write: Append) -> int:
        stream = self._streams.get(write.stream)
        if stream is None:
            stream = self._streams[write.stream] = self._find_stream(write.stream, opens=write.opens)
        number = stream[1] = stream[1] + 1
        self._dirty.add(write.stream)
        place = (stream[0] << queries.STREAM_BITS) + number
        self._pending.add(queries.ADD_EVENTS, (place, write.kind, write.at_ms, write.message_id, write.body))
        return number

    def _find_stream(self, name: str, *, opens: bool) -> list[int]:
        # A stream declared as new that is not fails by its name, which two streams cannot have.
        found = self._execute(queries.STREAM_BY_NAME, (name,)).fetchone() if not opens else None
        if found is not None:
            return [int(found[0]), int(found[1])]
        if self._last_stream_id < 0:
            self._last_stream_id = int(self._execute(queries.LAST_STREAM_ID).get)
        self._last_stream_id += 1
        self._opened[name] = None
        return [self._last_stream_id, 0]

    def _seal(self, draft: AuditDraft, bound: TailBound) -> int:
        log = self._audit.get(draft.tenant_id)
        if log is None:
            found = self._execute(queries.AUDIT_TREE, (draft.tenant_id,)).fetchone()
            row = self._execute(queries.STORE_VALUE, (CHECKPOINT_FACT + draft.tenant_id,)).fetchone()
            noted = str(row[0]) if row else None
            log = LogEnd(found[0], found[2], str(found[1]), noted) if found else LogEnd(noted=noted)
            self._audit[draft.tenant_id] = log
        try:
            record, subtrees = log.append(draft, bound, [os.urandom(SALT_BYTES) for _ in draft.personal])
        except TailFull as full:
            raise NoRoom(full) from None
        except AuditRefused as error:
            raise LedgerError(str(error)) from error
        self._pending.add(queries.ADD_AUDIT, (record.tenant_id, record.seq, record.hash, record.body))
        for name, (salt, value) in record.personal.items():
            self._execute(queries.ADD_AUDIT_PERSONAL,
                          (record.tenant_id, record.seq, name, draft.who["id"], salt, value))
        for subtree in subtrees:
            self._pending.add(queries.ADD_AUDIT_NODES, (record.tenant_id, *subtree))
        self._dirty_audit.add(draft.tenant_id)
        return record.seq

    def take_erased(self) -> bool:
        """Return whether personal data was erased since the last call."""
        erased, self._erased = self._erased, False
        return erased

    def erase_audit(self, write: EraseAudit) -> None:
        self._erased = True
        # Deleted personal data is overwritten in the file; other data that is deleted daily need not be.
        self._connection.pragma("secure_delete", True)
        try:
            for seq in write.seqs:
                self._execute(queries.ERASE_AUDIT_PERSONAL, (write.tenant_id, seq))
        finally:
            self._connection.pragma("secure_delete", False)

    def begin_lane(self, write: BeginLane) -> None:
        try:
            self._execute(queries.BEGIN_LANE, (write.lane.name, FIRST_EPOCH))
        except apsw.ConstraintError as error:
            raise Fenced(f"The lane {write.lane.name} is begun, and has been taken before.") from error
        self._epochs[write.lane.name] = FIRST_EPOCH

    def advance_fact(self, write: AdvanceFact) -> None:
        if self._execute(queries.ADVANCE_STORE_VALUE, (write.name, write.value)).get is not None:
            self._note_checkpoint(write)

    def put_fact(self, write: PutFact) -> None:
        self._execute(queries.PUT_STORE_VALUE, (write.name, write.value))
        self._note_checkpoint(write)

    def _note_checkpoint(self, write: PutFact | AdvanceFact) -> None:
        if write.name.startswith(CHECKPOINT_FACT):
            log = self._audit.get(write.name.removeprefix(CHECKPOINT_FACT))
            if log is not None:
                log.note_checkpoint(write.value)

    def put_session(self, write: PutSession) -> None:
        self._sessions[write.record.session_id] = (write.record, rows.session_touch(write.record))

    def _write_sessions(self) -> None:
        touched: list[Row] = []
        for session_id, (record, touch) in self._sessions.items():
            if self._written.get(session_id) == touch[4:]:
                touched.append(touch[:4])
                continue
            self._execute(queries.TOUCH_SESSION, touch)
            if not self._connection.changes():
                self._execute(queries.PUT_SESSION, rows.session_row(record))
            self._written[session_id] = touch[4:]
        write_rows(self._connection, queries.TOUCH_SESSIONS, touched)
        self._sessions.clear()

    def put_command(self, write: PutCommand) -> None:
        id_ = write.record.command.id
        before = self._commands.get(id_)
        self._commands[id_] = PutCommand(write.record, new=True) if before is not None and before.new else write

    def put_approval(self, write: PutApproval) -> None:
        self._execute(queries.PUT_APPROVAL, rows.approval_row(write.record))

    def write_entity(self, write: entities.EntityWrite) -> None:
        entities.apply(self._connection, write)

    def put_control(self, write: PutControl) -> None:
        record = write.record
        self._pending.add(queries.PUT_CONTROLS, (record.session_id, record.seq, record.message_id, record.body))

    def put_file(self, write: PutFile) -> None:
        self._execute(queries.ADD_FILE, rows.file_row(write.record))

    def drop_controls(self, write: DropControls) -> None:
        self._pending.write(queries.PUT_CONTROLS)
        self._execute(queries.DROP_CONTROLS, (write.session_id, write.seq))

    def put_idempotency(self, write: PutIdempotency) -> None:
        self.absent_scopes.add(write.record.scope)
        self._pending.add(queries.ADD_IDEMPOTENCY, rows.idempotency_row(write.record))

    def _write_idempotency(self) -> None:
        try:
            self._pending.write(queries.ADD_IDEMPOTENCY)
        except apsw.ConstraintError as error:
            raise NameTaken("An answer is kept under this idempotency key already.") from error

    def put_transcript(self, write: PutTranscript) -> None:
        line = write.line
        self._pending.add(queries.PUT_TRANSCRIPTS, (line.session_id, line.entry_id, line.line))

    def drop_transcript(self, write: DropTranscript) -> None:
        self._pending.write(queries.PUT_TRANSCRIPTS)
        for entry_id in write.entry_ids:
            self._execute(queries.DROP_TRANSCRIPT, (write.session_id, entry_id))


_WRITES: dict[type[LedgerWrite], Callable[..., None]] = {
    BeginLane: Transaction.begin_lane,
    EraseAudit: Transaction.erase_audit,
    AdvanceFact: Transaction.advance_fact,
    PutFact: Transaction.put_fact,
    PutSession: Transaction.put_session,
    PutCommand: Transaction.put_command,
    PutApproval: Transaction.put_approval,
    PutControl: Transaction.put_control,
    PutFile: Transaction.put_file,
    DropControls: Transaction.drop_controls,
    PutIdempotency: Transaction.put_idempotency,
    PutTranscript: Transaction.put_transcript,
    DropTranscript: Transaction.drop_transcript,
    **dict.fromkeys(get_args(entities.EntityWrite), Transaction.write_entity),
}
