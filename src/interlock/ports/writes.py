"""What a transaction of the ledger can do, each as data."""

from __future__ import annotations

import msgspec

from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    BrowserLoginRecord,
    CommandRecord,
    ControlRecord,
    DeliveryRecord,
    DrainRecord,
    EventKind,
    FileRecord,
    IdempotencyRecord,
    KeyRecord,
    PairingRecord,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    TranscriptLine,
    UsageRecord,
)


class LedgerWrite(msgspec.Struct, frozen=True):
    """One thing a transaction does."""


class Append(LedgerWrite, frozen=True, gc=False):
    """Append to a numbered stream; the ledger gives the number."""

    stream: str
    kind: EventKind
    at_ms: int
    body: bytes
    message_id: str = ""
    opens: bool = False
    """Nothing was ever appended to the stream, so that it need not be looked for; where something was, the whole batch
    may fail."""


class BeginLane(LedgerWrite, frozen=True):
    """Give a lane its FIRST_EPOCH; one that was ever taken fails the whole batch with `Fenced` (C-4). The batch itself
    names no epoch of it; those that do follow once this one is durable."""

    lane: str


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
    """Insert or replace by (session_id, seq)."""

    record: ControlRecord


class PutFile(LedgerWrite, frozen=True):
    """Insert; a transfer that the session has already stays as it is."""

    record: FileRecord


class DropControls(LedgerWrite, frozen=True):
    """Forget the control frames of a session up to and including `seq`."""

    session_id: str
    seq: int


class PutIdempotency(LedgerWrite, frozen=True):
    """Insert; a scope that exists already fails the whole batch with `Taken`."""

    record: IdempotencyRecord


class PutRunner(LedgerWrite, frozen=True):
    """Insert or replace by runner_id."""

    record: RunnerRecord


class SeeRunner(LedgerWrite, frozen=True):
    """Note when a runner was last seen, and nothing else of it; one that is not there is passed over."""

    tenant_id: str
    runner_id: str
    at_ms: int


class PutPairing(LedgerWrite, frozen=True):
    """Insert; a code that exists already fails the whole batch with `Taken`."""

    record: PairingRecord


class SpendPairing(LedgerWrite, frozen=True):
    """Forget a code that is there and has not expired at `now_ms`; else the whole batch fails with `Spent`."""

    tenant_id: str
    code_sha256: str
    now_ms: int


class DropPairings(LedgerWrite, frozen=True):
    """Forget the codes that have expired at `now_ms`."""

    now_ms: int


class PutKey(LedgerWrite, frozen=True):
    """Insert or replace by key_id."""

    record: KeyRecord


class PutBrowserLogin(LedgerWrite, frozen=True):
    """Insert; an id that exists already fails the whole batch with `Taken` (J-15)."""

    record: BrowserLoginRecord


class SpendBrowserLogin(LedgerWrite, frozen=True):
    """Forget a session or a code that is there and has not expired at `now_ms`; else the whole batch fails with
    `Spent`."""

    tenant_id: str
    id: str
    now_ms: int


class ChangeBrowserLogin(LedgerWrite, frozen=True):
    """Replace a session of this tenant that is there by its id, without when it was last used; else the whole batch
    fails with `Spent`."""

    record: BrowserLoginRecord


class UseBrowserLogin(LedgerWrite, frozen=True):
    """Note when a session was last used, and nothing else of it; one that is not there is passed over."""

    tenant_id: str
    id: str
    at_ms: int


class DropBrowserLogins(LedgerWrite, frozen=True):
    """Forget the sessions and codes that have expired at `now_ms`."""

    now_ms: int


class PutRule(LedgerWrite, frozen=True):
    """Insert or replace a remembered rule by its id (A-9)."""

    record: RuleRecord


class PutDrain(LedgerWrite, frozen=True):
    """Insert or replace by tenant, scope and name (C-5)."""

    record: DrainRecord


class DropDrain(LedgerWrite, frozen=True):
    """Forget a drain; `name` is empty where the scope is the gateway."""

    tenant_id: str
    scope: str
    name: str


class PutSigningKey(LedgerWrite, frozen=True):
    """Insert or replace by key_id (P-4)."""

    record: SigningKeyRecord


class Spend(LedgerWrite, frozen=True):
    """Add to a pot's figures (P-7); one that is not there begins with them."""

    record: SpendingRecord


class DropSpending(LedgerWrite, frozen=True):
    """Forget the pots of the days before this one."""

    before_day: int


class CountUsage(LedgerWrite, frozen=True):
    """Add to the figures of a day's usage (J-13); a place that is not there begins with them."""

    record: UsageRecord


class DropUsage(LedgerWrite, frozen=True):
    """Forget the usage of the days before this one."""

    before_day: int


class UseKey(LedgerWrite, frozen=True):
    """Note when a key was last used, and nothing else of it; one that is not there is passed over."""

    tenant_id: str
    key_id: str
    at_ms: int


class PutTenant(LedgerWrite, frozen=True):
    """Insert or replace by tenant_id."""

    record: TenantRecord


class PutDelivery(LedgerWrite, frozen=True):
    """Insert or replace a question to approvers by its id (P-8)."""

    record: DeliveryRecord


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


class PutTranscript(LedgerWrite, frozen=True):
    """Keep a transcript line until the file has it (X-3); order is the order of writes."""

    line: TranscriptLine


class DropTranscript(LedgerWrite, frozen=True):
    """Forget lines that are in the file."""

    session_id: str
    entry_ids: tuple[str, ...]
