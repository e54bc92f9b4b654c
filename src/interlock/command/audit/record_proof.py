"""A proof that records are in a signed audit log, which a third party checks offline and without the log (U-3).

The file has a command's records, a checkpoint that the log's key signed, and for each record the hashes from it to the
checkpoint's root (RFC 6962). It has no personal data: a record only commits to that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit.audit import leaf_hash
from interlock.command.audit.audit_lines import RecordBody, parse_record
from interlock.command.audit.audit_report import plural
from interlock.command.audit.audit_tree import HASH_BYTES, includes
from interlock.command.audit.note import ORIGIN_PREFIX, Checkpoint, NotANote, is_genuine, parse_checkpoint

MAX_PROOF_FILE_BYTES = 8 * 1024 * 1024
MAX_PROVEN_RECORDS = 1_000
MAX_PATH_HASHES = 64
"""The path length of a tree of 2^53 records is below this."""

PROOF_FORMAT = "interlock.audit-proof/1"
ProofFault = Literal["unreadable", "bad signature", "record changed", "not included", "another command"]


class ProvenRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record, as in the log, and its path: the sibling hashes in hex, lowest first."""

    record: dict[str, Any]
    proof: list[str]


class RecordProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The proof file. `checkpoint` is the signed note; `records` are those of the command, in the order of their
    numbers."""

    format: Literal["interlock.audit-proof/1"]
    command_id: str
    checkpoint: str
    records: list[ProvenRecord]


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. `seq` is the record at fault, None if the file or its checkpoint is."""

    ok: bool
    message: str
    kind: ProofFault | None = None
    seq: int | None = None
    command_id: str = ""
    records: int = 0
    size: int = 0
    """Number of records of the log when the checkpoint was signed."""
    root: str = ""
    origin: str = ""
    rows: list[str] = []
    """One line for each record: its number, time, actor and action."""


class _WrongProof(Exception):
    def __init__(self, kind: ProofFault, sentence: str, seq: int | None = None) -> None:
        super().__init__(sentence)
        self.kind: ProofFault = kind
        self.seq = seq


class _Leaf(NamedTuple):
    body: RecordBody
    hash: bytes


_file = msgspec.json.Decoder(RecordProof)
_sorted = msgspec.json.Encoder(order="sorted")


def written(proof: RecordProof) -> bytes:
    """Write the file."""
    return msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n"


def proven(record: bytes, path: Sequence[str]) -> ProvenRecord:
    """Return a record's bytes and its path as a ProvenRecord. Raises msgspec.DecodeError."""
    return ProvenRecord(msgspec.json.decode(record, type=dict[str, Any]), list(path))


def check(raw: bytes, public_key: Ed25519PublicKey) -> ProofReport:
    """Check a proof file with the public key of the log, which was obtained separately."""
    try:
        return _checked(raw, public_key)
    except _WrongProof as wrong:
        return ProofReport(ok=False, message=str(wrong), kind=wrong.kind, seq=wrong.seq)


def _checked(raw: bytes, public_key: Ed25519PublicKey) -> ProofReport:
    proof = _read(raw)
    checkpoint = _signed(proof.checkpoint, public_key)
    last = 0
    rows: list[str] = []
    for one in proof.records:
        leaf = _leaf(one)
        _check_place(one, leaf, checkpoint)
        body = leaf.body
        if body.command_id != proof.command_id or body.tenant_id != checkpoint.tenant_id:
            raise _WrongProof("another command", f"Record {body.seq} is not one of {proof.command_id} in this log.",
                              body.seq)
        if body.seq <= last:
            raise _WrongProof("unreadable", f"Record {body.seq} follows record {last}: the order is wrong.", body.seq)
        last = body.seq
        rows.append(f"{body.seq} · {body.at} · {body.who['id']} · {body.action}")
    shown = f"{plural(len(rows), 'record')} of {proof.command_id}"
    return ProofReport(
        ok=True, command_id=proof.command_id, records=len(rows), size=checkpoint.size, root=checkpoint.root.hex(),
        origin=checkpoint.origin, rows=rows,
        message=f"{shown} {'is' if len(rows) == 1 else 'are'} in the signed log {checkpoint.origin} of "
                f"{plural(checkpoint.size, 'record')}.")


def _read(raw: bytes) -> RecordProof:
    if len(raw) > MAX_PROOF_FILE_BYTES:
        raise _WrongProof("unreadable", f"The file has more than {MAX_PROOF_FILE_BYTES} bytes.")
    try:
        proof = _file.decode(raw)
        json.loads(raw, object_pairs_hook=_members)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _WrongProof("unreadable", f"The file is not a proof that this version can read: {error}.") from None
    if not 0 < len(proof.records) <= MAX_PROVEN_RECORDS:
        raise _WrongProof("unreadable", f"A proof has 1 to {MAX_PROVEN_RECORDS} records, this one has "
                                        f"{len(proof.records)}.")
    return proof


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members. Raises ValueError for a repeated name: readers differ in which of them they show."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice in one object")
    return members


def _signed(note: str, public_key: Ed25519PublicKey) -> Checkpoint:
    try:
        checkpoint = parse_checkpoint(note)
    except NotANote as error:
        raise _WrongProof("unreadable", f"The checkpoint cannot be read: {error}") from None
    if not checkpoint.origin.startswith(ORIGIN_PREFIX) or not is_genuine(checkpoint, public_key):
        raise _WrongProof("bad signature", "The checkpoint is not signed with this public key.")
    return checkpoint


def _leaf(one: ProvenRecord) -> _Leaf:
    """Encode the record in its canonical form, and parse it as the log's own check does."""
    seq = one.record.get("seq")
    number = seq if type(seq) is int and seq > 0 else None
    try:
        body = _sorted.encode(one.record)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        body = b""
    own = leaf_hash(body)
    line = b'{"seq":%d,"hash":"%s","record":%s}\n' % (number or 0, own.encode(), body)
    read = parse_record(line)
    if read is None or number is None:
        named = f"Record {number}" if number is not None else "A record"
        raise _WrongProof("record changed", f"{named} is not in the form of the log.", number)
    return _Leaf(read[1], bytes.fromhex(own))


def _check_place(one: ProvenRecord, leaf: _Leaf, checkpoint: Checkpoint) -> None:
    seq = leaf.body.seq
    try:
        path = [bytes.fromhex(text) for text in one.proof]
    except ValueError:
        path = [b""]
    if len(path) > MAX_PATH_HASHES or any(len(hash_) != HASH_BYTES for hash_ in path):
        raise _WrongProof("unreadable", f"The path of record {seq} is not a list of SHA-256 hashes.", seq)
    if not includes(leaf.hash, seq - 1, checkpoint.size, path, checkpoint.root):
        raise _WrongProof("not included", f"Record {seq} is not what the signed log has at this place: the record, its "
                                          "number or its path was changed.", seq)
