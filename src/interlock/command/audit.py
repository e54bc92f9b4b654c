"""The audit log of a tenant: sealed records in a hash chain, its signed head, and its export (U-1, U-2).

A record's body is canonical JSON; its hash is the RFC 6962 leaf hash of these bytes; `prev` inside the body is the hash
of the record before. Whoever holds the signed head, which lies outside the database, can tell any later change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from interlock.command.canonical import NotCanonical, canonical
from interlock.protocol.records import AuditDraft, AuditRecord

FIRST_PREV = "0" * 64
"""`prev` of a log's first record."""
HEAD_CONTEXT = b"interlock-audit-head-v1\n"
"""What is signed begins with this, so that a signature made for one purpose serves no other."""

ACTIONS = frozenset({
    "approve", "reject", "enqueue", "start", "complete", "error",
    "vote", "withdraw", "void", "supersede", "cancel", "pause", "resume", "expire", "timeout", "dispatch",
    "lease_lost", "late_event", "tool_call", "tool_denied", "auth_denied", "policy_change", "key_rotate",
    "session_reset", "compact", "pair", "revoke", "audit_read", "audit_export", "redact",
})  # fmt: skip
"""Every action that a record may name (U-1); the first six are the seed's own."""


class AuditRefused(ValueError):
    """A draft cannot become a record, so what it stands for must not happen (U-1)."""


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a tenant's log went at an instant: `count` records and the last one's hash, signed with Ed25519 (hex)."""

    tenant_id: str
    count: int
    last_hash: str
    at: str
    key_id: str
    signature: str


class ExportLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of an export; `record` is the canonical body, byte by byte."""

    seq: int
    hash: str
    record: msgspec.Raw


def leaf_hash(body: bytes) -> str:
    """Hash a record's bytes as an RFC 6962 leaf, in hex."""
    return hashlib.sha256(b"\x00" + body).hexdigest()


def seal(draft: AuditDraft, seq: int, prev_hash: str) -> AuditRecord:
    """Make the record that stands at `seq`, after the one whose hash is `prev_hash`.

    Raises AuditRefused when the action is unknown or the draft lies outside the schema (U-1, U-2).
    """
    if draft.action not in ACTIONS:
        raise AuditRefused(f"The audit log knows no action {draft.action!r} (U-1).")
    if draft.who.keys() != {"id", "role"}:
        raise AuditRefused("An audit record's `who` has exactly an id and a role.")
    try:
        body = canonical({
            "id": record_id(seq),
            "tenant_id": draft.tenant_id,
            "seq": seq,
            "prev": prev_hash,
            "at": draft.at,
            "who": draft.who,
            "action": draft.action,
            "command_id": draft.command_id,
            "session_id": draft.session_id,
            "approval_id": draft.approval_id,
            "meta": draft.meta,
        })
    except NotCanonical as error:
        raise AuditRefused(f"The audit record of {draft.action!r} has no canonical form. {error}") from error
    return AuditRecord(tenant_id=draft.tenant_id, seq=seq, hash=leaf_hash(body), body=body)


def record_id(seq: int) -> str:
    """Name the record at `seq` of its tenant's log."""
    return f"aud_{seq:016d}"


def key_id(public_key: Ed25519PublicKey) -> str:
    """Name a key by the first 16 bytes of its SHA-256, in hex."""
    return "ed25519:" + hashlib.sha256(public_key.public_bytes_raw()).hexdigest()[:32]


def sign_head(key: Ed25519PrivateKey, tenant_id: str, count: int, last_hash: str, at: str) -> SignedHead:
    """Sign how far a log went."""
    named = key_id(key.public_key())
    message = _head_message(tenant_id, count, last_hash, at, named)
    return SignedHead(tenant_id=tenant_id, count=count, last_hash=last_hash, at=at, key_id=named,
                      signature=key.sign(message).hex())


def head_is_genuine(head: SignedHead, key: Ed25519PublicKey) -> bool:
    """Tell whether this key signed this head, written in the one form that `head_line` writes."""
    if head.key_id != key_id(key):
        return False
    try:
        signature = bytes.fromhex(head.signature)
        key.verify(signature, _head_message(head.tenant_id, head.count, head.last_hash, head.at, head.key_id))
    except (InvalidSignature, NotCanonical, ValueError):
        return False
    return signature.hex() == head.signature


def head_line(head: SignedHead) -> bytes:
    """Write a signed head as one line: canonical JSON and a newline."""
    members: dict[str, Any] = msgspec.to_builtins(head)
    return canonical(members) + b"\n"


def record_line(record: AuditRecord) -> bytes:
    """Write a record as one line of an export, its body verbatim."""
    return b'{"seq":%d,"hash":"%s","record":%s}\n' % (record.seq, record.hash.encode(), record.body)


def export_lines(records: Iterable[AuditRecord], head: SignedHead) -> Iterator[bytes]:
    """Write a tenant's log: a line for each record, in order, then the signed head."""
    yield from map(record_line, records)
    yield head_line(head)


def _head_message(tenant_id: str, count: int, last_hash: str, at: str, named: str) -> bytes:
    return HEAD_CONTEXT + canonical(
        {"tenant_id": tenant_id, "count": count, "last_hash": last_hash, "at": at, "key_id": named}
    )
