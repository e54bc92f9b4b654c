"""Random tampering with an exported log: every kind that A1 names, by a seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.audit.audit import FIRST_PREV, SALT_BYTES, checkpoint_line, record_line, seal
from interlock.command.audit.audit_tree import root_of
from interlock.command.audit.note import Checkpoint, origin_of, sign_checkpoint
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX
from interlock.protocol.records import AuditDraft, AuditRecord

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ACTIONS = ("enqueue", "dispatch", "start", "vote", "approve", "complete", "tool_call", "redact")


class Mutant(NamedTuple):
    """A log that was tampered with, how, and what was kept elsewhere of the log it was."""

    kind: str
    lines: list[bytes]
    kept: Checkpoint | None = None


def make_log(dice: random.Random, count: int, tenant_id: str = "t1") -> list[AuditRecord]:
    """Seal a log as a gateway writes it, with personal data here and there, some of it erased with a record."""
    records, prev, erased = list[AuditRecord](), FIRST_PREV, set[int]()
    for seq in range(1, count + 1):
        action = dice.choice(ACTIONS)
        meta: dict[str, Any] = {"digest": dice.randbytes(32).hex(), "n": dice.randrange(2**53),
                                "ok": dice.random() < 0.5}
        personal: dict[str, str] = {}
        if action == "redact":
            named = [one.seq for one in records if one.personal and dice.random() < 0.5]
            erased |= set(named)
            meta = {"records": named}
        elif action == "vote":
            personal = {"comment": dice.choice(("ja", 'say "yes"\n', "😀 é")), "ip": "127.0.0.1"}
        draft = AuditDraft(tenant_id=tenant_id, at=iso(seq * 1_000), who={"id": "user:é", "role": "owner"},
                           action=action, command_id=f"cmd_{seq}", meta=meta, personal=personal)
        records.append(seal(draft, seq, prev, [dice.randbytes(SALT_BYTES) for _ in personal]))
        prev = records[-1].hash
    return [msgspec.structs.replace(one, personal={}) if one.seq in erased else one for one in records]


def signed(records: Sequence[AuditRecord], size: int | None = None) -> Checkpoint:
    """Sign the first `size` records, all where none is named."""
    covered = records[: len(records) if size is None else size]
    return sign_checkpoint(KEY, origin_of("gw_1", "t1"), len(covered), root_of([bytes.fromhex(one.hash)
                                                                                for one in covered]))


def lines_of(records: Sequence[AuditRecord], checkpoint: Checkpoint) -> list[bytes]:
    """Write an export."""
    return [*map(record_line, records), checkpoint_line(checkpoint)]


def rechained(records: Sequence[AuditRecord], first: int) -> list[AuditRecord]:
    """Write all from index `first` on again, in a way that is consistent in itself."""
    done = list(records[:first])
    for seq, record in enumerate(records[first:], first + 1):
        body = {**msgspec.json.decode(record.body), "seq": seq, "id": f"aud_{seq:016d}",
                "prev": done[-1].hash if done else FIRST_PREV}
        if seq == first + 1:
            body["action"] = "reject" if body["action"] != "reject" else "approve"
        raw = rfc8785.dumps(body)
        done.append(AuditRecord(tenant_id="t1", seq=seq, hash=hashlib.sha256(b"\0" + raw).hexdigest(), body=raw,
                                personal=record.personal))
    return done


def bit(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Flip one bit anywhere in the file."""
    whole = bytearray(b"".join(lines_of(records, signed(records))))
    place = dice.randrange(len(whole) - 1)  # The very last newline ends the file, and contains nothing.
    whole[place] ^= 1 << dice.randrange(8)
    return Mutant("bit", _split(bytes(whole)))


def edit(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Change the content of a record, with or without its hash."""
    place = dice.randrange(len(records))
    old = records[place]
    body = {**msgspec.json.decode(old.body), "at": iso(dice.randrange(10**9)), "command_id": "cmd_forged"}
    raw = rfc8785.dumps(body)
    hash_ = hashlib.sha256(b"\0" + raw).hexdigest() if dice.random() < 0.5 else old.hash
    new = msgspec.structs.replace(old, body=raw, hash=hash_)
    return Mutant("edit", lines_of([*records[:place], new, *records[place + 1 :]], signed(records)))


def insert(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Put a record in: a copy, or one that was made for the place."""
    place = dice.randrange(len(records))
    new = dice.choice(records) if dice.random() < 0.5 else rechained(records, place)[place]
    return Mutant("insert", lines_of([*records[:place], new, *records[place:]], signed(records)))


def delete(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Remove records from the middle."""
    place = dice.randrange(len(records) - 1)
    count = min(dice.randrange(1, 4), len(records) - 1 - place)
    return Mutant("delete", lines_of([*records[:place], *records[place + count :]], signed(records)))


def swap(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Exchange two records."""
    one, other = dice.sample(range(len(records)), 2)
    swapped = list(records)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return Mutant("swap", lines_of(swapped, signed(records)))


def cut_tail(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Remove the end and leave the checkpoint."""
    return Mutant("cut tail", lines_of(records[: dice.randrange(len(records))], signed(records)))


def roll_back(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Show an older state, genuine in itself, to a verifier that kept a later checkpoint."""
    older = records[: dice.randrange(1, len(records))]
    return Mutant("roll back", lines_of(older, signed(older)), signed(records))


def rewrite(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Write the log again from some record on, consistent in itself, under the old checkpoint."""
    return Mutant("rewrite", lines_of(rechained(records, dice.randrange(len(records))), signed(records)))


def fork(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Show another history, signed by the gateway too, to a verifier that kept a checkpoint of this one."""
    first = dice.randrange(len(records))
    other = rechained(records, first)
    return Mutant("fork", lines_of(other, signed(other)), signed(records, dice.randrange(first + 1, len(records) + 1)))


def take_personal(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Remove or change a personal value without a record of it."""
    open_ = [place for place, one in enumerate(records) if one.personal]
    if not open_:
        return edit(dice, records)
    place = dice.choice(open_)
    salt, value = records[place].personal["comment"]
    changed = {} if dice.random() < 0.5 else {**records[place].personal, "comment": (salt, value + "!")}
    new = msgspec.structs.replace(records[place], personal=changed)
    return Mutant("personal", lines_of([*records[:place], new, *records[place + 1 :]], signed(records)))


def excuse(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Remove personal data, and record the erasure after the checkpoint, without a signature."""
    place = dice.randrange(len(records))
    draft = AuditDraft(tenant_id="t1", at=iso(0), who={"id": "user:é", "role": "owner"}, action="vote",
                       meta={}, personal={"comment": "no"})
    vote = seal(draft, 1, FIRST_PREV, [bytes(SALT_BYTES)])
    log = [*records[:place], vote, *records[place:]]
    log = [*log[:place], *_renumbered(log, place)]
    head = signed(log)
    forged = seal(AuditDraft(tenant_id="t1", at=iso(1), who={"id": "user:é", "role": "owner"}, action="redact",
                             meta={"records": [place + 1]}), len(log) + 1, log[-1].hash)
    log[place] = msgspec.structs.replace(log[place], personal={})
    return Mutant("excuse", lines_of([*log, forged], head))


def _renumbered(records: Sequence[AuditRecord], first: int) -> list[AuditRecord]:
    """Chain all from index `first` on as if they had always stood there."""
    done = list(records[:first])
    for seq, record in enumerate(records[first:], first + 1):
        body = {**msgspec.json.decode(record.body), "seq": seq, "id": f"aud_{seq:016d}",
                "prev": done[-1].hash if done else FIRST_PREV}
        if body["action"] == "redact":
            body["meta"] = {"records": [one + (one > first) for one in body["meta"]["records"]]}
        raw = rfc8785.dumps(body)
        done.append(AuditRecord(tenant_id="t1", seq=seq, hash=hashlib.sha256(b"\0" + raw).hexdigest(), body=raw,
                                personal=record.personal))
    return done[first:]


def forge_tail(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Append forged records behind the signed ones: more than a gateway may leave unsigned."""
    count = dice.choice((1, 2, 100, 4_000)) + UNSIGNED_RECORDS_MAX
    return Mutant("forged tail, long", lines_of([*records, *appended(records, count)], signed(records)))


def forge_one_too_many(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Append forged records behind a checkpoint that leaves some genuine ones unsigned: together one too many."""
    redacted = max((one.seq for one in records if b'"action":"redact"' in one.body), default=0)
    size = dice.randrange(redacted, len(records) + 1)
    forged = appended(records, UNSIGNED_RECORDS_MAX + 1 - (len(records) - size))
    return Mutant("forged tail, short", lines_of([*records, *forged], signed(records, size)))


def forge_aged_tail(dice: random.Random, records: list[AuditRecord]) -> Mutant:
    """Append a few forged records whose times are too far apart, or none at all."""
    step_ms = dice.choice((UNSIGNED_SPAN_MS_MAX + 1, -UNSIGNED_SPAN_MS_MAX - 1, 10 * 24 * 3_600_000))
    forged = appended(records, dice.randrange(2, 20), step_ms, timeless=dice.random() < 0.2)
    return Mutant("forged tail, aged", lines_of([*records, *forged], signed(records)))


def appended(records: Sequence[AuditRecord], count: int, step_ms: int = 1, *, timeless: bool = False
             ) -> list[AuditRecord]:
    """Forge `count` records that continue a log, as anyone with write access can: `step_ms` apart."""
    forged, prev = list[AuditRecord](), records[-1].hash if records else FIRST_PREV
    for index in range(count):
        at = "" if timeless else iso(20_000_000_000 + index * step_ms)
        draft = AuditDraft(tenant_id="t1", at=at, who={"id": "user:é", "role": "owner"}, action="approve",
                           meta={"to": "granted"})
        forged.append(seal(draft, len(records) + index + 1, prev))
        prev = forged[-1].hash
    return forged


MUTATIONS: tuple[Callable[[random.Random, list[AuditRecord]], Mutant], ...] = (
    bit, edit, insert, delete, swap, cut_tail, roll_back, rewrite, fork, take_personal, excuse,
    forge_tail, forge_one_too_many, forge_aged_tail,
)


def _split(whole: bytes) -> list[bytes]:
    return [line + b"\n" for line in whole.split(b"\n")[:-1]] + [tail for tail in whole.split(b"\n")[-1:] if tail]
