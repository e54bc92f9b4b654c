"""The lines of an audit export (U-2): read back only in the form they are written in, one flipped bit found again."""

from __future__ import annotations

import pytest

from command.audit_logs import SALT, draft, head_of, log, personal_log
from interlock.command.audit.audit import FIRST_PREV, record_line, seal
from interlock.command.audit.audit_lines import (
    MAX_REPAIRED_LINE_BYTES,
    flipped_bit,
    looks_like_checkpoint,
    number_of,
    parse_checkpoint_line,
    parse_record,
    prev_after,
    redacted_by,
)

pytestmark = pytest.mark.req("U-2", "U-5")
RECORDS = log(3)
LINE = record_line(RECORDS[1])
HEAD = head_of(RECORDS)


def test_a_written_record_is_read_back() -> None:
    read = parse_record(LINE)
    assert read is not None
    shown, body = read
    assert (shown.seq, shown.hash, body.seq, body.prev) == (2, RECORDS[1].hash, 2, RECORDS[0].hash)
    opened = parse_record(record_line(personal_log(erased=False, recorded=False)[1]))
    assert opened is not None
    assert opened[0].personal == {"comment": (SALT.hex(), 'Ann said: "go"'), "ip": (SALT.hex(), "::1")}


@pytest.mark.parametrize("line", [
    b"", b"\n", LINE[:-1], LINE + b"\n", b" " + LINE, LINE.replace(b'{"seq":2', b'{"seq": 2'),
    LINE.replace(b'"seq":2,"hash"', b'"seq":02,"hash"'), LINE.replace(b'"n":2', b'"n":2.0'),
    LINE.replace(b'"decision"', b'"\\u0064ecision"'), LINE.replace(b'"action":"vote",', b'"action":"vote","extra":1,'),
    LINE.replace(b'"role":"owner"', b'"ip":"::1","role":"owner"'), LINE.replace("é".encode(), b"\xff"),
    HEAD, b"[" * 100_000,
])
def test_another_form_of_the_same_record_is_not_read(line: bytes) -> None:
    assert parse_record(line) is None


def test_a_written_checkpoint_is_read_back_and_no_other_form_accepted() -> None:
    head = parse_checkpoint_line(HEAD)
    assert head is not None
    assert (head.size, head.tenant_id) == (3, "t1")
    for other in (HEAD[:-1], HEAD.replace(b":", b": ", 1), HEAD.replace(b"interlock.audit/", b"someone.else/"), LINE):
        assert parse_checkpoint_line(other) is None


@pytest.mark.parametrize(("line", "last", "is_one"), [
    (HEAD, False, True), (HEAD[3:], False, False), (HEAD[3:], True, True), (b"x" + HEAD, True, True),
    (LINE, True, False), (b"garbage", True, False),
])
def test_a_damaged_checkpoint_is_still_one_at_the_end_of_the_log(line: bytes, last: bool, is_one: bool) -> None:
    assert looks_like_checkpoint(line, last=last) is is_one


def test_the_previous_hash_of_a_record_is_read() -> None:
    assert prev_after(record_line(RECORDS[2])) == RECORDS[1].hash
    assert prev_after(record_line(RECORDS[0])) == FIRST_PREV
    assert prev_after(None) is None
    assert prev_after(b"garbage") is None


@pytest.mark.parametrize(("line", "number"), [(LINE, 2), (b'{"seq":17,garbage', 17), (b'{"seq":-1,', None), (b"", None),
                                              (b'{"seq":' + b"9" * 17 + b",", None)])
def test_a_damaged_line_may_still_have_a_readable_number(line: bytes, number: int | None) -> None:
    assert number_of(line) == number


@pytest.mark.parametrize(("meta", "records"), [
    ({"records": [1, 5, 5]}, {1, 5}), ({"records": [1, "2", True, 3.0, None]}, {1}), ({"records": "1"}, set()),
    ({}, set()), ({"records": {"1": 1}}, set()),
])
def test_a_redaction_names_records_by_number_alone(meta: dict[str, object], records: set[int]) -> None:
    assert redacted_by(meta) == records


@pytest.mark.parametrize("at", range(0, len(LINE), 7))
def test_a_flipped_bit_is_found_wherever_it_is(at: int) -> None:
    for bit in (0, 4, 7):
        line = bytearray(LINE)
        line[at] ^= 1 << bit
        assert flipped_bit(bytes(line), 2) == 8 * at + bit


def test_two_flipped_bits_a_whole_line_and_a_long_one_have_none() -> None:
    two = bytearray(LINE)
    two[20] ^= 1
    two[-20] ^= 1
    assert flipped_bit(bytes(two), 2) is None
    assert flipped_bit(LINE, 3) is None
    long = record_line(seal(draft(1, meta={"text": "x" * MAX_REPAIRED_LINE_BYTES}), 1, FIRST_PREV))
    assert flipped_bit(long.replace(b"xx", b"xy", 1), 1) is None
