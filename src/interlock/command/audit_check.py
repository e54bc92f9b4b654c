"""Checking an audit log offline: hashes, chain, form and signed head, and what was done to it (U-2, U-5).

The lines come from an export or from the database's own rows. The first thing that is wrong is named by the record's
number and by the kind of tampering that explains it; the rest of the log is read only as far as that needs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit import (
    FIRST_PREV,
    ExportLine,
    SignedHead,
    head_is_genuine,
    head_line,
    record_id,
    record_line,
)
from interlock.command.canonical import MAX_INTEGER, NotCanonical, is_plain
from interlock.protocol.records import AuditRecord


class Tampering(StrEnum):
    """What was done to a log."""

    RECORD_CHANGED = "record changed"
    HASH_CHANGED = "hash changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CUT_TAIL = "cut tail"
    ROLLED_BACK = "rolled back"
    REWRITTEN = "rewritten"
    BAD_SIGNATURE = "bad signature"
    HEAD_MISSING = "head missing"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. `seq` is the first bad record, None where the head itself is what is wrong."""

    ok: bool
    tenant_id: str | None
    records: int
    """Records found good, up to the first bad one."""
    last_hash: str = FIRST_PREV
    """Hash of the last good record."""
    not_yet_signed: int = 0
    """Good records past the signed head; they are no failure."""
    signature_checked: bool = False
    """False when no public key was given: then the head proves nothing by itself."""
    seq: int | None = None
    kind: Tampering | None = None
    message: str = ""
    """One sentence for people."""


class RecordBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record's body, for reading it back; written again in sorted order it must give the same bytes."""

    id: str
    tenant_id: str
    seq: int
    prev: str
    at: str
    who: dict[str, str]
    action: str
    meta: dict[str, Any]
    command_id: str | None = None
    session_id: str | None = None
    approval_id: str | None = None


_SEQ = re.compile(rb'\{"seq":(\d{1,16}),')
_line = msgspec.json.Decoder(ExportLine)
_body = msgspec.json.Decoder(RecordBody)
_head = msgspec.json.Decoder(SignedHead)
_encode = msgspec.json.Encoder(order="sorted").encode


def verify(lines: Iterable[bytes], public_key: Ed25519PublicKey | None = None) -> Report:
    """Check an exported log, each line with its newline: the records in order, then the signed head (U-2)."""
    return _Check(public_key).run(iter(lines))


def verify_records(
    records: Iterable[AuditRecord], head: bytes | None, public_key: Ed25519PublicKey | None = None
) -> Report:
    """Check rows as a store holds them against the line of a signed head, None when there is none."""
    return _Check(public_key, head).run(chain(map(record_line, records), () if head is None else (head,)))


class _Found(Exception):
    """The first thing that is wrong."""

    def __init__(self, kind: Tampering, seq: int | None, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.seq = seq


class _Check:
    def __init__(self, public_key: Ed25519PublicKey | None, head: bytes | None = None) -> None:
        self._key = public_key
        self._given_head = head
        """A line known to be the head, whatever is left of it."""
        self._tenant: str | None = None
        self._count = 0
        self._prev = FIRST_PREV
        self._digests = bytearray()
        """SHA-256 of every good record, since the head, which tells where it must match, comes last."""

    def run(self, lines: Iterator[bytes]) -> Report:
        signed = 0
        try:
            signed = self._read(lines)
        except _Found as found:
            return Report(ok=False, tenant_id=self._tenant, records=self._count, seq=found.seq, kind=found.kind,
                          message=str(found), signature_checked=self._key is not None, last_hash=self._prev)
        open_ = self._count - signed
        message = f"{self._count} records, all in order and unchanged"
        message += f"; the last {open_} not yet signed." if open_ else "."
        if self._key is None:
            message += " No public key was given, so the signature was not checked."
        return Report(ok=True, tenant_id=self._tenant, records=self._count, not_yet_signed=open_, message=message,
                      signature_checked=self._key is not None, last_hash=self._prev)

    def _read(self, lines: Iterator[bytes]) -> int:
        line = next(lines, None)
        while line is not None:
            following = next(lines, None)
            if line is self._given_head or _looks_like_head(line, last=following is None):
                signed = self._check_head(line)
                if following is not None:
                    raise _Found(Tampering.INSERTED, self._count + 1, "Lines follow the signed head.")
                return signed
            self._check_record(line, following, lines)
            line = following
        raise _Found(Tampering.HEAD_MISSING, None, f"The log has {self._count} good records and no signed head, so a "
                     "cut or rewritten log cannot be told from a whole one.")

    def _check_record(self, line: bytes, following: bytes | None, rest: Iterator[bytes]) -> None:
        place = self._count + 1
        read = _parse(line)
        if read is None:
            raise _changed(place, "is not in the form it was written in")
        shown, body = read
        raw = bytes(shown.record)
        digest = hashlib.sha256(b"\x00" + raw).digest()
        if digest.hex() != shown.hash:
            if _prev_after(following, place) == digest.hex():
                raise _Found(Tampering.HASH_CHANGED, place, f"The hash stored with record {place} was changed; the "
                             "record itself is the one that the log goes on from.")
            raise _changed(place, "does not give the hash stored with it")
        if shown.seq != body.seq or body.id != record_id(body.seq):
            raise _changed(place, "does not carry its own number")
        if self._tenant is not None and body.tenant_id != self._tenant:
            raise _Found(Tampering.INSERTED, place, f"Record {place} belongs to another tenant's log.")
        if body.seq != place:
            raise _misplaced(body.seq, place, following, rest)
        if body.prev != self._prev:
            raise self._broken_chain(place, digest.hex(), following)
        self._tenant, self._count, self._prev = body.tenant_id, place, shown.hash
        self._digests += digest

    def _broken_chain(self, place: int, own_hash: str, following: bytes | None) -> _Found:
        # Both records agree with their own hashes, so one was written anew. Where the log goes on from this one, it is
        # genuine, and the one before is not.
        if place > 1 and _prev_after(following, place) == own_hash:
            return _changed(place - 1, f"is not the one that record {place} was chained to")
        return _changed(place, "is not chained to the one before")

    def _check_head(self, line: bytes) -> int:
        head = _parse_head(line)
        if head is None:
            raise _Found(Tampering.BAD_SIGNATURE, None, "The signed head is not in the form it was written in.")
        if self._key is not None and not head_is_genuine(head, self._key):
            raise _Found(Tampering.BAD_SIGNATURE, None, f"The signed head does not bear the signature of the key "
                         f"{head.key_id}, or that is not the key given.")
        if self._tenant is not None and head.tenant_id != self._tenant:
            raise _Found(Tampering.BAD_SIGNATURE, None, "The signed head is that of another tenant's log.")
        self._tenant = head.tenant_id
        if head.count > self._count:
            raise _Found(Tampering.CUT_TAIL, self._count + 1, f"The log ends after record {self._count}, and the head "
                         f"signed at {head.at} counts {head.count}: the tail was cut.")
        if self._hash_at(head.count) != head.last_hash:
            raise _Found(Tampering.REWRITTEN, head.count, f"The log is consistent in itself, but record {head.count} "
                         f"is not the one that was signed at {head.at}: records up to there were written anew.")
        return head.count

    def _hash_at(self, count: int) -> str:
        return self._digests[32 * (count - 1) : 32 * count].hex() if count > 0 else FIRST_PREV


def _changed(seq: int, how: str) -> _Found:
    return _Found(Tampering.RECORD_CHANGED, seq, f"Record {seq} {how}: it was changed.")


def _misplaced(found: int, place: int, following: bytes | None, rest: Iterator[bytes]) -> _Found:
    if found < place:
        return _Found(Tampering.INSERTED, found, f"Record {found} is there a second time: one of the two was inserted.")
    later = {_number(line) for line in chain((following,), rest) if line is not None}
    if place not in later:
        return _Found(Tampering.REMOVED, place, f"Record {place} was removed: record {found} stands in its place.")
    if found in later:
        return _Found(Tampering.INSERTED, found, f"Record {found} stands before record {place} and once more in its "
                      "own place: it was inserted.")
    return _Found(Tampering.REORDERED, place, f"Record {found} stands in the place of record {place}: they were "
                  "reordered.")


def _parse(line: bytes) -> tuple[ExportLine, RecordBody] | None:
    """Read a record's line; None unless it is byte by byte what its content is written as."""
    try:
        shown = _line.decode(line)
        raw = bytes(shown.record)
        body = _body.decode(raw)
        if _encode(body) != raw or not _within_schema(body):
            return None
        written = record_line(AuditRecord(tenant_id=body.tenant_id, seq=shown.seq, hash=shown.hash, body=raw))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return (shown, body) if written == line else None


def _within_schema(body: RecordBody) -> bool:
    return body.who.keys() == {"id", "role"} and 0 < body.seq <= MAX_INTEGER and is_plain(body.meta)


def _parse_head(line: bytes) -> SignedHead | None:
    try:
        head = _head.decode(line)
        return head if head_line(head) == line and head.count >= 0 else None
    except (msgspec.MsgspecError, UnicodeError, NotCanonical):
        return None


def _looks_like_head(line: bytes, *, last: bool) -> bool:
    # A damaged head is still the head: it ends the log and has names that no record's line has.
    if line.startswith(b'{"at":'):
        return True
    return last and not line.startswith(b'{"seq":') and (b'"last_hash":' in line or b'"signature":' in line)


def _prev_after(following: bytes | None, place: int) -> str | None:
    """What the line after a record says its hash is, if it says anything."""
    if following is None:
        return None
    if (read := _parse(following)) is not None:
        return read[1].prev
    head = _parse_head(following)
    return head.last_hash if head is not None and head.count == place else None


def _number(line: bytes) -> int | None:
    found = _SEQ.match(line)
    return int(found[1]) if found else None
