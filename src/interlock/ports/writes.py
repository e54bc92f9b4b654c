"""What a transaction of the ledger can do, each as data."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from interlock.ports.entities import Entity
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    CommandRecord,
    ControlRecord,
    EventKind,
    FileRecord,
    IdempotencyRecord,
    Record,
    SessionRecord,
    TranscriptLine,
)


class LedgerWrite(msgspec.Struct, frozen=True):
    """One thing a transaction does."""


class Append(LedgerWrite, frozen=True, gc=False):
    """Append to a numbered stream of a tenant; the ledger gives the number. A stream belongs to one tenant."""

    tenant_id: str
    stream: str
    kind: EventKind
    at_ms: int
    body: bytes
    message_id: str = ""
    opens: bool = False
    """Nothing was ever appended to the stream, so that it need not be looked for; where something was, the whole batch
    may fail."""


class LaneName(NamedTuple):
    """A lane, and the tenant that its row is found by: "" if it is of the whole cluster."""

    tenant_id: str
    name: str
    """The session's id, or what else is done by one at a time. No two lanes have the same."""


class BeginLane(LedgerWrite, frozen=True):
    """Assign a lane its FIRST_EPOCH; one that was ever taken fails the whole batch with `Fenced` (C-4). The batch names
    no epoch of it; those that do follow once this one is durable."""

    lane: LaneName


class PutSession(LedgerWrite, frozen=True):
    """Insert or replace by session_id."""

    record: SessionRecord


class PutCommand(LedgerWrite, frozen=True):
    """Insert or replace by command id."""

    record: CommandRecord


class PutApproval(LedgerWrite, frozen=True):
    """Insert or replace by approval id."""

    record: ApprovalRecord


class PutControl(LedgerWrite, frozen=True):
    """Insert or replace by (tenant_id, session_id, seq)."""

    record: ControlRecord
    tenant_id: str


class PutFile(LedgerWrite, frozen=True):
    """Insert; a transfer that the session has already stays as it is."""

    record: FileRecord
    tenant_id: str


class DropControls(LedgerWrite, frozen=True):
    """Forget the control frames of a session up to and including `seq`."""

    tenant_id: str
    session_id: str
    seq: int


class PutIdempotency(LedgerWrite, frozen=True):
    """Insert; a scope that its tenant has already fails the whole batch with `NameTaken`."""

    record: IdempotencyRecord


class Put(LedgerWrite, frozen=True):
    """Insert or replace a row by its entity's key. Where the entity says `once`, a key that exists already fails the
    whole batch with `NameTaken`, as does a value that another row must not have."""

    record: Record


class Add(LedgerWrite, frozen=True):
    """Add to the figures of a row (`Entity.adds`); one that is not there begins with them."""

    record: Record


class Change(LedgerWrite, frozen=True):
    """Replace a row of this tenant that is there, all but its noted column; else the whole batch fails with `Spent`."""

    record: Record


class Note(LedgerWrite, frozen=True):
    """Write the noted column of a row (when it was last seen or used), and nothing else of it; a row that is not there
    is passed over."""

    entity: Entity[Any]
    tenant_id: str
    key: str
    at_ms: int


class Redeem(LedgerWrite, frozen=True):
    """Forget a row that is there and has not expired at `now_ms`; else the whole batch fails with `Spent`."""

    entity: Entity[Any]
    tenant_id: str
    key: str
    now_ms: int


class Expire(LedgerWrite, frozen=True):
    """Forget the rows of all tenants that have expired (`Entity.expires`) at `until`."""

    entity: Entity[Any]
    until: int


class Drop(LedgerWrite, frozen=True):
    """Forget a row by its whole key."""

    entity: Entity[Any]
    key: tuple[str, ...]


class AuditAppend(LedgerWrite, frozen=True):
    """Seal a draft into its tenant's chain (U-2): number, previous hash, own hash, in this transaction."""

    draft: AuditDraft


class EraseAudit(LedgerWrite, frozen=True):
    """Forget the personal values of these records and their salts for good; the records stay as they are (U-4)."""

    tenant_id: str
    seqs: tuple[int, ...]


class PutFact(LedgerWrite, frozen=True):
    """Insert or replace one of the few facts that a gateway keeps about itself, by name."""

    name: str
    value: str


class AdvanceFact(LedgerWrite, frozen=True):
    """Put a fact that begins with a number and a blank, unless the one that is there begins with a larger number. Of
    two gateways that write it at the same time, the one that is further counts, whichever commits last."""

    name: str
    value: str


class PutTranscript(LedgerWrite, frozen=True):
    """Keep a transcript line until the file has it (X-3); order is the order of writes."""

    line: TranscriptLine


class DropTranscript(LedgerWrite, frozen=True):
    """Forget lines that are in the file."""

    tenant_id: str
    session_id: str
    entry_ids: tuple[str, ...]
