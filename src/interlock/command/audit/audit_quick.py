"""A quick check whether an audit log has any fault (U-5).

If a genuine checkpoint covers a record, its bytes need no parsing: they are the signed ones if the tree's root is. So
this hashes them and compares the data beside them; anything unusual is left to `audit_check`, which names the fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit.audit import FIRST_PREV, leaf_hash, opens, overrun, record_id
from interlock.command.audit.audit_check import good
from interlock.command.audit.audit_lines import parse_checkpoint_line, parse_record, redacted_by
from interlock.command.audit.audit_report import AuditReport
from interlock.command.audit.audit_tree import EMPTY_ROOT, Frontier
from interlock.command.audit.note import Checkpoint, is_genuine
from interlock.command.audit.vote_signatures import VoteSignatures

WITH_CARE = (b'"personal":{', b'"action":"redact"')
"""A line with one of these is parsed: its values are to be compared, or it documents that others may be missing."""


def is_whole(
    lines: Iterable[bytes], last_line: bytes, public_key: Ed25519PublicKey, earlier: Sequence[Checkpoint] = (), *,
    rows: bool = False,
) -> AuditReport | None:
    """Report an intact log, with `last_line` its checkpoint, each line with its newline; None for any fault, including
    a mismatch with an `earlier` checkpoint. `rows` are the database's own."""
    head = parse_checkpoint_line(last_line)
    if head is None or not is_genuine(head, public_key):
        return None
    size, count, prev = head.size, 0, FIRST_PREV.encode()
    frontier, personal, votes = Frontier(), _Personal(), VoteSignatures()
    grow, ended, times = frontier.grow, False, list[str]()
    roots = {0: EMPTY_ROOT, **{one.size: one.root for one in earlier}, size: head.root}
    signed = {(one.origin, one.size, one.root) for one in (*earlier, head)}
    if not signed <= {(head.origin, *root) for root in roots.items()} or roots[0] != EMPTY_ROOT:
        return None
    for line in votes.watch(lines):
        if ended:
            return None
        if line == last_line:
            ended = True
            continue
        count += 1
        start = line.find(b'"record":') + 9
        raw = line[start:-2]
        digest = sha256(b"\x00" + raw).digest()
        shown = digest.hex().encode()
        if count == 1 or count > size or WITH_CARE[0] in line or WITH_CARE[1] in raw:
            if not personal.takes(line, count, prev.decode(), head.tenant_id):
                return None
            if count > size:
                times.append(personal.at)
        elif (line[:start] != b'{"seq":%d,"hash":"%b","record":' % (count, shown) or line[-2:] != b"}\n"
              or b'"prev":"' + prev not in raw):
            return None
        grow(digest)
        if count in roots and frontier.root() != roots[count]:
            return None
        prev = shown
    if not ended or count < max(roots) or not personal.is_accounted_for(count if rows else size) or (
        overrun(size, count, times) is not None or not votes.holds
    ):
        return None
    return good(head.tenant_id, count, size, prev.decode(), len(personal.closed), checked=True)


class _Personal:
    """Records that are parsed, and their erased personal data (U-4)."""

    def __init__(self) -> None:
        self.closed: set[int] = set()
        self._redacted: dict[int, set[int]] = {}
        self.at = ""
        """The time of the last of them, as it states."""

    def takes(self, line: bytes, place: int, prev: str, tenant_id: str) -> bool:
        """Return whether the line is a complete record in its right place."""
        read = parse_record(line)
        if read is None:
            return False
        shown, body = read
        self.at = body.at
        if (leaf_hash(bytes(shown.record)), shown.seq, body.seq, body.id) != (shown.hash, place, place,
                                                                             record_id(place)):
            return False
        committed, opened = body.personal or {}, shown.personal or {}
        if committed.keys() - opened.keys():
            self.closed.add(place)
        if body.action == "redact":
            self._redacted[place] = redacted_by(body.meta)
        return (body.prev == prev and body.tenant_id == tenant_id
                and all(opens(committed.get(name, ""), name, *value) for name, value in opened.items()))

    def is_accounted_for(self, covered: int) -> bool:
        """Return whether every missing value is documented as erased by one of the first `covered` records."""
        return self.closed <= set[int]().union(*(named for at, named in self._redacted.items() if at <= covered))
