"""Offline verification of an audit log: hashes, chain, form, tree and checkpoint, and the kind of tampering (U-2, U-4,
U-5).

The lines come from an export or from the database's own rows. The first fault is named by the record's number and by
the kind of tampering that explains it; the rest of the log is read only as far as that requires. `audit_quick` finds
faster whether there is any fault at all.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit import audit_lines as lines_
from interlock.command.audit.audit import FIRST_PREV, opens, overrun, record_id, record_line
from interlock.command.audit.audit_lines import RecordBody, number_of, parse_checkpoint_line, parse_record
from interlock.command.audit.audit_report import AuditReport, Tampering, unbroken
from interlock.command.audit.audit_tree import HASH_BYTES, root_of
from interlock.command.audit.note import Checkpoint, is_genuine
from interlock.command.audit.vote_signatures import VoteSignatures
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import AuditRecord

__all__ = ["AuditReport", "Tampering", "compare", "verify", "verify_records"]


def verify(lines: Iterable[bytes], public_key: Ed25519PublicKey | None = None) -> AuditReport:
    """Check an exported log, each line with its newline: the records in order, then the checkpoint (U-2)."""
    votes = VoteSignatures()
    return votes.judged(_Check(public_key).run(votes.watch(lines)))


def verify_records(
    records: Iterable[AuditRecord], checkpoint: bytes | None, public_key: Ed25519PublicKey | None = None,
    earlier: Sequence[Checkpoint] = (),
) -> AuditReport:
    """Verify a store's rows against a checkpoint's line, None if there is none, and the `earlier` ones."""
    check, votes = _Check(public_key, checkpoint, rows=True), VoteSignatures()
    lines = chain(map(record_line, records), () if checkpoint is None else (checkpoint,))
    return votes.judged(check.run(votes.watch(lines), earlier))


def compare(
    lines: Iterable[bytes], other: Checkpoint, public_key: Ed25519PublicKey | None = None
) -> AuditReport:
    """Verify an exported log, and that it is the log that `other`, which was stored elsewhere, describes."""
    votes = VoteSignatures()
    return votes.judged(_Check(public_key).run(votes.watch(lines), (other,)))


class _Found(Exception):
    """Raised for the first fault."""

    def __init__(self, kind: Tampering, seq: int | None, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.seq = seq


class _Check:
    def __init__(self, public_key: Ed25519PublicKey | None, head: bytes | None = None, *, rows: bool = False) -> None:
        """Create a check. With `rows` it is the database's own log: a recent erasure is documented by a record that no
        checkpoint covers yet. In an export such a record is not vouched for, and excuses nothing."""
        self._key = public_key
        self._rows = rows
        self._expected_head = head
        """A line known to be the checkpoint, however damaged."""
        self._tenant: str | None = None
        self._count = 0
        self._prev = FIRST_PREV
        self._digests = bytearray()
        """The digests of all good records, since the checkpoint, which determines where the root must match, comes
        last."""
        self._closed: dict[int, str] = {}
        """Records with a commitment whose value is missing."""
        self._redacted: dict[int, set[int]] = {}
        """The records that each record of the action `redact` names, by its number."""
        self._times: deque[str] = deque(maxlen=UNSIGNED_RECORDS_MAX)
        """The times of the last records: only the end of an export determines which of them are signed."""

    def run(self, lines: Iterator[bytes], others: Sequence[Checkpoint] = ()) -> AuditReport:
        signed = 0
        try:
            signed = self._read(lines, others)
            self._check_others(others)
            self._check_closed(self._count if self._rows else signed)
            self._check_tail(signed)
        except _Found as found:
            return AuditReport(ok=False, tenant_id=self._tenant, records=self._count, seq=found.seq, kind=found.kind,
                               message=str(found), signature_checked=self._key is not None, last_hash=self._prev)
        return good(self._tenant, self._count, signed, self._prev, len(self._closed), checked=self._key is not None)

    def _read(self, lines: Iterator[bytes], others: Sequence[Checkpoint]) -> int:
        line = next(lines, None)
        while line is not None:
            following = next(lines, None)
            if line is self._expected_head or lines_.looks_like_checkpoint(line, last=following is None):
                signed = self._check_head(line, others)
                if following is not None:
                    raise _Found(Tampering.INSERTED, self._count + 1, "Lines follow the checkpoint.")
                return signed
            self._check_record(line, following, lines)
            line = following
        raise _Found(Tampering.HEAD_MISSING, None, f"The log has {self._count} good records and no checkpoint, so a "
                     "cut or rewritten log cannot be distinguished from a whole one.")

    def _check_record(self, line: bytes, following: bytes | None, rest: Iterator[bytes]) -> None:
        place = self._count + 1
        read = parse_record(line)
        if read is None:
            raise _changed(place, "is not in the form it was written in", line)
        shown, body = read
        raw = bytes(shown.record)
        digest = hashlib.sha256(b"\x00" + raw).digest()
        if digest.hex() != shown.hash:
            goes_on = lines_.prev_after(following) == digest.hex() or self._is_signed_last(digest, following)
            if goes_on and lines_.flipped_bit(line, place) is None:
                raise _Found(Tampering.HASH_CHANGED, place, f"The hash stored with record {place} was changed; the "
                             "record itself is the one that the log continues from.")
            raise _changed(place, "does not give the hash stored with it", line)
        if shown.seq != body.seq or body.id != record_id(body.seq):
            raise _changed(place, "does not carry its own number", line)
        if self._tenant is not None and body.tenant_id != self._tenant:
            raise _Found(Tampering.INSERTED, place, f"Record {place} belongs to another tenant's log.")
        if body.seq != place:
            raise _misplaced(body.seq, place, following, rest)
        if body.prev != self._prev:
            raise self._broken_chain(place, digest.hex(), following)
        self._check_personal(place, body, shown.personal or {})
        self._tenant, self._count, self._prev = body.tenant_id, place, shown.hash
        self._digests += digest
        self._times.append(body.at)

    def _is_signed_last(self, digest: bytes, following: bytes | None) -> bool:
        """Return whether the next line is a checkpoint of exactly the records so far and this one."""
        head = parse_checkpoint_line(following) if following is not None else None
        if head is None or head.size != self._count + 1:
            return False
        self._digests += digest
        fits = self._root_at(head.size) == head.root
        del self._digests[-HASH_BYTES:]
        return fits

    def _broken_chain(self, place: int, own_hash: str, following: bytes | None) -> _Found:
        # Both records match their own hashes, so one was rewritten. If the log continues from this one, it is genuine,
        # and the previous one is not.
        if place > 1 and lines_.prev_after(following) == own_hash:
            return _changed(place - 1, f"is not the one that record {place} was chained to")
        return _changed(place, "is not chained to the one before")

    def _check_personal(self, place: int, body: RecordBody, shown: dict[str, tuple[str, str]]) -> None:
        committed = body.personal or {}
        for name, (salt, value) in shown.items():
            if not opens(committed.get(name, ""), name, salt, value):
                raise _Found(Tampering.PERSONAL_CHANGED, place, f"The {name} shown with record {place} is not what the "
                             "record commits to.")
        if missing := committed.keys() - shown.keys():
            self._closed[place] = min(missing)
        if body.action == "redact":
            self._redacted[place] = lines_.redacted_by(body.meta)

    def _check_closed(self, covered: int) -> None:
        """Check that each missing value is documented as erased by one of the first `covered` records (U-4)."""
        declared = set[int]().union(*(named for place, named in self._redacted.items() if place <= covered))
        for place in sorted(self._closed.keys() - declared):
            unsigned = any(place in named for named in self._redacted.values())
            raise _Found(Tampering.PERSONAL_MISSING, place, f"The {self._closed[place]} of record {place} is gone, and "
                         f"no {'signed ' if unsigned else ''}record documents its erasure.")

    def _check_tail(self, signed: int) -> None:
        """Check that there are no more unsigned records than a gateway leaves (U-3)."""
        tail = self._count - signed
        times = list(self._times)[-tail:] if 0 < tail <= UNSIGNED_RECORDS_MAX else []
        if (found := overrun(signed, self._count, times)) is not None:
            raise _Found(Tampering.UNSIGNED, *found)

    def _check_head(self, line: bytes, others: Sequence[Checkpoint]) -> int:
        head = parse_checkpoint_line(line)
        if head is None:
            raise _Found(Tampering.BAD_SIGNATURE, None, "The checkpoint is not in the form it was written in.")
        if self._key is not None and not is_genuine(head, self._key):
            raise _Found(Tampering.BAD_SIGNATURE, None, f"The checkpoint of {head.origin} does not bear the signature "
                         "of the key passed.")
        if self._tenant is not None and head.tenant_id != self._tenant:
            raise _Found(Tampering.BAD_SIGNATURE, None, "The checkpoint is that of another tenant's log.")
        self._tenant = head.tenant_id
        if head.size > self._count:
            raise _Found(Tampering.CUT_TAIL, self._count + 1, f"The log ends after record {self._count}, and the "
                         f"checkpoint counts {head.size}: the tail was cut.")
        if self._root_at(head.size) != head.root:
            raise self._rewritten(head, others)
        return head.size

    def _rewritten(self, head: Checkpoint, others: Sequence[Checkpoint]) -> _Found:
        kept = max((one.size for one in others if one.size < head.size and self._root_at(one.size) == one.root
                    and (self._key is None or is_genuine(one, self._key))), default=0)
        since = f"records after {kept}, up to there," if kept else "records up to there"
        return _Found(Tampering.REWRITTEN, kept + 1 if kept else head.size,
                      f"The log is consistent in itself, but up to record {head.size} it is not the one that was "
                      f"signed: {since} were written again.")

    def _check_others(self, others: Sequence[Checkpoint]) -> None:
        for other in others:
            fits = other.tenant_id == self._tenant and other.size <= self._count
            if fits and self._root_at(other.size) == other.root:
                continue
            if other.tenant_id != self._tenant or (self._key is not None and not is_genuine(other, self._key)):
                raise _Found(Tampering.BAD_SIGNATURE, None, "The checkpoint to compare with is not one of this log.")
            if other.size > self._count:
                raise _Found(Tampering.ROLLED_BACK, self._count + 1, f"The log ends at record {self._count}, and a "
                             f"checkpoint kept elsewhere counts {other.size}: this is an older state of it.")
            raise _Found(Tampering.FORKED, other.size, f"Two logs were signed: up to record {other.size} this one is "
                         "not the one of the checkpoint kept elsewhere.")

    def _root_at(self, size: int) -> bytes:
        return root_of([bytes(self._digests[at : at + HASH_BYTES]) for at in range(0, size * HASH_BYTES, HASH_BYTES)])


def good(tenant_id: str | None, count: int, signed: int, last_hash: str, erased: int, *, checked: bool) -> AuditReport:
    """Return the report of a log without faults."""
    open_ = count - signed
    message = unbroken(count, open_, erased)
    if not checked:
        message += " No public key was passed, so the signature was not checked."
    return AuditReport(ok=True, tenant_id=tenant_id, records=count, not_yet_signed=open_, message=message,
                       erased=erased,
                       signature_checked=checked, last_hash=last_hash)


def _changed(seq: int, how: str, line: bytes | None = None) -> _Found:
    if line is not None and (bit := lines_.flipped_bit(line, seq)) is not None:
        return _Found(Tampering.BIT_FLIPPED, seq, f"Record {seq} {how}: bit {bit % 8} of byte {bit // 8} of its line "
                      "was flipped; with that bit put back it is whole.")
    return _Found(Tampering.RECORD_CHANGED, seq, f"Record {seq} {how}: it was changed.")


def _misplaced(found: int, place: int, following: bytes | None, rest: Iterator[bytes]) -> _Found:
    if found < place:
        return _Found(Tampering.INSERTED, found, f"Record {found} is there a second time: one of the two was inserted.")
    later = {number_of(line) for line in chain((following,), rest) if line is not None}
    if place not in later:
        return _Found(Tampering.REMOVED, place, f"Record {place} was removed: record {found} is in its place.")
    if found in later:
        return _Found(Tampering.INSERTED, found, f"Record {found} is before record {place} and once more in its "
                      "own place: it was inserted.")
    return _Found(Tampering.REORDERED, place, f"Record {found} is in the place of record {place}: they were "
                  "reordered.")
