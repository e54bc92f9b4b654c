"""Parsing of an audit export's lines, in exactly the form they are written in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from interlock.command.audit.audit import CheckpointLine, ExportLine, checkpoint_line, leaf_hash, personal_form
from interlock.command.audit.note import ORIGIN_PREFIX, Checkpoint, NotANote, parse_checkpoint
from interlock.command.canonical import MAX_INTEGER, NotCanonical, is_plain

MAX_REPAIRED_LINE_BYTES = 4_096
"""In a longer line a flipped bit is not searched for."""
MAX_FRAMING_BYTES = 256
"""How many bytes before a record in its line are searched, if the record cannot be found."""


class RecordBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record's body, for decoding; encoded again in sorted order it must yield the same bytes."""

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
    personal: dict[str, str] | None = None


_SEQ = re.compile(rb'\{"seq":(\d{1,16}),')
_FRAME = re.compile(rb'\{"seq":(\d{1,16}),"hash":"([0-9a-f]{64})",(?:"personal":\{.*\},)?"record":(\{.*\})\}\n')
_line = msgspec.json.Decoder(ExportLine)
_body = msgspec.json.Decoder(RecordBody)
_checkpoint = msgspec.json.Decoder(CheckpointLine)
_encode = msgspec.json.Encoder(order="sorted").encode


def parse_record(line: bytes) -> tuple[ExportLine, RecordBody] | None:
    """Parse a record's line; None unless it is, byte for byte, the encoding of its content."""
    try:
        shown = _line.decode(line)
        raw = bytes(shown.record)
        body = _body.decode(raw)
        if _encode(body) != raw or not _within_schema(body):
            return None
        opened = b'"personal":%s,' % personal_form(shown.personal) if shown.personal else b""
        written = b'{"seq":%d,"hash":"%s",%s"record":%s}\n' % (shown.seq, shown.hash.encode(), opened, raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, NotCanonical):
        return None
    return (shown, body) if written == line else None


def _within_schema(body: RecordBody) -> bool:
    return (body.who.keys() == {"id", "role"} and 0 < body.seq <= MAX_INTEGER and is_plain(body.meta)
            and body.personal != {})


def parse_checkpoint_line(line: bytes) -> Checkpoint | None:
    """Parse a checkpoint's line; None unless it is, byte for byte, the encoding of its content."""
    try:
        found = parse_checkpoint(_checkpoint.decode(line).checkpoint)
        return found if checkpoint_line(found) == line and found.origin.startswith(ORIGIN_PREFIX) else None
    except (msgspec.MsgspecError, UnicodeError, NotANote, NotCanonical):
        return None


def looks_like_checkpoint(line: bytes, *, last: bool) -> bool:
    """Return whether a line is a checkpoint's; a damaged one is still a checkpoint if it ends the log."""
    return line.startswith(b'{"checkpoint":') or (
        last and not line.startswith(b'{"seq":') and (ORIGIN_PREFIX.encode() in line or b'{"checkpoint"' in line))


def prev_after(following: bytes | None) -> str | None:
    """Return the hash of a record according to the record after it, if it states one."""
    read = parse_record(following) if following is not None else None
    return read[1].prev if read is not None else None


def number_of(line: bytes) -> int | None:
    """Return the number that a line begins with."""
    found = _SEQ.match(line)
    return int(found[1]) if found else None


def redacted_by(meta: Mapping[str, Any]) -> set[int]:
    """Return the records whose personal data a `redact` record declares erased."""
    named: object = meta.get("records")
    if not isinstance(named, list):
        return set()
    return {one for one in cast("list[object]", named) if type(one) is int}


def flipped_bit(line: bytes, place: int) -> int | None:
    """Return the one bit whose correction makes a line the complete record `place` again; None if there is none."""
    if len(line) > MAX_REPAIRED_LINE_BYTES:
        return None
    return next((bit for bit in _suspects(line, place) if _is_whole(_with_bit(line, bit), place)), None)


def _suspects(line: bytes, place: int) -> Iterator[int]:
    """Yield bits whose correction may restore a line: those of the text before a record, or those its hash leads to."""
    frame = _FRAME.fullmatch(line)
    if frame is not None and int(frame[1]) == place:
        own = hashlib.sha256(b"\0" + frame[3]).hexdigest().encode()
        if own != frame[2]:
            bit = _only_difference(own, frame[2])
            found = _flipped_within(frame) if bit is None else 8 * frame.start(2) + bit
            yield from () if found is None else (found,)
            return
    if not line.endswith(b"}}\n"):  # The bit is there; _FRAME ends with it, and takes long for every other one.
        yield from (bit for bit in range(8 * max(0, len(line) - 3), 8 * len(line))
                    if _FRAME.fullmatch(_with_bit(line, bit)))
        return
    record = line.find(b'{"action":')
    before = range(record + 1 if record > 0 else min(len(line), MAX_FRAMING_BYTES))
    for at in (*before, *range(max(len(before), len(line) - 3), len(line))):
        yield from (bit for bit in range(8 * at, 8 * at + 8) if _FRAME.fullmatch(_with_bit(line, bit)))


def _with_bit(line: bytes, bit: int) -> bytes:
    flipped = bytearray(line)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def _is_whole(line: bytes, place: int) -> bool:
    read = parse_record(line)
    return read is not None and read[0].seq == read[1].seq == place and leaf_hash(bytes(read[0].record)) == read[0].hash


def _flipped_within(frame: re.Match[bytes]) -> int | None:
    wanted, start = bytes.fromhex(frame[2].decode()), frame.start(3)
    trial = bytearray(b"\0" + frame[3])
    for bit in range(8, 8 * len(trial)):
        trial[bit // 8] ^= 1 << bit % 8
        if hashlib.sha256(trial).digest() == wanted:
            return bit + 8 * (start - 1)
        trial[bit // 8] ^= 1 << bit % 8
    return None


def _only_difference(one: bytes, other: bytes) -> int | None:
    """Return the bit in which two texts of one length differ, if they differ in a single one."""
    differences = [(at, mine ^ theirs) for at, (mine, theirs) in enumerate(zip(one, other, strict=True))
                   if mine != theirs]
    if len(differences) != 1 or differences[0][1].bit_count() != 1:
        return None
    return 8 * differences[0][0] + differences[0][1].bit_length() - 1
