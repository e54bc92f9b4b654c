"""The audit log of a tenant: sealed records in a hash chain, personal data beside it, and its export (U-1, U-2, U-4).

A record's body is canonical JSON; its hash is the RFC 6962 leaf hash of these bytes; `prev` in the body is the hash of
the previous record. Data that a person may have erased is in the body only as a commitment (`personal`): its value and
salt are stored separately, so that they can be deleted completely while the chain stays intact.

No signature covers the records after the last checkpoint, so anyone with write access to the log could have added them.
A gateway signs before these records, the log's tail, exceed a number or a span of time (U-3): a longer tail was not
left by a gateway.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from interlock.command.audit.audit_tree import Frontier, Grown, leaf
from interlock.command.audit.note import Checkpoint
from interlock.command.canonical import MAX_INTEGER, NotCanonical, canonical, is_plain
from interlock.command.redaction import SECRETS
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX
from interlock.protocol.records import AuditDraft, AuditRecord

FIRST_PREV = "0" * 64
"""`prev` of a log's first record."""
SALT_BYTES = 32
PERSONAL = frozenset({"comment", "reason", "ip", "user_agent", "device_name"})
"""Names of personal values that a record may commit to (U-4)."""
_WHO = {"id", "role"}
_encoder = msgspec.json.Encoder(order="sorted")
CHECKPOINT_FACT = "audit_checkpoint/"
"""Followed by a tenant, the name of the ledger's fact that holds a copy of the tenant's last checkpoint."""
RESTORED_FACT = "ledger_restored/"
"""Followed by a tenant, the name of the ledger's fact that holds up to which record its log had been signed, when that
log was found to be an older copy and its commands were closed."""
MAX_REDACTED = 500
"""Maximum records that one `redact` record names."""

ACTIONS = frozenset({
    "approve", "reject", "enqueue", "start", "complete", "error",
    "vote", "withdraw", "void", "supersede", "cancel", "pause", "resume", "expire", "timeout", "dispatch",
    "lease_lost", "late_event", "tool_call", "tool_denied", "auth_denied", "policy_change", "key_rotate",
    "session_reset", "compact", "pair", "revoke", "audit_read", "audit_export", "redact", "drain", "undrain", "prune",
    "transcript", "session_change", "cron_missed", "audit_resume", "ran_unasked", "tampered", "adopted", "control",
    "asking_stopped", "asking_resumed", "workspace_allowed", "workspace_denied",
    "changes_landed", "changes_discarded", "reevaluate", "ledger_restored", "login", "logout",
    "push",
})  # fmt: skip
"""Every action that a record may name (U-1); the first six are the seed's own."""


class AuditRefused(ValueError):
    """Raised if a draft cannot become a record, so that the recorded action must not happen (U-1)."""


class ExportLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of an export: `record` is the canonical body, byte for byte, `personal` each value that was not erased, by
    name: [salt in hex, value]."""

    seq: int
    hash: str
    record: msgspec.Raw
    personal: dict[str, tuple[str, str]] | None = None


class CheckpointLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of an export, and each line of a log's file of checkpoints: a signed note (U-3)."""

    checkpoint: str


def leaf_hash(body: bytes) -> str:
    """Hash a record's bytes as an RFC 6962 leaf, in hex."""
    return leaf(body).hex()


def commitment(salt: bytes, name: str, value: str) -> str:
    """Return a commitment to a personal value: HMAC-SHA256 of name, a zero byte and value under a random salt, in hex
    (U-4).

    Without the salt, guesses cannot be tested; with it, no other value can be presented.
    """
    return hmac.digest(salt, name.encode() + b"\0" + value.encode(), hashlib.sha256).hex()


def opens(shown: str, name: str, salt_hex: str, value: str) -> bool:
    """Return whether a value and its salt match the commitment."""
    try:
        salt = bytes.fromhex(salt_hex)
        return salt.hex() == salt_hex and len(salt) == SALT_BYTES and commitment(salt, name, value) == shown
    except ValueError:
        return False


def seal(draft: AuditDraft, seq: int, prev_hash: str, salts: Sequence[bytes] = ()) -> AuditRecord:
    """Return the record at `seq`, after the one whose hash is `prev_hash`.

    `salts` has a fresh one of SALT_BYTES for each personal value. A credential in a personal value is redacted (K-4):
    readers of the log must not learn it, and an export would spread it.

    Raises AuditRefused if the action is unknown or the draft violates the schema (U-1, U-2).
    """
    if draft.action not in ACTIONS:
        raise AuditRefused(f"The audit log knows no action {draft.action!r} (U-1).")
    if draft.who.keys() != _WHO:
        raise AuditRefused("An audit record's `who` has exactly an id and a role.")
    personal: dict[str, tuple[str, str]] = {}
    salted: dict[str, bytes] = {}
    committed: dict[str, str] | None = None
    if draft.personal:
        if not draft.personal.keys() <= PERSONAL:
            unknown = sorted(draft.personal.keys() - PERSONAL)
            raise AuditRefused(f"The audit log knows no such personal values: {unknown}.")
        salted = dict(zip(draft.personal, salts, strict=True))
    try:
        if salted:
            redacted = {name: _without_secrets(value) for name, value in draft.personal.items()}
            personal = {name: (salted[name].hex(), value) for name, value in redacted.items()}
            committed = {name: commitment(salted[name], name, value) for name, value in redacted.items()}
        body = seal_body(draft, seq, prev_hash, committed)
    except (NotCanonical, UnicodeEncodeError) as error:
        raise AuditRefused(f"The audit record of {draft.action!r} has no canonical form. {error}") from error
    return AuditRecord(tenant_id=draft.tenant_id, seq=seq, hash=leaf_hash(body), body=body, personal=personal)


class TailFull(Exception):
    """Raised if the log of `tenant_id` has to be signed before it can accept the batch; until then `room` records may
    follow."""

    def __init__(self, tenant_id: str, room: int = 0) -> None:
        super().__init__(f"The audit log of {tenant_id} has to be signed first: at most {UNSIGNED_RECORDS_MAX} records "
                         "may be unsigned.")
        self.tenant_id = tenant_id
        self.room = room


def write_noted(size: int, line: bytes) -> str:
    """Write the value of a checkpoint's fact: its size, a blank, and its line."""
    return f"{size} {line.decode()}"


def noted_size(noted: str | None) -> int | None:
    """Return the size in a fact; None if there is none in it."""
    size = noted.partition(" ")[0] if noted is not None else ""
    return int(size) if size.isascii() and size.isdigit() else None


def noted_line(noted: str) -> bytes:
    """Return the checkpoint's line in a fact."""
    return noted.partition(" ")[2].encode()


class TailBound:
    """A check in a ledger's transactions that no tenant's tail exceeds UNSIGNED_RECORDS_MAX.

    It is off until a signer works on the ledger. No log begins without a signed checkpoint of size 0, so from a log
    without one it was removed. A log that exceeds the bound already, such as one that was tampered with, may grow by
    UNSIGNED_RECORDS_MAX more while this process runs: turns under way continue until a person has resolved it.
    """

    def __init__(self) -> None:
        self.enforced = False
        self._found: dict[str, int] = {}
        """Sizes of the logs that exceeded the bound when this process first wrote to them."""

    def enforce(self) -> None:
        """Check from here on."""
        self.enforced = True

    def check(self, tenant_id: str, size: int, noted: str | None, more: int = 1) -> None:
        """Return if `more` records may follow the `size` existing ones; `noted` is the log's fact. Raises TailFull."""
        if not self.enforced:
            return
        signed = noted_size(noted)
        if signed is None and size == 0:
            raise TailFull(tenant_id)
        floor = -1 if signed is None else signed
        if signed is None or size - signed > UNSIGNED_RECORDS_MAX:
            floor = max(floor, self._found.setdefault(tenant_id, size))
        room = floor + UNSIGNED_RECORDS_MAX - size
        if more > room:
            raise TailFull(tenant_id, max(0, room))


class LogEnd:
    """The end of a tenant's log: what its next record needs, and what is stored of it."""

    __slots__ = ("_tree", "last_hash", "noted", "peaks", "size")

    def __init__(self, size: int = 0, peaks: bytes = b"", last_hash: str = FIRST_PREV, noted: str | None = None
                 ) -> None:
        """Create the end of a log; `noted` is the ledger's copy of the last checkpoint."""
        self._tree = Frontier(size, peaks)
        self.size = size
        self.peaks = peaks
        self.last_hash = last_hash
        self.noted = noted

    def note_checkpoint(self, noted: str) -> None:
        """Replace the ledger's copy of the last checkpoint."""
        self.noted = noted

    def append(self, draft: AuditDraft, bound: TailBound, salts: Sequence[bytes]) -> tuple[AuditRecord, list[Grown]]:
        """Create the next record, as `seal` does; returns it with the subtrees that it completes. Raises TailFull,
        AuditRefused."""
        bound.check(draft.tenant_id, self.size, self.noted)
        record = seal(draft, self.size + 1, self.last_hash, salts)
        grown = self._tree.grow(bytes.fromhex(record.hash))
        self.size, self.peaks, self.last_hash = self._tree.size, self._tree.peaks, record.hash
        return record, grown


def _without_secrets(text: str) -> str:
    """Return the text without credentials. Raises UnicodeEncodeError for half a surrogate pair, which is refused and
    not replaced."""
    text.encode()
    return SECRETS.text(text)


class _Body(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A record's members by name, which are encoded in sorted order."""

    action: str
    approval_id: str | None = None
    at: str
    command_id: str | None = None
    id: str
    meta: dict[str, Any]
    personal: dict[str, str] | None = None
    prev: str
    seq: int
    session_id: str | None = None
    tenant_id: str
    who: dict[str, str]


def seal_body(draft: AuditDraft, seq: int, prev_hash: str, committed: dict[str, str] | None) -> bytes:
    """Encode a record in its canonical form. Raises NotCanonical, UnicodeEncodeError."""
    body = _Body(action=draft.action, approval_id=draft.approval_id, at=draft.at, command_id=draft.command_id,
                 id=record_id(seq), meta=draft.meta, personal=committed, prev=prev_hash, seq=seq,
                 session_id=draft.session_id, tenant_id=draft.tenant_id, who=draft.who)
    # All else has plain types by construction; `meta` is quickly checked to be plain, or the error names the place.
    who = draft.who
    if seq <= MAX_INTEGER and is_plain(draft.meta, 1) and type(who["id"]) is str and type(who["role"]) is str:
        return _encoder.encode(body)
    return canonical(msgspec.structs.asdict(body))


def record_id(seq: int) -> str:
    """Return the name of the record at `seq` of its tenant's log."""
    return f"aud_{seq:016d}"


def checkpoint_line(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint as one line."""
    return canonical({"checkpoint": checkpoint.note}) + b"\n"


def record_line(record: AuditRecord) -> bytes:
    """Encode a record as one line of an export, its body verbatim."""
    if record.personal:
        return b'{"seq":%d,"hash":"%s","personal":%s,"record":%s}\n' % (
            record.seq, record.hash.encode(), personal_form(record.personal), record.body)
    return b'{"seq":%d,"hash":"%s","record":%s}\n' % (record.seq, record.hash.encode(), record.body)


def personal_form(personal: Mapping[str, tuple[str, str]]) -> bytes:
    """Write the values behind a record's commitments."""
    return canonical(personal)


def overrun(signed: int, count: int, times: Sequence[str]) -> tuple[int, str] | None:
    """Return the first record that a gateway would not have left unsigned: (its number, a sentence), None if all may
    be.

    `signed` records are covered by the checkpoint, `count` exist; `times` are the `at` of the records after it.
    """
    if count - signed > UNSIGNED_RECORDS_MAX:
        return signed + UNSIGNED_RECORDS_MAX + 1, (
            f"{count - signed} records follow record {signed}, the last one that was signed, and a gateway leaves at "
            f"most {UNSIGNED_RECORDS_MAX} unsigned: they were added, or the checkpoints since were removed.")
    span = _too_far_apart(times)
    return None if span is None else (signed + 1 + span[0], span[1])


def _too_far_apart(times: Sequence[str]) -> tuple[int, str] | None:
    """Return the first time that is too far from a previous one, or unreadable: (its index, a sentence)."""
    earliest = latest = None
    for index, text in enumerate(times):
        try:
            at_ms = parse_iso(text)
        except (ValueError, OverflowError):
            return index, f"An unsigned record has no readable time ({text[:40]!r}): a gateway did not write it."
        earliest = at_ms if earliest is None else min(earliest, at_ms)
        latest = at_ms if latest is None else max(latest, at_ms)
        if latest - earliest > UNSIGNED_SPAN_MS_MAX:
            return index, (f"The unsigned records up to this one span {(latest - earliest) // 1000} s, and a gateway "
                           f"signs what is older than {UNSIGNED_SPAN_MS_MAX // 1000} s: it could not sign, or they "
                           "were added.")
    return None
