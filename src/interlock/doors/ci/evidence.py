"""The audit records of one command, and the proof of them (U-3)."""

from __future__ import annotations

import base64
import hashlib
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit.note import parse_checkpoint
from interlock.command.audit.record_proof import MAX_PROVEN_RECORDS, PROOF_FORMAT, RecordProof, check, proven, written
from interlock.protocol.answers import AuditLine
from interlock.protocol.clock import iso, parse_iso
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Command
from interlock.sdk import AsyncInterlock, InterlockError

AUDIT_ROLES = frozenset({"auditor", "admin", "owner"})
"""One of these may read the audit log."""
CLOCK_SLACK_MS = 60_000
"""Allowed difference by which a command's first record may precede the command's own time."""
_line = msgspec.json.Decoder(AuditLine)


class EvidenceRow(msgspec.Struct, frozen=True):
    """A record as listed in a summary."""

    seq: int
    at: str
    action: str
    who: dict[str, str]
    hash: str = ""


class TaskEvidence(NamedTuple):
    """The records of a command and the signed checkpoint that contains them. `key_sha256` identifies the key."""

    rows: list[EvidenceRow]
    size: int
    root: str
    origin: str
    key_sha256: str
    proof: bytes
    """The proof file."""


class NotProven(InterlockError):
    """The gateway's data does not prove what it should."""


_row = msgspec.json.Decoder(EvidenceRow)


async def evidence_of(gateway: AsyncInterlock, command: Command) -> TaskEvidence:
    """Read a command's records, request a proof, and check it. Raises InterlockError."""
    command_id = command.id
    lines = await _records(gateway, command)
    if not lines:
        raise NotProven(f"The audit log has no record of {command_id}.")
    # Signed after the records were read, so it covers each of them.
    note = (await gateway.audit.checkpoint()).decode("utf-8", "replace")
    size = parse_checkpoint(note).size
    found: list[EvidenceRow] = []
    paths: list[list[str]] = []
    for line in lines:
        row = _row.decode(line.record)
        found.append(msgspec.structs.replace(row, hash=line.hash))
        paths.append((await gateway.audit.prove_inclusion(line.seq, size=size)).proof)
    file = written(RecordProof(PROOF_FORMAT, command_id, note, [proven(bytes(line.record), path)
                                                  for line, path in zip(lines, paths, strict=True)]))
    key = await gateway.audit.key()
    raw = base64.b64decode(key.public_key)
    report = check(file, Ed25519PublicKey.from_public_bytes(raw))
    if not report.ok:
        raise NotProven(f"The gateway's proof does not hold ({report.kind}): {report.message}")
    return TaskEvidence(found, report.size, report.root, report.origin, hashlib.sha256(raw).hexdigest(), file)


async def _records(gateway: AsyncInterlock, command: Command) -> list[AuditLine]:
    """Read the command's records, oldest first; the log is searched from its end back to the command's beginning."""
    begin = iso(parse_iso(command.created_at) - CLOCK_SLACK_MS)
    found: list[AuditLine] = []
    since: str | None = None
    while True:
        page = await gateway.audit.read(since=since, order="newest", command=command.id, from_=begin, limit=PAGE_MAX)
        found += [_line.decode(raw) for raw in page.items]
        if len(found) > MAX_PROVEN_RECORDS:
            raise NotProven(f"{command.id} has more than {MAX_PROVEN_RECORDS} records; prove them with an export of "
                            "the log: interlock audit export.")
        if not page.has_more:
            return sorted(found, key=lambda line: line.seq)
        since = page.next_cursor
