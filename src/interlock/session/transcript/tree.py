"""A transcript read as a tree (X-1): one node for each entry in file order, whatever wrote or damaged it.

Reading has two steps. Every line is decoded as far as its position in the tree requires, all at once and quickly (X-7);
only if that fails are lines examined one by one, so that damage costs time but never makes a reader fail (X-4). A
message stays encoded until it is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple, cast

import msgspec

from interlock.session.transcript.line_json import BOM, NO_JSON, value_of
from interlock.session.transcript.versions import upgraded, version_of

RUN = 512
"""Entries that are checked together, to see whether each follows its parent."""

Harm = Literal["nul_run", "garbage", "no_entry"]
"""The possible faults of one line: zero bytes, no JSON, or JSON that is not an entry."""


class TranscriptNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An entry as far as the tree needs it. `message` is JSON, empty if the entry has none."""

    type: str
    id: str
    parent_id: str | None = None
    message: msgspec.Raw = msgspec.Raw()


class DamagedLine(NamedTuple):
    """A line that is not an entry. `line` counts lines from 1, blank ones included."""

    line: int
    harm: Harm
    text: bytes


class Tree(NamedTuple):
    """The content of a transcript. `nodes` and `lines` correspond, in file order; of entries with one id the last
    counts, as in the program that defined the format."""

    header: dict[str, Any] | None
    nodes: list[TranscriptNode]
    lines: list[bytes]
    at: dict[str, int]
    """Id → place in `nodes`."""
    damaged: list[DamagedLine]
    version: int

    @property
    def leaf(self) -> int | None:
        """Return the position of the leaf: the last entry in file order (X-1)."""
        return self.at[self.nodes[-1].id] if self.nodes else None

    def place(self, entry_id: str | None) -> int | None:
        """Return the position of an entry, of the leaf if none is named; None without such an entry."""
        return self.leaf if entry_id is None else self.at.get(entry_id)

    def entry(self, place: int) -> dict[str, Any]:
        """Return an entry with all its fields."""
        return read_object(self.lines[place]) or {}

    def path(self, leaf: int | None) -> list[int]:
        """Return the positions from the root to `leaf`. A cycle or an unresolved parent ends the walk (X-4)."""
        if len(self.at) != len(self.nodes) or len(self.nodes) < RUN:
            return self._walked(leaf, bytearray(len(self.nodes)))
        # Most entries follow their parent in the file: a run of them is one comparison of two lists.
        ids, parents = list(self.at), list(map(_parents, self.nodes))
        runs: list[range] = []
        while leaf is not None and leaf >= RUN and parents[leaf - RUN + 1 : leaf + 1] == ids[leaf - RUN : leaf]:
            runs.append(range(leaf - RUN + 1, leaf + 1))
            leaf -= RUN
        walked = bytearray(len(self.nodes))
        for run in runs:
            walked[run.start : run.stop] = b"\1" * RUN
        return [*self._walked(leaf, walked), *chain.from_iterable(reversed(runs))]

    def _walked(self, leaf: int | None, walked: bytearray) -> list[int]:
        nodes, at, found = self.nodes, self.at, list[int]()
        here = leaf
        while here is not None and not walked[here]:
            walked[here] = 1
            found.append(here)
            parent = nodes[here].parent_id
            here = at.get(parent) if parent is not None else None
        found.reverse()
        return found

    def children(self) -> dict[int | None, list[int]]:
        """Return the positions of the children of each entry; under None the roots, and entries without a valid
        parent."""
        found: dict[int | None, list[int]] = {}
        for place, node in enumerate(self.nodes):
            if self.at[node.id] == place:
                parent = self.at.get(node.parent_id) if node.parent_id is not None else None
                found.setdefault(parent, []).append(place)
        return found

    def labels(self) -> dict[str, str]:
        """Return the labels in force by the entry's id: the last label of each counts, an empty one removes it."""
        found: dict[str, str] = {}
        for place, node in enumerate(self.nodes):
            if node.type == "label":
                entry = self.entry(place)
                target, label = entry.get("targetId"), entry.get("label")
                if isinstance(target, str):
                    found.pop(target, None)
                    if isinstance(label, str) and label:
                        found[target] = label
        return found


_decode = msgspec.json.Decoder(TranscriptNode).decode
_ids, _parents = attrgetter("id"), attrgetter("parent_id")


def read_tree(lines: Sequence[bytes]) -> Tree:
    """Read a file's lines, the header first or missing. Versions 1 and 2 are read as version 3 (X-2). Never raises,
    never hangs."""
    header_line = _first(lines)
    header = _header(header_line)
    version = version_of(header) if header is not None else 3
    if version < 3:
        lines = upgraded(lines)
    nodes, kept, damaged = _nodes(lines)
    return Tree(header, nodes, kept, dict(zip(map(_ids, nodes), range(len(nodes)), strict=True)), damaged, version)


def read_object(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a JSON object; what is not text in it becomes U+FFFD, as in the program that defined the
    format."""
    value = value_of(line)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def read_node(line: bytes) -> TranscriptNode | None:
    """Read one line tolerantly; None if it is neither entry nor header."""
    entry = read_object(line.removeprefix(BOM))
    if entry is None or not isinstance(entry.get("type"), str) or not isinstance(entry.get("id"), str):
        return None
    parent, message = entry.get("parentId"), entry.get("message")
    raw = msgspec.Raw(msgspec.json.encode(message)) if message is not None else msgspec.Raw()
    return TranscriptNode(entry["type"], entry["id"], parent if isinstance(parent, str) else None, raw)


def is_transcript(lines: Iterable[bytes]) -> bool:
    """Return whether a file has a header or an entry in at least one of its lines, however damaged the others are."""
    return any(read_node(line) is not None or _header(line) is not None for line in lines)


def harm_of(line: bytes) -> Harm:
    """Return the fault of a line that `read_node` cannot read."""
    if b"\0" in line:
        return "nul_run"
    return "garbage" if value_of(line) is NO_JSON else "no_entry"


def is_blank(line: bytes) -> bool:
    """Return whether the line is blank."""
    return not line.strip(b" \t\r\n\v\f")


def _first(lines: Sequence[bytes]) -> bytes:
    """Return the first line that is JSON: only that one can be a header."""
    return next((line for line in lines if not is_blank(line) and read_object(line.removeprefix(BOM)) is not None), b"")


def _header(line: bytes) -> dict[str, Any] | None:
    found = read_object(line.removeprefix(BOM))
    return found if found is not None and found.get("type") == "session" else None


def _nodes(lines: Sequence[bytes]) -> tuple[list[TranscriptNode], list[bytes], list[DamagedLine]]:
    kept = [line for line in lines if line]
    try:
        nodes = list(map(_decode, kept))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _one_by_one(lines)
    if nodes and nodes[0].type == "session":
        del nodes[0], kept[0]
    if any(node.type == "session" for node in nodes):
        pairs = [(node, line) for node, line in zip(nodes, kept, strict=True) if node.type != "session"]
        nodes, kept = [node for node, _ in pairs], [line for _, line in pairs]
    return nodes, kept, []


def _one_by_one(lines: Sequence[bytes]) -> tuple[list[TranscriptNode], list[bytes], list[DamagedLine]]:
    nodes: list[TranscriptNode] = []
    kept: list[bytes] = []
    damaged: list[DamagedLine] = []
    for number, line in enumerate(lines, 1):
        if is_blank(line):
            continue
        try:
            node = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            node = read_node(line)
        if node is None:
            # A header without an id is still the header.
            if _header(line) is None:
                damaged.append(DamagedLine(number, harm_of(line), line))
        elif node.type != "session":
            nodes.append(node)
            kept.append(line)
    return nodes, kept, damaged
