"""The dicts of the ledger in memory, and what a transaction does to them: all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import msgspec

from interlock.backends.audit_room import AuditRoom, NoRoom
from interlock.backends.memory.audit_log import MemoryAudit
from interlock.backends.memory.events import Streams
from interlock.command.audit_tail import CHECKPOINT_FACT, TailFull
from interlock.command.machine import TERMINAL
from interlock.ports.ledger import (
    FIRST_EPOCH,
    Append,
    AuditAppend,
    BeginLane,
    ChangeBrowserLogin,
    CountUsage,
    DropBrowserLogins,
    DropControls,
    DropDrain,
    DropPairings,
    DropSpending,
    DropTranscript,
    DropUsage,
    EraseAudit,
    Fenced,
    LedgerError,
    LedgerWrite,
    NameTaken,
    PutApproval,
    PutBrowserLogin,
    PutCommand,
    PutControl,
    PutDelivery,
    PutDrain,
    PutFact,
    PutFile,
    PutIdempotency,
    PutKey,
    PutPairing,
    PutRule,
    PutRunner,
    PutSession,
    PutSigningKey,
    PutTenant,
    PutTranscript,
    Receipt,
    SeeRunner,
    Spend,
    SpendBrowserLogin,
    SpendPairing,
    Spent,
    UseBrowserLogin,
    UseKey,
    WriteBatch,
    audited,
)
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import (
    ApprovalRecord,
    BrowserLoginRecord,
    CommandRecord,
    ControlRecord,
    DeliveryRecord,
    DrainRecord,
    Event,
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

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Undo = list[Callable[[], object]]


class MemoryTables:
    """What the ledger holds, and its writes. A dict keeps the order of insertion, so lists come out as from a disk."""

    def __init__(self) -> None:
        self._closed = False
        self.lanes: dict[str, int] = {}  # Their epochs, which `MemoryLeases` gives too.
        self._streams = Streams()
        self._sessions: dict[str, SessionRecord] = {}
        self._commands: dict[str, CommandRecord] = {}
        self._approvals: dict[str, ApprovalRecord] = {}
        self._controls: dict[tuple[str, int], ControlRecord] = {}
        self._files: dict[tuple[str, str], FileRecord] = {}
        self._idempotency: dict[str, IdempotencyRecord] = {}
        self._deliveries: dict[str, DeliveryRecord] = {}
        self._rules: dict[str, RuleRecord] = {}
        self._drains: dict[tuple[str, str, str], DrainRecord] = {}
        self._signing_keys: dict[str, SigningKeyRecord] = {}
        self._spending: dict[tuple[str, str, str, int], SpendingRecord] = {}
        self._usage: dict[tuple[str, int, str, str, str, str], UsageRecord] = {}
        self._runners: dict[str, RunnerRecord] = {}
        self._pairings: dict[str, PairingRecord] = {}
        self._browser_logins: dict[str, BrowserLoginRecord] = {}
        self._keys: dict[str, KeyRecord] = {}
        self._tenants: dict[str, TenantRecord] = {}
        self._audit = MemoryAudit()
        self._facts: dict[str, str] = {}
        self._on_audit: list[Callable[[str, int], None]] = []
        self._room = AuditRoom()
        self._transcript: dict[tuple[str, str], TranscriptLine] = {}

    async def commit(self, batch: WriteBatch) -> Receipt:
        return await self._room.commit(batch, self._write)

    async def _write(self, batch: WriteBatch) -> Receipt:
        self._check_open()
        for lane, epoch in batch.epochs:
            if self.lanes.get(lane) != epoch:
                raise Fenced(f"The lane {lane} has the epoch {self.lanes.get(lane, 0)}, and the batch carries "
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
        for told in self._on_audit:
            for tenant_id, seq in audited(batch, receipt).items():
                told(tenant_id, seq)
        return receipt

    def _apply(self, write: LedgerWrite, receipt: Receipt, undo: Undo) -> None:
        """Apply a write of sessions, their streams and commands; hand the others on."""
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
                if record.scope in self._idempotency:
                    raise NameTaken("An answer is kept under this idempotency key already.")
                put(self._idempotency, record.scope, record, undo)
            case EraseAudit(tenant_id, seqs):
                self._audit.erase(tenant_id, seqs, undo)
            case PutApproval(record):
                put(self._approvals, record.approval.id, record, undo)
            case PutControl(record):
                put(self._controls, (record.session_id, record.seq), record, undo)
            case PutFile(record):
                if (record.session_id, record.transfer_id) not in self._files:
                    put(self._files, (record.session_id, record.transfer_id), record, undo)
            case DropControls(session_id, seq):
                drop(self._controls, [key for key in self._controls if key[0] == session_id and key[1] <= seq], undo)
            case BeginLane(lane):
                if lane in self.lanes:
                    raise Fenced(f"The lane {lane} is begun, and has been taken before.")
                put(self.lanes, lane, FIRST_EPOCH, undo)
            case PutTranscript(line):
                put(self._transcript, (line.session_id, line.entry_id), line, undo)
            case DropTranscript(session_id, entry_ids):
                drop(self._transcript, [(session_id, entry_id) for entry_id in entry_ids], undo)
            case _:
                self._apply_access(write, undo)

    def _apply_access(self, write: LedgerWrite, undo: Undo) -> None:
        """Apply a write of what lets in: runners, pairings, logins, keys and tenants; hand the others on."""
        match write:
            case PutRunner(record):
                if any(other.token_sha256 == record.token_sha256 and other.runner_id != record.runner_id
                       for other in self._runners.values()):
                    raise NameTaken("Another runner has this token.")
                put(self._runners, record.runner_id, record, undo)
            case SeeRunner(tenant_id, runner_id, at_ms):
                if (seen := self._runners.get(runner_id)) is not None and seen.tenant_id == tenant_id:
                    put(self._runners, runner_id, msgspec.structs.replace(seen, last_seen_ms=at_ms), undo)
            case PutPairing(record):
                if record.code_sha256 in self._pairings:
                    raise NameTaken("This code is given out already.")
                put(self._pairings, record.code_sha256, record, undo)
            case SpendPairing(tenant_id, code_sha256, now_ms):
                good = self._pairings.get(code_sha256)
                if good is None or good.tenant_id != tenant_id or good.expires_ms <= now_ms:
                    raise Spent("This code is not known, or no longer good.")
                drop(self._pairings, [code_sha256], undo)
            case DropPairings(now_ms):
                drop(self._pairings, [key for key, one in self._pairings.items() if one.expires_ms <= now_ms], undo)
            case PutBrowserLogin(record):
                if record.id in self._browser_logins:
                    raise NameTaken("This browser session or code exists already.")
                put(self._browser_logins, record.id, record, undo)
            case SpendBrowserLogin(tenant_id, login_id, now_ms):
                there = self._browser_logins.get(login_id)
                if there is None or there.tenant_id != tenant_id or there.expires_ms <= now_ms:
                    raise Spent("This browser session or code is not known, or no longer good.")
                drop(self._browser_logins, [login_id], undo)
            case ChangeBrowserLogin(record):
                login = self._browser_logins.get(record.id)
                if login is None or login.tenant_id != record.tenant_id:
                    raise Spent("This browser session is not known, or no longer good.")
                put(self._browser_logins, record.id,
                    msgspec.structs.replace(record, last_used_ms=login.last_used_ms), undo)
            case UseBrowserLogin(tenant_id, login_id, at_ms):
                if (login := self._browser_logins.get(login_id)) is not None and login.tenant_id == tenant_id:
                    put(self._browser_logins, login_id, msgspec.structs.replace(login, last_used_ms=at_ms), undo)
            case DropBrowserLogins(now_ms):
                drop(self._browser_logins,
                     [key for key, one in self._browser_logins.items() if one.expires_ms <= now_ms], undo)
            case PutKey(record):
                if any(other.key_sha256 == record.key_sha256 and other.key_id != record.key_id
                       for other in self._keys.values()):
                    raise NameTaken("Another key has this secret.")
                put(self._keys, record.key_id, record, undo)
            case UseKey(tenant_id, key_id, at_ms):
                if (used := self._keys.get(key_id)) is not None and used.tenant_id == tenant_id:
                    put(self._keys, key_id, msgspec.structs.replace(used, last_used_ms=at_ms), undo)
            case PutTenant(record):
                put(self._tenants, record.tenant_id, record, undo)
            case _:
                self._apply_account(write, undo)

    def _apply_account(self, write: LedgerWrite, undo: Undo) -> None:
        """Apply a write of rules, budgets, usage, drains, deliveries, signing keys and facts."""
        match write:
            case PutFact(name, value):
                put(self._facts, name, value, undo)
            case PutDelivery(record):
                put(self._deliveries, record.delivery.id, record, undo)
            case PutRule(record):
                put(self._rules, record.rule.id, record, undo)
            case PutSigningKey(record):
                put(self._signing_keys, record.key.key_id, record, undo)
            case Spend(record):
                place = (record.tenant_id, record.budget, record.scope, record.day)
                had = self._spending.get(place)
                put(self._spending, place, record if had is None else msgspec.structs.replace(
                    had, spent_micros=had.spent_micros + record.spent_micros,
                    raised_micros=had.raised_micros + record.raised_micros), undo)
            case DropSpending(before_day):
                drop(self._spending, [place for place in self._spending if place[3] < before_day], undo)
            case CountUsage(record):
                spot = (record.tenant_id, record.day, record.agent_id, record.model, record.session_id, record.person)
                used = self._usage.get(spot)
                put(self._usage, spot, record if used is None else used.plus(record), undo)
            case DropUsage(before_day):
                drop(self._usage, [spot for spot in self._usage if spot[1] < before_day], undo)
            case PutDrain(record):
                put(self._drains, (record.tenant_id, record.drain.scope, record.drain.id or ""), record, undo)
            case DropDrain(tenant_id, scope, name):
                drop(self._drains, [(tenant_id, scope, name)], undo)
            case _:
                raise LedgerError(f"The ledger knows no write {type(write).__name__}.")

    def _seal(self, write: AuditAppend, undo: Undo) -> int:
        tenant_id = write.draft.tenant_id
        try:
            self._room.bound.check(tenant_id, len(self._audit.records(tenant_id)),
                                   self._facts.get(CHECKPOINT_FACT + tenant_id))
        except TailFull as full:
            raise NoRoom(full) from None
        return self._audit.seal(write.draft, undo)

    def _append(self, write: Append, undo: Undo) -> int:
        number = self._streams.head(write.stream) + 1
        self._streams.add(Event(stream=write.stream, n=number, kind=write.kind, at_ms=write.at_ms, body=write.body,
                                message_id=write.message_id))
        undo.append(lambda: self._streams.take_back(write.stream))
        return number

    async def take(self, lane: str) -> int:
        self._check_open()
        self.lanes[lane] = self.lanes.get(lane, 0) + 1
        return self.lanes[lane]

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError("The ledger is closed.")


def put(table: dict[K, V], key: K, record: V, undo: Undo) -> None:
    """Insert or replace a row."""
    if key in table:
        undo.append(lambda old=table[key]: table.__setitem__(key, old))
    else:
        undo.append(lambda: table.pop(key))
    table[key] = record


def drop(table: dict[K, V], keys: Iterable[K], undo: Undo) -> None:
    """Forget rows."""
    whole = dict(table)

    def restore() -> None:
        # The order of what was there is part of what is restored.
        table.clear()
        table.update(whole)

    undo.append(restore)
    for key in keys:
        table.pop(key, None)


def ended_ms(record: CommandRecord) -> int | None:
    """When a command reached its terminal state; None while it has not."""
    if record.command.state not in TERMINAL:
        return None
    return parse_iso(record.command.ended_at or record.command.updated_at)
