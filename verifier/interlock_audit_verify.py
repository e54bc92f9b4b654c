#!/usr/bin/env python3
"""Check an audit log that `interlock audit export` wrote, without Interlock:
`interlock_audit_verify.py LOG KEY.pub [CHECKPOINT]`, the last one a checkpoint of this log that was kept elsewhere.
With `--proof`, LOG is a file of `interlock ci --proof`: records of one command, each with the hashes that lead from its
own (1.) up the tree to the root of the signed checkpoint (3.), the lowest first.

Needs Python 3.11 and the package `cryptography`. The log is one JSON document a line:

    {"seq":1,"hash":H,"personal":{NAME:[SALT,VALUE]},"record":R}      a record; `personal` only where it has some left
    {"checkpoint":NOTE}                                               the last line

1. R is canonical JSON (RFC 8785): sorted names, no blanks. H is SHA-256 of a zero byte and the bytes of R.
2. R.seq counts 1, 2, 3 …; R.prev is the H of the record before, 64 zeros in the first.
3. Over the H of the first `size` records stands a Merkle tree (RFC 6962): inner nodes are SHA-256 of the byte 1 and
   both halves, the left one being the largest power of two. Its root is in the checkpoint.
4. The checkpoint is a signed note (c2sp.org/signed-note, tlog-checkpoint): origin, size, root in base64, an empty line,
   and `— ORIGIN BASE64(4 bytes of key id, Ed25519 signature of what stands before the empty line)`.
5. R.personal has HMAC-SHA256(SALT, NAME, 0, VALUE) of what a person may have erased. A value that is gone must be
   named by a record of the action `redact` among those that the checkpoint covers.
6. Without a checkpoint kept elsewhere nobody can tell a log from an older state of itself, cut where one was signed.
   Of the records after the last checkpoint only the chain is checked, as they are not signed yet. A gateway leaves at
   most 1024 of them, whose times (R.at) are at most 120 s apart; more are an "unsigned tail".

Exit status: 0 whole, 1 tampered with, 2 cannot be read. The first bad record is named, and what was done to it.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

REQUIRED = {"id", "tenant_id", "seq", "prev", "at", "who", "action", "meta"}
OPTIONAL = {"command_id", "session_id", "approval_id", "personal"}
MAX_INTEGER, MAX_DEPTH = 2**53 - 1, 16
MAX_UNSIGNED, MAX_UNSIGNED_SPAN_S = 1024, 120
MAX_SMALL_BYTES = 1024 * 1024  # of a key, and of a checkpoint that was kept elsewhere
PROOF_FORMAT, MAX_PROOF_BYTES, MAX_PROVEN, MAX_PATH = "interlock.audit-proof/1", 8 * 1024 * 1024, 1000, 64
FRAME = re.compile(rb'\{"seq":(\d{1,16}),"hash":"([0-9a-f]{64})",(?:"personal":\{.*\},)?"record":(\{.*\})\}\n')


class Bad(Exception):
    """The first thing that is wrong: (kind, number of the record or None)."""


def check(lines: list[bytes], key: Ed25519PublicKey, kept: bytes | None = None) -> tuple[int, int, int, str]:
    """Give (records, of them not yet signed, of them with erased data, origin of the log). Raises Bad."""
    leaves: list[bytes] = []
    tenant, prev = None, "0" * 64
    closed: set[int] = set()
    redactions: list[tuple[int, list]] = []
    times: list[str] = []
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else None
        if is_checkpoint(line, last=following is None):
            size, origin = check_checkpoint(line, key, tenant, leaves)
            if following is not None:
                raise Bad("inserted", len(leaves) + 1)
            break
        place = len(leaves) + 1
        read = parse(line)
        if read is None:
            raise Bad(changed(line, place), place)
        seq, shown, personal, raw, record = read
        digest = hashlib.sha256(b"\0" + raw).digest()
        if digest.hex() != shown:
            goes_on = prev_of(following) == digest.hex() or is_last_signed(following, leaves, digest)
            kind = changed(line, place)
            raise Bad("hash changed" if goes_on and kind != "bit flipped" else kind, place)
        if seq != record["seq"] or record["id"] != f"aud_{seq:016d}":
            raise Bad(changed(line, place), place)
        if tenant is not None and record["tenant_id"] != tenant:
            raise Bad("inserted", place)
        if seq != place:
            raise misplaced(seq, place, lines[at + 1 :])
        if record["prev"] != prev:
            before = place > 1 and prev_of(following) == digest.hex()
            raise Bad("record changed", place - 1 if before else place)
        committed = record.get("personal", {})
        if not all(opens(committed.get(name, ""), name, *value) for name, value in personal.items()):
            raise Bad("personal data changed", place)
        if committed.keys() - personal.keys():
            closed.add(place)
        if record["action"] == "redact" and isinstance(record["meta"].get("records"), list):
            redactions.append((place, record["meta"]["records"]))
        tenant, prev = record["tenant_id"], shown
        leaves.append(digest)
        times.append(record["at"])
    else:
        raise Bad("checkpoint missing", None)
    if kept is not None:
        check_kept(kept, key, origin, leaves)
    redacted = {one for place, named in redactions if place <= size for one in named if type(one) is int}
    if closed - redacted:
        raise Bad("personal data missing", min(closed - redacted))
    check_tail(size, times[size:])
    return len(leaves), len(leaves) - size, len(closed), origin


def check_proof(raw: bytes, key: Ed25519PublicKey) -> tuple[int, str, str]:
    """Give (records, their command, origin of the log) of a proof that holds. Raises Bad."""
    try:
        file = json.loads(raw.decode(), object_pairs_hook=members) if len(raw) <= MAX_PROOF_BYTES else None
        canonical(file)  # Half a surrogate pair and a number without end have no form at all.
        command, line = file["command_id"], canonical({"checkpoint": file["checkpoint"]}) + b"\n"
        found = [(one.pop("record"), one.pop("proof"), one) for one in file["records"]]
        good = (file.keys() == {"format", "command_id", "checkpoint", "records"} and file["format"] == PROOF_FORMAT
                and isinstance(command, str) and 0 < len(found) <= MAX_PROVEN and parse_checkpoint(line) is not None
                and all(isinstance(record, dict) and isinstance(path, list) and not more
                        and all(isinstance(one, str) for one in path) for record, path, more in found))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise Bad("unreadable", None)
    origin, size, top = genuine(line, key)
    last = 0
    for record, path, _ in found:
        seq = record.get("seq") if type(record.get("seq")) is int and record["seq"] > 0 else None
        if seq is None or not fits(record):
            raise Bad("record changed", seq)
        try:
            hashes = [bytes.fromhex(one) for one in path]
        except ValueError:
            hashes = [b""]
        if len(hashes) > MAX_PATH or any(len(one) != 32 for one in hashes):
            raise Bad("unreadable", seq)
        if seq > size or climbed(hashlib.sha256(b"\0" + canonical(record)).digest(), seq - 1, size, hashes) != top:
            raise Bad("not included", seq)
        if record.get("command_id") != command or record["tenant_id"] != unquote(origin.rpartition("/")[2]):
            raise Bad("another command", seq)
        if seq <= last:
            raise Bad("unreadable", seq)
        last = seq
    return len(found), command, origin


def members(pairs: list) -> dict:
    """Give an object's members. Raises ValueError where a name stands twice: readers differ in which one they show."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def climbed(digest: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """Give the root of a tree of `size` leaves in which leaf `index` is this one; None for a path of a wrong length."""
    if size == 1 or not path:
        return digest if size == 1 and not path else None
    left = 1 << (size - 1).bit_length() - 1
    half = climbed(digest, index, left, path[:-1]) if index < left else \
        climbed(digest, index - left, size - left, path[:-1])
    if half is None:
        return None
    return hashlib.sha256(b"\1" + (half + path[-1] if index < left else path[-1] + half)).digest()


def check_tail(size: int, times: list[str]) -> None:
    """Check that a gateway may have left the records after the checkpoint unsigned. Raises Bad."""
    if len(times) > MAX_UNSIGNED:
        raise Bad("unsigned tail", size + MAX_UNSIGNED + 1)
    seen: list[int] = []
    for place, text in enumerate(times, size + 1):
        try:
            at = datetime.fromisoformat(text)
            seen.append(round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
        except (ValueError, OverflowError):
            raise Bad("unsigned tail", place) from None
        if max(seen) - min(seen) > MAX_UNSIGNED_SPAN_S * 1000:
            raise Bad("unsigned tail", place)


def parse(line: bytes):
    """Read a record's line as (seq, hash, personal, bytes of the record, record); None if it is not in its one form."""
    frame = re.match(rb'\{"seq":(\d{1,16}),"hash":"([^"]*)",', line)
    at = line.find(b'"record":')
    if frame is None or at < 0 or not line.endswith(b"}\n"):
        return None
    raw, between = line[at + 9 : -2], line[frame.end() : at]
    try:
        record, personal = json.loads(raw), {}
        if between:
            if not (between.startswith(b'"personal":') and between.endswith(b",")):
                return None
            personal = json.loads(between[11:-1])
            if not personal or canonical(personal) != between[11:-1] or not all(
                isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)
                for pair in personal.values()
            ):
                return None
        good = canonical(record) == raw and fits(record) and str(int(frame[1])).encode() == frame[1]
    except (ValueError, RecursionError, AttributeError):
        return None
    return (int(frame[1]), frame[2].decode("utf-8", "replace"), personal, raw, record) if good else None


def canonical(value: object) -> bytes:
    """Write JSON in its one form (names here are ASCII, numbers integers, so Python's own order and digits will do)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def fits(record: object) -> bool:
    """Tell whether a record has the members that a record has."""
    if not isinstance(record, dict) or not REQUIRED <= record.keys() <= REQUIRED | OPTIONAL:
        return False
    texts = [record[name] for name in record.keys() - {"seq", "who", "meta", "personal"}]
    who, personal = record["who"], record.get("personal", {"-": "-"})
    return (
        all(isinstance(one, str) for one in texts) and type(record["seq"]) is int and 0 < record["seq"] <= MAX_INTEGER
        and isinstance(who, dict) and who.keys() == {"id", "role"} and all(isinstance(one, str) for one in who.values())
        and isinstance(personal, dict) and bool(personal) and all(isinstance(one, str) for one in personal.values())
        and isinstance(record["meta"], dict) and plain(record["meta"], 0)
    )


def plain(value: object, depth: int) -> bool:
    """Tell whether a value has strings, booleans, integers below 2^53, objects with ASCII names and arrays only."""
    if isinstance(value, str | bool):
        return True
    if isinstance(value, int):
        return -MAX_INTEGER <= value <= MAX_INTEGER
    if depth >= MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(name.isascii() and plain(one, depth + 1) for name, one in value.items())
    return isinstance(value, list) and all(plain(one, depth + 1) for one in value)


def opens(shown: str, name: str, salt: str, value: str) -> bool:
    """Tell whether a value and its salt are what a record commits to."""
    if re.fullmatch("[0-9a-f]{64}", salt) is None:
        return False
    return hmac.digest(bytes.fromhex(salt), name.encode() + b"\0" + value.encode(), "sha256").hex() == shown


def root(leaves: list[bytes]) -> bytes:
    """Give the root of the Merkle tree over leaf hashes: pairs are joined level by level, an odd one moves up."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        joined = [hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        level = joined + (level[-1:] if len(level) % 2 else [])
    return level[0]


def is_checkpoint(line: bytes, last: bool) -> bool:
    """Tell a checkpoint's line from a record's; a damaged one is still one where it ends the log."""
    return line.startswith(b'{"checkpoint":') or (
        last and not line.startswith(b'{"seq":') and (b"interlock.audit/" in line or b'{"checkpoint"' in line))


def parse_checkpoint(line: bytes):
    """Read a checkpoint's line as (text, origin, size, root, [(name, key id, signature)]); None if it is none."""
    try:
        note = json.loads(line)["checkpoint"]
        if canonical({"checkpoint": note}) + b"\n" != line or len(note) > 8192 or re.search("[\0-\x09\x0b-\x1f]", note):
            return None
        text, gap, tail = note.rpartition("\n\n")
        origin, size, top, *more = text.split("\n")
        if not gap or not tail.endswith("\n") or not all((origin, *more)) or not origin.startswith("interlock.audit/"):
            return None
        signatures = []
        for signature in tail[:-1].split("\n"):
            dash, name, blob = signature.split(" ")
            if dash != "—" or not name or "+" in name or len(unbase64(blob)) < 5:
                return None
            signatures.append((name, unbase64(blob)[:4], unbase64(blob)[4:]))
        if re.fullmatch("0|[1-9][0-9]{0,15}", size) is None or len(unbase64(top)) != 32 or len(signatures) > 16:
            return None
        return text + "\n", origin, int(size), unbase64(top), signatures
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def unbase64(text: str) -> bytes:
    """Read base64 in its one form."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the one form")
    return raw


def check_checkpoint(line: bytes, key: Ed25519PublicKey, tenant: str | None, leaves: list[bytes]) -> tuple[int, str]:
    """Check signature, size and root; gives size and origin. Raises Bad."""
    origin, size, top = genuine(line, key)
    if tenant not in (None, unquote(origin.rpartition("/")[2])):
        raise Bad("bad signature", None)
    if size > len(leaves):
        raise Bad("cut tail", len(leaves) + 1)
    if root(leaves[:size]) != top:
        raise Bad("rewritten", size)
    return size, origin


def check_kept(kept: bytes, key: Ed25519PublicKey, origin: str, leaves: list[bytes]) -> None:
    """Check that the log goes on from a checkpoint that was kept elsewhere, a note or a line with one. Raises Bad."""
    last = kept.splitlines(keepends=True)[-1:]
    is_line = bool(last) and last[0].startswith(b"{")
    line = last[0] if is_line else canonical({"checkpoint": kept.decode(errors="replace")}) + b"\n"
    known, size, top = genuine(line, key)
    if known != origin:
        raise Bad("bad signature", None)
    if size > len(leaves):
        raise Bad("rolled back", len(leaves) + 1)
    if root(leaves[:size]) != top:
        raise Bad("forked", size)


def genuine(line: bytes, key: Ed25519PublicKey) -> tuple[str, int, bytes]:
    """Give (origin, size, root) of a checkpoint that bears the key's signature. Raises Bad."""
    read = parse_checkpoint(line)
    if read is None:
        raise Bad("bad signature", None)
    text, origin, size, top, signatures = read
    key_id = hashlib.sha256(origin.encode() + b"\n\1" + key.public_bytes_raw()).digest()[:4]
    ours = [signature for name, one, signature in signatures if (name, one) == (origin, key_id)]
    try:
        for signature in ours:
            key.verify(signature, text.encode())
    except InvalidSignature:
        ours = []
    if not ours:
        raise Bad("bad signature", None)
    return origin, size, top


def is_last_signed(following: bytes | None, leaves: list[bytes], digest: bytes) -> bool:
    """Tell whether the checkpoint that follows covers exactly the records so far and this one."""
    read = parse_checkpoint(following) if following is not None else None
    return read is not None and read[2] == len(leaves) + 1 and root([*leaves, digest]) == read[3]


def prev_of(line: bytes | None) -> str | None:
    """Give what a line says the hash of the record before it is."""
    read = parse(line) if line is not None else None
    return read[4]["prev"] if read else None


def misplaced(found: int, place: int, rest: list[bytes]) -> Bad:
    """Say how record `found` came to stand where `place` belongs."""
    later = {int(match[1]) for line in rest if (match := re.match(rb'\{"seq":(\d{1,16}),', line))}
    if found < place or (place in later and found in later):
        return Bad("inserted", found)
    return Bad("reordered" if place in later else "removed", place)


def changed(line: bytes, place: int) -> str:
    """Tell a single flipped bit, which can be put back, from any other change."""
    # Where the end is damaged, the bit is there; and FRAME, which ends with it, would take long for every other one.
    first = 0 if line.endswith(b"}}\n") else max(0, len(line) - 3)
    for bit in range(8 * first, 8 * len(line) if len(line) <= 4096 else 0):
        mended = bytearray(line)
        mended[bit // 8] ^= 1 << bit % 8
        frame = FRAME.fullmatch(mended)
        if frame is None or int(frame[1]) != place:
            continue
        if hashlib.sha256(b"\0" + frame[3]).hexdigest().encode() != frame[2]:
            continue
        read = parse(bytes(mended))
        if read is not None and read[0] == read[4]["seq"] == place:
            return "bit flipped"
    return "record changed"


def opened(path: Path):
    """Open a file or a pipe. Raises OSError, and ValueError for a device: it may have no end."""
    file = path.open("rb")
    mode = os.fstat(file.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        file.close()
        raise ValueError(f"{path} is neither a file nor a pipe")
    return file


def read(path: Path, most: int) -> bytes:
    """Read at most so many bytes. Raises OSError, ValueError."""
    with opened(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"{path} is larger than {most} bytes")
    return raw


def main() -> int:
    """Check one file and say what was found."""
    parser = argparse.ArgumentParser(description="Check an audit log that `interlock audit export` wrote.")
    parser.add_argument("log", type=Path, help="the exported log")
    parser.add_argument("key", type=Path, help="the gateway's public key (gateway.pub)")
    parser.add_argument("--proof", action="store_true", help="the log is a proof of one command's records")
    parser.add_argument("checkpoint", type=Path, nargs="?", help="a checkpoint of this log that was kept elsewhere")
    asked = parser.parse_args()
    try:
        key = load_pem_public_key(read(asked.key, MAX_SMALL_BYTES))
        kept = read(asked.checkpoint, MAX_SMALL_BYTES) if asked.checkpoint is not None else None
        proof, lines = read(asked.log, MAX_PROOF_BYTES) if asked.proof else b"", []
        if not asked.proof:
            with opened(asked.log) as file:
                lines = file.readlines()
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        print(f"cannot be read: {error}", file=sys.stderr)
        return 2
    if not isinstance(key, Ed25519PublicKey):
        print("cannot be read: the key is not an Ed25519 key", file=sys.stderr)
        return 2
    try:
        if asked.proof:
            records, command, origin = check_proof(proof, key)
            print(f"ok: {records} {'record' if records == 1 else 'records'} of {command}: {origin}")
            return 0
        records, unsigned, erased, origin = check(lines, key, kept)
    except Bad as bad:
        kind, place = bad.args
        print(f"not ok{f' at record {place}' if place is not None else ''} ({kind})")
        return 1
    noun = "record" if records == 1 else "records"
    print(f"ok: {records} {noun}, {unsigned} not yet signed, personal data of {erased} erased: {origin}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
