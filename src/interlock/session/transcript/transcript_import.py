"""Line-by-line import of a long transcript (X-6). Pure: lines in, findings and lines out.

Only an intact file of this version can be imported like this: to repair or upgrade a file, all of it must be in
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from interlock.protocol.transcripts import Report
from interlock.session.transcript.doctor import NOTES
from interlock.session.transcript.entries import VERSION, Header, read_stub
from interlock.session.transcript.entry_fields import broken_field
from interlock.session.transcript.line_json import has_halves
from interlock.session.transcript.tree import harm_of, is_blank, read_node, read_object
from interlock.session.transcript.versions import version_of


def surveyed(lines: Iterable[bytes]) -> Report:
    """Check a file's lines in one pass. Faults are counted and not explained; each entry's parent must precede it, or
    it counts as unresolved. Never raises."""
    counts: Counter[str] = Counter()
    ids: set[str] = set()
    leaf: str | None = None
    version: int | None = None
    for line in lines:
        if is_blank(line):
            continue
        node = read_node(line)
        if version is None:
            header = read_object(line) if node is not None and node.type == "session" else None
            version = version_of(header) if header is not None else VERSION
            counts["missing_header"] += header is None
            counts["old_version"] += version < VERSION
            if header is not None:
                continue
        if node is None:
            counts[harm_of(line)] += 1
            continue
        if node.type == "session":
            continue
        counts["half_pair"] += has_halves(line)
        counts["duplicate_id"] += node.id in ids
        counts["unresolved_parent"] += node.parent_id is not None and node.parent_id not in ids
        counts["broken_field"] += broken_field(read_object(line) or {}) is not None
        ids.add(node.id)
        leaf = node.id
    found = {kind: count for kind, count in sorted(counts.items()) if count}
    return Report(sound=not set(found) - NOTES, version=version or VERSION, entries=len(ids), leaf=leaf, counts=found,
                  findings=[])


class UnderHeader:
    """An intact file's lines under another header; they may be iterated more than once."""

    def __init__(self, header: Header, source: Iterable[bytes]) -> None:
        self._header = header
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        yield msgspec.json.encode(self._header)
        for line in self._source:
            stub = None if is_blank(line) else read_stub(line)
            if stub is not None and stub.type != "session":
                yield line
