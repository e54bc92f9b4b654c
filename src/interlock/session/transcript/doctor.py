"""Examination and repair of a transcript (X-4). Pure: bytes in, findings and lines out.

A repaired file reads as the damaged file is read, with more if more could be saved: an entry whose parent is lost is
placed below the entry before it, so that what preceded the damage is in context again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from interlock.protocol.limits import MAX_JSON_DEPTH
from interlock.protocol.transcripts import Finding, Kind, Report
from interlock.session.transcript.entries import VERSION, Header, new_entry_id
from interlock.session.transcript.entry_fields import broken_field, repaired_entry
from interlock.session.transcript.line_json import BOM, has_halves, legible, nests_too_deep
from interlock.session.transcript.tree import Tree, harm_of, is_blank, read_node, read_object, read_tree
from interlock.session.transcript.versions import upgraded

MAX_FINDINGS = 1_000
"""Findings that are listed individually; all are counted."""
SALVAGE_TRIES = 256
"""Positions within a damaged line at which a complete entry is looked for."""

NOTES: frozenset[str] = frozenset({"newer_version", "no_line_feed", "lost_first_kept", "half_pair",
                                   "too_deep"})
"""Harmless findings, and those that no repair can undo: a file without others is intact."""

MESSAGES: dict[str, str] = {
    "torn_tail": "the last line is broken off; the repaired file leaves it out",
    "nul_run": "zero bytes stand here, as a crash of the machine leaves them; what is whole around them is kept",
    "garbage": "this is not JSON; entries that stand whole in it are kept",
    "no_entry": "this is JSON and no entry; the repaired file leaves it out",
    "bad_text": "bytes here are not UTF-8; they become U+FFFD",
    "missing_header": "the first line is not a session's header; the repaired file has one",
    "duplicate_id": "an entry further below has the same id, and is the one that counts; this one gets a new id, or "
                    "goes where it is the same",
    "parent_cycle": "the entry is its own ancestor; the repaired file makes it a root",
    "unresolved_parent": "the entry's parent is not in the file; the repaired file hangs it below the entry before it",
    "old_version": f"the file is of an older version; the repaired file is of version {VERSION}",
    "newer_version": f"the file is of a version newer than {VERSION}; what is not known is kept as it is",
    "no_line_feed": "the last line is whole and has no line feed; the next append adds it",
    "half_pair": "an escape here is half of a surrogate pair, which JavaScript writes; it is read as U+FFFD",
    "too_deep": f"a value nests deeper than {MAX_JSON_DEPTH} levels; the entry is read without what lies below",
    "broken_field": "the entry's `{}` is missing or of a wrong type, and other programs fail on it; the repaired file "
                    "keeps the entry out of context",
    "lost_first_kept": "what this compaction keeps first is not above it; its summary alone is in context",
}


class TranscriptRepair(NamedTuple):
    """A repaired transcript. `lines` start with the header and have no line feeds."""

    lines: list[bytes]
    report: Report
    """The findings about the original file."""


class _Sheet:
    """A collector of findings."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []

    def add(self, kind: Kind, line: int | None = None, offset: int | None = None, entry_id: str | None = None,
            about: str = "") -> None:
        self.counts[kind] += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind=kind, line=line, offset=offset, entry_id=entry_id,
                                         message=MESSAGES[kind].format(about)))


def examine(data: bytes) -> Report:
    """Return the faults of a file's bytes. Never raises, never hangs."""
    lines = data.split(b"\n")
    tree, sheet = read_tree(lines), _Sheet()
    _look_at_lines(lines, tree, sheet)
    _look_at_tree(tree, sheet)
    leaf = tree.nodes[-1].id if tree.nodes else None
    return Report(sound=not set(sheet.counts) - NOTES, version=tree.version, entries=len(tree.nodes), leaf=leaf,
                  counts=dict(sorted(sheet.counts.items())), findings=sheet.findings)


def repair(data: bytes, header: Header, entropy: Callable[[int], bytes]) -> TranscriptRepair:
    """Return a file's lines without its faults. `header` is used if the file has none."""
    report = examine(data)
    found = read_tree(data.split(b"\n")).header
    entries = list(map(msgspec.json.encode, _salvaged(data)))
    top = msgspec.json.encode(header) if found is None or not isinstance(found.get("id"), str) else \
        msgspec.json.encode({**found, "version": max(VERSION, _version(found))})
    tree = read_tree([top, *entries])
    return TranscriptRepair([top, *_joined(_unique(tree, entropy))], report)


# --- finding ---
def _look_at_lines(lines: Sequence[bytes], tree: Tree, sheet: _Sheet) -> None:
    last = max((number for number, line in enumerate(lines, 1) if not is_blank(line)), default=0)
    if last and (tree.header is None or not isinstance(tree.header.get("id"), str)):
        sheet.add("missing_header", 1, 0)
    if tree.header is not None and tree.version != VERSION:
        sheet.add("old_version" if tree.version < VERSION else "newer_version", 1, 0)
    has_feed = last < len(lines)
    offset = 0
    # An intact file passes here without decoding any of its lines again.
    harmed = {one.line for one in tree.damaged}
    for number, line in enumerate(lines, 1):
        if number in harmed:
            torn = number == last and not has_feed and b"\0" not in line
            sheet.add("torn_tail" if torn else harm_of(line), number, offset)
        elif not line.isascii() and not _is_text(line):
            sheet.add("bad_text", number, offset)
        elif has_halves(line):
            sheet.add("half_pair", number, offset)
        elif nests_too_deep(line):
            sheet.add("too_deep", number, offset)
        elif number == last and not has_feed:
            sheet.add("no_line_feed", number, offset)
        offset += len(line) + 1


def _look_at_tree(tree: Tree, sheet: _Sheet) -> None:
    for place, node in enumerate(tree.nodes):
        if tree.at[node.id] != place:
            sheet.add("duplicate_id", entry_id=node.id)
        if node.parent_id is not None and node.parent_id not in tree.at:
            sheet.add("unresolved_parent", entry_id=node.id)
        field = broken_field(tree.entry(place))
        if field is not None:
            sheet.add("broken_field", entry_id=node.id, about=field)
        if node.type == "compaction" and not _keeps(tree, place):
            sheet.add("lost_first_kept", entry_id=node.id)
    for place in _cycles(tree):
        sheet.add("parent_cycle", entry_id=tree.nodes[place].id)


def _keeps(tree: Tree, place: int) -> bool:
    entry = tree.entry(place)
    first, details = entry.get("firstKeptEntryId"), entry.get("details")
    # An agent's own compaction between two turns keeps entries from the next turn on, if one follows (Z-4).
    own = isinstance(details, dict) and cast("dict[str, Any]", details).get("by") == "agent"
    return not isinstance(first, str) or own or first in tree.at


def _cycles(tree: Tree) -> list[int]:
    """Return one position of each cycle: on the leaf's path that at which a walk ends, so that cutting there changes no
    context; otherwise the first that is reached."""
    seen = bytearray(len(tree.nodes))
    found: list[int] = []
    starts = range(len(tree.nodes))
    for start in ([tree.leaf, *starts] if tree.leaf is not None else []):
        here: int | None = start
        walked: list[int] = []
        while here is not None and not seen[here]:
            seen[here] = 1
            walked.append(here)
            parent = tree.nodes[here].parent_id
            here = tree.at.get(parent) if parent is not None else None
        if here is not None and seen[here] == 1 and walked:
            found.append(walked[-1])
        for place in walked:
            seen[place] = 2
    return found


def _is_text(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# --- mending ---
def _salvaged(data: bytes) -> list[dict[str, Any]]:
    """Return every complete entry in the file, as version 3, in order; no header."""
    whole: list[dict[str, Any]] = []
    for line in upgraded(data.split(b"\n")):
        if is_blank(line):
            continue
        bare = line.removeprefix(BOM).strip(b"\0")
        node = read_node(bare)
        if node is None:
            whole += _pieces(bare)
        elif node.type != "session":
            whole.append(read_object(bare) or {})
    return [repaired_entry(entry) for entry in whole]


_OPENING = re.compile(r'\{\s*"')
_scan = json.JSONDecoder().raw_decode


def _pieces(line: bytes) -> list[dict[str, Any]]:
    """Return the complete entries within a damaged line, such as a torn line joined with the next one. An object inside
    an entry has no parent, and is not mistaken for an entry."""
    text = legible(line).decode("utf-8", "replace")
    found: list[dict[str, Any]] = []
    at = tries = 0
    while (opening := _OPENING.search(text, at)) is not None and tries < SALVAGE_TRIES:
        tries += 1
        at = opening.start() + 1
        try:
            value, end = _scan(text, opening.start())
        except (ValueError, RecursionError):
            continue
        entry = cast("dict[str, Any]", value)
        if isinstance(entry.get("type"), str) and isinstance(entry.get("id"), str) and "parentId" in entry \
                and entry["type"] != "session" and _writable(entry):
            found.append(entry)
            at = end
    return found


def _writable(entry: dict[str, Any]) -> bool:
    """Return whether the entry can be encoded: a torn one may hold any number and any depth."""
    try:
        msgspec.json.decode(msgspec.json.encode(entry))
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _unique(tree: Tree, entropy: Callable[[int], bytes]) -> list[dict[str, Any]]:
    """Return all entries, each with a unique id. Of two with one id the last keeps it: it is the one that counts."""
    taken = set(tree.at)
    entries: list[dict[str, Any]] = []
    for place, node in enumerate(tree.nodes):
        entry, counts = tree.entry(place), tree.at[node.id]
        if counts != place:
            if entry == tree.entry(counts):
                continue
            entry["id"] = new_entry_id(taken, entropy)
            taken.add(entry["id"])
        entries.append(entry)
    return entries


def _joined(entries: list[dict[str, Any]]) -> list[bytes]:
    """Give every entry an existing parent, or none, and no cycle."""
    ids = {entry["id"] for entry in entries}
    before: str | None = None
    for entry in entries:
        parent = entry.get("parentId")
        if not isinstance(parent, str):
            entry["parentId"] = None
        elif parent not in ids:
            entry["parentId"] = before
        before = entry["id"]
    tree = read_tree([msgspec.json.encode(entry) for entry in entries])
    for place in _cycles(tree):
        entries[place]["parentId"] = None
    return [msgspec.json.encode(entry) for entry in entries]


def _version(header: dict[str, Any]) -> int:
    version = header.get("version")
    return int(version) if isinstance(version, int) and not isinstance(version, bool) else VERSION
