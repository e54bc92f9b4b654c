"""The writes of a ledger transaction, each as data."""

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
    """A write within a transaction."""


class Append(LedgerWrite, frozen=True, gc=False):
    """Appends to a numbered stream of a tenant; the ledger assigns the number. A stream belongs to one tenant."""

    tenant_id: str
    stream: str
    kind: EventKind
    at_ms: int
    body: bytes
    message_id: str = ""
    opens: bool = False
    """Whether the stream is known to be empty, so that it need not be looked up; if it is not, the whole batch may
    fail."""


class LaneName(NamedTuple):
    """A lane, and the tenant of its row: "" if the lane belongs to the whole cluster."""

    tenant_id: str
    name: str
    """The session's id, or the name of other work that is serialised. No two lanes have the same."""


class BeginLane(LedgerWrite, frozen=True):
    """Assigns a lane its FIRST_EPOCH; a lane that was ever taken fails the whole batch with `Fenced` (C-4). The batch
    names no epoch of it; later ones do, once this one is durable."""

    lane: LaneName


class PutSession(LedgerWrite, frozen=True):
    """Inserts or replaces by session_id."""

    record: SessionRecord


class PutCommand(LedgerWrite, frozen=True):
    """Inserts or replaces by command id. A command keeps its tenant, session, agent, actor and type."""

    record: CommandRecord
    new: bool = False
    """Whether the ledger cannot have a command of this id yet."""


class PutApproval(LedgerWrite, frozen=True):
    """Inserts or replaces by approval id. An approval keeps its tenant and session."""

    record: ApprovalRecord


class PutControl(LedgerWrite, frozen=True):
    """Inserts or replaces by (tenant_id, session_id, seq)."""

    record: ControlRecord
    tenant_id: str


class PutFile(LedgerWrite, frozen=True):
    """Inserts; a transfer that the session has already stays as it is."""

    record: FileRecord
    tenant_id: str


class DropControls(LedgerWrite, frozen=True):
    """Deletes the control frames of a session up to and including `seq`."""

    tenant_id: str
    session_id: str
    seq: int


class PutIdempotency(LedgerWrite, frozen=True):
    """Inserts; a scope that its tenant has already fails the whole batch with `NameTaken`."""

    record: IdempotencyRecord


class Put(LedgerWrite, frozen=True):
    """Inserts or replaces a row by its entity's key. If the entity has `once`, an existing key fails the whole batch
    with `NameTaken`, as does a duplicate of a unique value."""

    record: Record


class Add(LedgerWrite, frozen=True):
    """Adds to the figures of a row (`Entity.adds`); a missing row is created with them."""

    record: Record


class Change(LedgerWrite, frozen=True):
    """Replaces an existing row of this tenant, except its noted column; if there is none, the whole batch fails with
    `Spent`."""

    record: Record


class Note(LedgerWrite, frozen=True):
    """Writes the noted column of a row (when it was last seen or used) only; a missing row is skipped."""

    entity: Entity[Any]
    tenant_id: str
    key: str
    at_ms: int


class Redeem(LedgerWrite, frozen=True):
    """Deletes a row that has not expired at `now_ms`; if there is none, the whole batch fails with `Spent`."""

    entity: Entity[Any]
    tenant_id: str
    key: str
    now_ms: int


class Expire(LedgerWrite, frozen=True):
    """Deletes the rows of all tenants that have expired (`Entity.expires`) at `until`."""

    entity: Entity[Any]
    until: int


class Drop(LedgerWrite, frozen=True):
    """Deletes a row by its whole key."""

    entity: Entity[Any]
    key: tuple[str, ...]


class AuditAppend(LedgerWrite, frozen=True):
    """Seals a draft into its tenant's chain (U-2): number, previous hash and own hash are computed in this
    transaction."""

    draft: AuditDraft


class EraseAudit(LedgerWrite, frozen=True):
    """Deletes the personal values of these records and their salts for good; the records stay as they are (U-4)."""

    tenant_id: str
    seqs: tuple[int, ...]


class PutFact(LedgerWrite, frozen=True):
    """Inserts or replaces a fact that a gateway stores about itself, by name."""

    name: str
    value: str


class AdvanceFact(LedgerWrite, frozen=True):
    """Writes a fact that begins with a number and a space, unless the stored one begins with a larger number. If two
    gateways write it at the same time, the larger number wins, whichever commits last."""

    name: str
    value: str


class PutTranscript(LedgerWrite, frozen=True):
    """Stores a transcript line until it is in the file (X-3); order is the order of writes."""

    line: TranscriptLine


class DropTranscript(LedgerWrite, frozen=True):
    """Deletes lines that are in the file."""

    tenant_id: str
    session_id: str
    entry_ids: tuple[str, ...]
