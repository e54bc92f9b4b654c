"""The dicts of the ledger in memory, and the effects of a transaction on them, atomically."""

from __future__ import annotations

from interlock.backends.audit_room import AuditedLedger, AuditRoom, NoRoom
from interlock.backends.memory.audit_log import MemoryAudit
from interlock.backends.memory.entities import MemoryEntities, Undo, drop, put
from interlock.backends.memory.events import Streams
from interlock.backends.rows import ended_ms
from interlock.command.audit.audit import CHECKPOINT_FACT, TailFull, noted_size
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
    LaneName,
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
from interlock.protocol.records import (
    ApprovalRecord,
    CommandRecord,
    ControlRecord,
    Event,
    FileRecord,
    IdempotencyRecord,
    SessionRecord,
    TranscriptLine,
)


class MemoryTables(AuditedLedger, MemoryEntities):
    """The ledger's data, and its writes. A dict keeps the order of insertion, so lists are in the same order as from a
    disk."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = False
        self.lanes: dict[LaneName, int] = {}  # Their epochs, which `MemoryLeases` gives too.
        self._streams = Streams()
        self._stream_tenants: dict[str, str] = {}
        self._sessions: dict[str, SessionRecord] = {}
        self._commands: dict[str, CommandRecord] = {}
        self._approvals: dict[str, ApprovalRecord] = {}
        self._controls: dict[tuple[str, str, int], ControlRecord] = {}
        self._files: dict[tuple[str, str, str], FileRecord] = {}
        self._idempotency: dict[tuple[str, str], IdempotencyRecord] = {}
        self._audit = MemoryAudit()
        self._facts: dict[str, str] = {}

        self._room = AuditRoom()
        self._transcript: dict[tuple[str, str, str], TranscriptLine] = {}

    async def commit(self, batch: WriteBatch) -> Receipt:
        return await self._room.commit(batch, self._write)

    async def _write(self, batch: WriteBatch) -> Receipt:
        self._check_open()
        for lane, epoch in batch.epochs:
            if self.lanes.get(lane) != epoch:
                raise Fenced(f"The lane {lane.name} has the epoch {self.lanes.get(lane, 0)}, and the batch carries "
                             f"{epoch}: another owner took it.")
        receipt = Receipt([], [])
        undo: Undo = []
        try:
            for write in batch.writes:
                self._apply(write, receipt, undo)
        except (LedgerError, ValueError) as error:
            for step in reversed(undo):
                step()
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(f"The batch could not be written: {error}") from error
        return receipt

    def _apply(self, write: LedgerWrite, receipt: Receipt, undo: Undo) -> None:
        """Apply a write of sessions, their streams and commands; forward the others."""
        match write:
            case Append():
                receipt.numbers.append(self._append(write, undo))
            case AuditAppend():
                receipt.audit_seqs.append(self._seal(write, undo))
            case PutSession(record):
                put(self._sessions, record.session_id, record, undo)
            case PutCommand(record):
                ended_ms(record)
                put(self._commands, record.command.id, record, undo)
            case PutIdempotency(record):
                if (record.tenant_id, record.scope) in self._idempotency:
                    raise NameTaken("An answer is kept under this idempotency key already.")
                put(self._idempotency, (record.tenant_id, record.scope), record, undo)
            case EraseAudit(tenant_id, seqs):
                self._audit.erase(tenant_id, seqs, undo)
            case PutApproval(record):
                put(self._approvals, record.approval.id, record, undo)
            case PutControl(record, tenant_id):
                put(self._controls, (tenant_id, record.session_id, record.seq), record, undo)
            case PutFile(record, tenant_id):
                key = (tenant_id, record.session_id, record.transfer_id)
                if key not in self._files:
                    put(self._files, key, record, undo)
            case DropControls(tenant_id, session_id, seq):
                drop(self._controls, [key for key in self._controls
                                      if key[:2] == (tenant_id, session_id) and key[2] <= seq], undo)
            case BeginLane(lane):
                if lane in self.lanes:
                    raise Fenced(f"The lane {lane.name} is begun, and has been taken before.")
                put(self.lanes, lane, FIRST_EPOCH, undo)
            case PutTranscript(line):
                put(self._transcript, (line.tenant_id, line.session_id, line.entry_id), line, undo)
            case DropTranscript(tenant_id, session_id, entry_ids):
                drop(self._transcript, [(tenant_id, session_id, entry_id) for entry_id in entry_ids], undo)
            case PutFact(name, value):
                put(self._facts, name, value, undo)
            case AdvanceFact(name, value):
                if (noted_size(self._facts.get(name)) or 0) <= (noted_size(value) or 0):
                    put(self._facts, name, value, undo)
            case _:
                if not self.write_entity(write, undo):
                    raise LedgerError(f"The ledger knows no write {type(write).__name__}.")

    def _seal(self, write: AuditAppend, undo: Undo) -> int:
        tenant_id = write.draft.tenant_id
        try:
            self._room.bound.check(tenant_id, len(self._audit.records(tenant_id)),
                                   self._facts.get(CHECKPOINT_FACT + tenant_id))
        except TailFull as full:
            raise NoRoom(full) from None
        return self._audit.seal(write.draft, undo)

    def _has_stream(self, tenant_id: str, stream: str) -> bool:
        return self._stream_tenants.get(stream) == tenant_id

    def _append(self, write: Append, undo: Undo) -> int:
        if write.stream not in self._stream_tenants:
            put(self._stream_tenants, write.stream, write.tenant_id, undo)
        elif self._stream_tenants[write.stream] != write.tenant_id:
            raise NameTaken(f"The stream {write.stream} is another tenant's.")
        number = self._streams.head(write.stream) + 1
        self._streams.add(Event(stream=write.stream, n=number, kind=write.kind, at_ms=write.at_ms, body=write.body,
                                message_id=write.message_id))
        undo.append(lambda: self._streams.take_back(write.stream))
        return number

    async def take(self, lane: LaneName) -> int:
        self._check_open()
        self.lanes[lane] = self.lanes.get(lane, 0) + 1
        return self.lanes[lane]

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError("The ledger is closed.")
