"""Checking an audit log: an intact one is accepted, and every kind of tampering is named (U-2, U-5)."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Callable
from itertools import cycle
from typing import Any

import msgspec
import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from command.audit_logs import (
    PUBLIC,
    SALT,
    chained,
    check,
    check_lines,
    checkpoint_of,
    draft,
    head_of,
    log,
    personal_log,
)
from interlock.command.audit.audit import checkpoint_line, record_line, seal
from interlock.command.audit.audit_check import compare, verify, verify_records
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.audit_report import Tampering
from interlock.command.audit.note import is_genuine
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX
from interlock.protocol.records import AuditRecord

NEWLINE = b"\n"
FLIPS = (0x01, 0x02, 0x20, 0x80, 0xFF)


def export_of(records: list[AuditRecord]) -> list[bytes]:
    """The lines of a log, then its checkpoint."""
    return [*map(record_line, records), checkpoint_line(checkpoint_of(records))]


# --- a log that no one touched ---


@pytest.mark.req("U-2")
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_a_complete_log_is_valid(count: int) -> None:
    records = log(count)
    report = check_lines(b"".join(export_of(records)))
    assert report.ok
    assert report.signature_checked
    assert (report.tenant_id, report.records, report.not_yet_signed) == ("t1", count, 0)
    assert report.kind is report.seq is None


@pytest.mark.req("U-2")
def test_records_past_the_head_are_unsigned_and_not_a_failure() -> None:
    records = log(9)
    report = check(records, head_of(records, 6))
    assert report.ok
    assert (report.records, report.not_yet_signed) == (9, 3)
    assert "last 3 not yet signed" in report.message
    assert check(records, head_of(records, 0)).not_yet_signed == 9


# --- a tail that no gateway leaves ---


def tail_of(count: int, step_ms: int = 1) -> list[AuditRecord]:
    """A log whose first three records are signed, and `count` more."""
    return chained([draft(i, at=iso(step_ms * i)) for i in range(1, 4 + count)])


@pytest.mark.req("U-3", "U-5")
def test_unsigned_records_are_accepted_up_to_the_bound() -> None:
    records = tail_of(UNSIGNED_RECORDS_MAX)
    report = check(records, head_of(records, 3))
    assert (report.ok, report.not_yet_signed) == (True, UNSIGNED_RECORDS_MAX)
    records = tail_of(UNSIGNED_RECORDS_MAX + 1)
    report = check(records, head_of(records, 3))
    assert (report.ok, report.kind, report.seq) == (False, Tampering.UNSIGNED, len(records))
    assert "1025 records follow record 3, the last one that was signed" in report.message


@pytest.mark.req("U-3", "U-5")
def test_five_thousand_forged_records_after_the_signed_ones_are_found() -> None:
    records = tail_of(5_000, step_ms=0)
    for report in (check(records, head_of(records, 3)),
                   check_lines(b"".join([*map(record_line, records), head_of(records, 3)]))):
        assert (report.ok, report.kind, report.seq) == (False, Tampering.UNSIGNED, 1_028)


@pytest.mark.req("U-3", "U-5")
@pytest.mark.parametrize("step_ms", [UNSIGNED_SPAN_MS_MAX + 1, -UNSIGNED_SPAN_MS_MAX - 1])
def test_unsigned_records_further_apart_than_a_gateway_leaves_them_are_found(step_ms: int) -> None:
    start = 10 * UNSIGNED_SPAN_MS_MAX
    near = chained([draft(i, at=iso(start + i % 2 * UNSIGNED_SPAN_MS_MAX)) for i in range(1, 10)])
    assert check(near, head_of(near, 3)).ok
    far = chained([draft(i, at=iso(start + (i == 8) * step_ms)) for i in range(1, 10)])
    report = check(far, head_of(far, 3))
    assert (report.ok, report.kind, report.seq) == (False, Tampering.UNSIGNED, 8)
    assert "span 120 s" in report.message
    assert check(far, head_of(far, 8)).ok, "what is signed may be as old as it likes"


@pytest.mark.req("U-3", "U-5")
def test_an_unsigned_record_without_a_readable_time_is_found() -> None:
    records = chained([draft(i, at="never" if i == 5 else iso(i)) for i in range(1, 8)])
    report = check(records, head_of(records, 3))
    assert (report.ok, report.kind, report.seq) == (False, Tampering.UNSIGNED, 5)


@pytest.mark.req("U-2")
def test_without_a_public_key_the_report_names_the_missing_check() -> None:
    records = log(3)
    report = verify_records(records, head_of(records))
    assert report.ok
    assert not report.signature_checked
    assert "not checked" in report.message


# --- every byte ---


@pytest.mark.req("U-2", "U-5")
@pytest.mark.parametrize("flip", FLIPS)
def test_every_byte_flipped_in_turn_is_found_and_its_record_named(flip: int) -> None:
    """Each byte is flipped in one of the ways; each check of a bad log searches for a single flipped bit."""
    records = log(3)
    whole = b"".join(map(record_line, records)) + head_of(records)
    line_of = [number for number, line in enumerate(io.BytesIO(whole), 1) for _ in line]
    for place, number in list(enumerate(line_of))[FLIPS.index(flip) :: len(FLIPS)]:
        flipped = bytearray(whole)
        flipped[place] ^= flip
        report = check_lines(bytes(flipped))
        assert not report.ok, place
        if number <= 3:
            assert report.seq == number, place
            if flip == 0xFF or NEWLINE in (whole[place : place + 1], flipped[place : place + 1]):
                assert report.kind in (Tampering.RECORD_CHANGED, Tampering.HASH_CHANGED), place
            else:
                assert report.kind is Tampering.BIT_FLIPPED, place
                byte = place - whole.rfind(NEWLINE, 0, place) - 1
                assert f"bit {flip.bit_length() - 1} of byte {byte} " in report.message
        else:
            assert (report.kind, report.seq) == (Tampering.BAD_SIGNATURE, None), place


@pytest.mark.req("U-2", "U-5")
def test_every_byte_made_a_line_end_or_a_blank_is_found() -> None:
    records = log(2)
    whole = b"".join(map(record_line, records)) + head_of(records)
    for place, new in zip(range(0, len(whole), 2), cycle(b"\n\r \t"), strict=False):
        if whole[place] != new:
            changed = whole[:place] + bytes([new]) + whole[place + 1 :]
            assert not check_lines(changed).ok, (place, new)


@pytest.mark.req("U-2", "U-5")
def test_every_omitted_or_doubled_byte_is_found() -> None:
    records = log(2)
    whole = b"".join(map(record_line, records)) + head_of(records)
    for place, more in zip(range(0, len(whole), 3), cycle((1, 0, None)), strict=False):
        left_out_doubled_or_cut = whole[: place + (more == 0)] + (whole[place + more :] if more is not None else b"")
        assert not check_lines(left_out_doubled_or_cut).ok, (place, more)


# --- every kind of tampering ---


def resealed(record: AuditRecord, **changes: Any) -> AuditRecord:
    """A record changed together with its own hash, as an attacker who knows the format would do it."""
    body = rfc8785.dumps({**msgspec.json.decode(record.body), **changes})
    return AuditRecord(tenant_id="t1", seq=record.seq, hash=hashlib.sha256(b"\0" + body).hexdigest(), body=body)


def with_body(record: AuditRecord, body: bytes) -> AuditRecord:
    return msgspec.structs.replace(record, body=body)


def edit(records: list[AuditRecord], place: int, record: AuditRecord) -> list[AuditRecord]:
    return [*records[:place], record, *records[place + 1 :]]


TAMPERED: dict[str, tuple[Callable[[list[AuditRecord]], list[AuditRecord]], Tampering, int]] = {
    "body edited": (
        lambda r: edit(r, 4, with_body(r[4], r[4].body.replace(b"grant", b"deny!"))), Tampering.RECORD_CHANGED, 5),
    "last body edited": (
        lambda r: edit(r, 9, with_body(r[9], r[9].body.replace(b"grant", b"deny!"))), Tampering.RECORD_CHANGED, 10),
    "body written another way": (
        lambda r: edit(r, 4, with_body(r[4], r[4].body.replace(b'":"', b'": "', 1))), Tampering.RECORD_CHANGED, 5),
    "body and hash edited": (
        lambda r: edit(r, 4, resealed(r[4], action="reject")), Tampering.RECORD_CHANGED, 5),
    "first body and hash edited": (
        lambda r: edit(r, 0, resealed(r[0], action="reject")), Tampering.RECORD_CHANGED, 1),
    "prev and hash edited": (
        lambda r: edit(r, 4, resealed(r[4], prev="ab" * 32)), Tampering.RECORD_CHANGED, 5),
    "last record and hash edited": (
        lambda r: edit(r, 9, resealed(r[9], action="reject")), Tampering.REWRITTEN, 10),
    "hash edited": (
        lambda r: edit(r, 4, msgspec.structs.replace(r[4], hash="00" * 32)), Tampering.HASH_CHANGED, 5),
    "last hash edited": (
        lambda r: edit(r, 9, msgspec.structs.replace(r[9], hash="00" * 32)), Tampering.HASH_CHANGED, 10),
    "number beside the record edited": (
        lambda r: edit(r, 4, msgspec.structs.replace(r[4], seq=6)), Tampering.RECORD_CHANGED, 5),
    "first removed": (lambda r: r[1:], Tampering.REMOVED, 1),
    "middle removed": (lambda r: r[:4] + r[5:], Tampering.REMOVED, 5),
    "three removed": (lambda r: r[:4] + r[7:], Tampering.REMOVED, 5),
    "record doubled": (lambda r: r[:5] + r[4:], Tampering.INSERTED, 5),
    "later copy inserted": (lambda r: [*r[:4], r[7], *r[4:]], Tampering.INSERTED, 8),
    "forged record inserted": (
        lambda r: [*r[:4], seal(draft(5, action="approve"), 5, r[3].hash), *r[4:]], Tampering.INSERTED, 5),
    "another tenant's record inserted": (
        lambda r: [*r[:4], seal(draft(5, tenant_id="t2"), 5, r[3].hash), *r[5:]], Tampering.INSERTED, 5),
    "neighbours swapped": (lambda r: [*r[:4], r[5], r[4], *r[6:]], Tampering.REORDERED, 5),
    "far ones swapped": (lambda r: [*r[:2], r[8], *r[3:8], r[2], r[9]], Tampering.REORDERED, 3),
    "reversed": (lambda r: r[::-1], Tampering.REORDERED, 1),
    "tail cut": (lambda r: r[:-1], Tampering.CUT_TAIL, 10),
    "long tail cut": (lambda r: r[:3], Tampering.CUT_TAIL, 4),
    "all cut": (lambda r: [], Tampering.CUT_TAIL, 1),
    "written anew": (lambda r: log(10, action="approve"), Tampering.REWRITTEN, 10),
    "written anew and longer": (lambda r: log(12, action="approve"), Tampering.REWRITTEN, 10),
}  # fmt: skip


@pytest.mark.req("U-2", "U-5")
@pytest.mark.parametrize("name", TAMPERED)
def test_each_kind_of_tampering_is_named_with_its_record(name: str) -> None:
    tamper, kind, seq = TAMPERED[name]
    records = log(10)
    report = check(tamper(records), head_of(records))
    assert not report.ok
    assert (report.kind, report.seq) == (kind, seq), report.message
    assert report.message


@pytest.mark.req("U-2")
@pytest.mark.parametrize("members", [
    b'"meta":' + b"[" * 20_000 + b"]" * 20_000,
    b'"meta":{"a":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001,
    b'"meta":{"cost":0.5}',
    b'"meta":{"none":null}',
    b'"meta":{"n":9007199254740992}',
    b'"meta":{"n":' + b"9" * 6_000 + b"}",
    b'"meta":{"b":1,"a":2}',
    b'"meta":{"a":1,"a":2}',
    b'"meta":{"a":"\\ud800"}',
    b'"meta":{"a":"\xff"}',
    b'"meta":{"a":"\\u0041"}',
    b'"meta":{},"more":1',
    b'"meta":{},"session_id":null',
])  # fmt: skip
def test_a_record_outside_the_schema_is_found_even_under_its_right_hash(members: bytes) -> None:
    records = log(3)
    before, after = records[1].body.split(b'"meta":', 1)
    after = after[after.index(b',"prev":') :]

    def forged(members: bytes) -> AuditRecord:
        body = before + members + after
        return AuditRecord(tenant_id="t1", seq=2, hash=hashlib.sha256(b"\0" + body).hexdigest(), body=body)

    assert check([records[0], forged(b'"meta":{"a":1,"b":2}')], None).records == 2
    report = check([records[0], forged(members)], None)
    assert (report.kind, report.seq) == (Tampering.RECORD_CHANGED, 2)


@pytest.mark.req("U-2")
def test_a_missing_head_is_named() -> None:
    report = check(log(4), None)
    assert (report.ok, report.kind, report.records) == (False, Tampering.HEAD_MISSING, 4)
    assert verify([], PUBLIC).kind is Tampering.HEAD_MISSING


@pytest.mark.req("U-2")
def test_a_checkpoint_of_another_key_tenant_or_size_is_a_bad_signature() -> None:
    records = log(4)
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    good, other = checkpoint_of(records), checkpoint_of(records, stranger)
    assert is_genuine(good, PUBLIC)
    swapped = other.signatures[0]._replace(key_id=good.signatures[0].key_id)
    for bad in (
        other,
        checkpoint_of(records, tenant_id="t2"),
        other._replace(signatures=(swapped,)),
        good._replace(signatures=(good.signatures[0]._replace(name="interlock.audit/gw_2/t1"),)),
        good._replace(text=good.text.replace("\n4\n", "\n3\n")),
    ):
        assert check(records, checkpoint_line(bad)).kind is Tampering.BAD_SIGNATURE
    assert check(records, checkpoint_line(good) + b"{}\n").kind is Tampering.BAD_SIGNATURE
    after = [*map(record_line, records), checkpoint_line(good), record_line(records[0])]
    assert verify(after, PUBLIC).kind is Tampering.INSERTED


# --- a checkpoint that was kept elsewhere ---


@pytest.mark.req("U-3", "U-5")
def test_a_checkpoint_kept_elsewhere_distinguishes_a_fork_from_an_older_state() -> None:
    records, others = log(10), log(12, action="reject")
    lines = export_of(records)
    for size in (0, 1, 7, 10):
        assert compare(lines, checkpoint_of(records[:size]), PUBLIC).ok
    forked = compare(lines, checkpoint_of(others[:7]), PUBLIC)
    assert (forked.kind, forked.seq) == (Tampering.FORKED, 7)
    older = compare(lines, checkpoint_of(log(12)), PUBLIC)
    assert (older.kind, older.seq) == (Tampering.ROLLED_BACK, 11)
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert compare(lines, checkpoint_of(others[:7], stranger), PUBLIC).kind is Tampering.BAD_SIGNATURE
    for earlier in ([checkpoint_of(others[:7])], [checkpoint_of(log(12))]):
        assert is_whole(lines, lines[-1], PUBLIC, earlier) is None
    assert is_whole(lines, lines[-1], PUBLIC, [checkpoint_of(records[:3]), checkpoint_of(records[:7])])


@pytest.mark.req("U-3", "U-5")
def test_earlier_checkpoints_narrow_down_the_rewritten_records() -> None:
    records = log(6)
    rewritten = chained([draft(i, action="vote" if i <= 4 else "reject") for i in range(1, 7)])
    earlier = [checkpoint_of(records[:3]), checkpoint_of(records[:5])]
    report = verify_records(rewritten, head_of(records), PUBLIC, earlier)
    assert (report.kind, report.seq) == (Tampering.REWRITTEN, 4)
    assert "records after 3" in report.message


# --- personal data ---


@pytest.mark.req("U-4")
def test_data_erased_on_record_leaves_the_log_valid() -> None:
    there = personal_log(erased=False, recorded=False)
    report = check(there, head_of(there))
    assert (report.ok, report.erased) == (True, 0)
    gone = personal_log(erased=True, recorded=True)
    report = check(gone, head_of(gone))
    assert (report.ok, report.erased) == (True, 1)
    assert "personal data of 1 record was erased" in report.message
    silent = personal_log(erased=True, recorded=False)
    report = check(silent, head_of(silent))
    assert (report.kind, report.seq) == (Tampering.PERSONAL_MISSING, 2)
    # In the database the record of the erasure may be newer than the checkpoint; in an export it is not signed.
    assert check(gone, head_of(gone[:3])).ok
    report = verify([*map(record_line, gone), head_of(gone[:3])], PUBLIC)
    assert (report.kind, report.seq) == (Tampering.PERSONAL_MISSING, 2)
    assert "no signed record documents" in report.message


@pytest.mark.req("U-4")
@pytest.mark.parametrize("changed", [
    {"comment": (SALT.hex(), "Ann said: no"), "ip": (SALT.hex(), "::1")},
    {"comment": (bytes(32).hex(), 'Ann said: "go"'), "ip": (SALT.hex(), "::1")},
    {"comment": (SALT.hex(), 'Ann said: "go"'), "ip": (SALT.hex(), "::1"), "reason": (SALT.hex(), "x")},
    {"comment": ("zz", 'Ann said: "go"'), "ip": (SALT.hex(), "::1")},
    {"comment": (SALT.hex().upper(), 'Ann said: "go"'), "ip": (SALT.hex(), "::1")},
])
def test_changed_personal_data_is_found(changed: dict[str, tuple[str, str]]) -> None:
    records = personal_log(erased=False, recorded=False)
    bad = edit(records, 1, msgspec.structs.replace(records[1], personal=changed))
    report = check(bad, head_of(records))
    assert (report.kind, report.seq) == (Tampering.PERSONAL_CHANGED, 2)


@pytest.mark.req("U-2", "U-5")
def test_random_tampering_is_always_found() -> None:
    dice = random.Random(11)
    records = log(12)
    lines = [*map(record_line, records), head_of(records)]
    for _ in range(150):
        bad = list(lines)
        place, other = dice.randrange(len(bad)), dice.randrange(len(bad))
        match dice.randrange(5):
            case 0:
                bad[place], bad[other] = bad[other], bad[place]
            case 1:
                del bad[place : place + dice.randrange(1, 4)]
            case 2:
                bad.insert(other, bad[place])
            case 3:
                line = bytearray(bad[place])
                for _ in range(dice.randrange(1, 4)):
                    line[dice.randrange(len(line))] = dice.randrange(256)
                bad[place] = bytes(line)
            case _:
                bad[place] = bad[place][: dice.randrange(len(bad[place]))]
        if bad != lines:
            assert not check_lines(b"".join(bad)).ok
