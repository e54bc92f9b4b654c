"""A transcript file with an index beside it, so that opening it costs the same at any length (X-7).

The index, `<file>.index`, has each entry's start, parent, kind and id position, and the set of ids. It is built from
the file and never trusted over it: it is valid only for the very file, size and instants that it was built from, every
line that is read through it is checked against it, and at the first difference the file is read again. Deleting it
loses nothing. Files that are small, damaged or of an older version have none.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

from interlock.backends.jsonl.plain_files import Snapshot, Stamp, open_plain, stamp_of
from interlock.durable_files import FILE_MODE
from interlock.session.context.context import ModelContext, context
from interlock.session.transcript.entries import VERSION, read_stub
from interlock.session.transcript.tree import TranscriptNode, Tree, read_object, read_tree

INDEX_MIN_BYTES = 1024 * 1024
"""A smaller file is read completely: that is faster than maintaining an index of it."""
SETTLED_NS = 100_000_000
"""A file that changed so recently before it was indexed could change again within the same tick of its clock."""

WHOLE_SHARE = 4
"""A context of more than this fraction of all entries is read with the whole file: that is faster than entry by
entry."""

KEEP_ENTRIES = 256
"""Entries after those of the index with which it is rewritten: the next start reads only later ones."""

_MAGIC = b"ILKTREE2"
_HEAD = struct.Struct("<8sQQQQQQQQQ")
"""Magic; device, inode, size, mtime and ctime of the file; when the index was made; entries; bytes of their ids; CRC-32
of what follows."""
_CHECKED = _HEAD.size + 8
_NO_PARENT = -1
_MESSAGE, _COMPACTION, _THINKING, _OTHER = range(4)
_SORTS = {"message": _MESSAGE, "compaction": _COMPACTION, "thinking_level_change": _THINKING}


class _Stale(Exception):
    """Raised if the file differs from its index."""


class _Index(NamedTuple):
    """The content of the index, as mapped in memory."""

    starts: memoryview[int] | array[int]
    """The start of each entry, and the end of the last one."""
    keys: memoryview[int] | array[int]
    """CRC-32 of the id, then its position, as one number each; ascending."""
    parents: memoryview[int] | array[int]
    sorts: memoryview[int] | bytes
    ids: memoryview[int] | bytes
    """The entries' ids in file order, a line feed between two."""
    body: memoryview
    crc: int

    @property
    def whole(self) -> bool:
        """Return whether it is intact. This reads all of it, so a page, whose lines are checked themselves, skips
        it."""
        return crc32(self.body) == self.crc


class Indexed:
    """A transcript file, open for reading. Use it as a context manager; it belongs to one thread."""

    def __init__(self, path: Path, now_ns: Callable[[], int] = time.time_ns, file: Snapshot | None = None,
                 keep_after: int = KEEP_ENTRIES) -> None:
        """Create the reader; `file` is the file at an instant, which is closed here; otherwise it is opened on
        entering. The index is rewritten with `keep_after` entries after its last one."""
        self._keep_after = keep_after
        self._path = path
        self._now_ns = now_ns
        self._file = file
        self._index: _Index | None = None
        self._tree: Tree | None = None
        self._fits = False
        """Whether the index was found to be intact."""
        self.keep_index: Callable[[], None] = _nothing
        """Writes the index of what was read, if there is no valid one; called when no caller waits."""
        self.from_index = False
        """Whether the file was opened by its index alone."""

    def __enter__(self) -> Self:
        try:
            self._file = self._file or Snapshot.take(self._path)
        except FileNotFoundError:
            self._tree = read_tree(())
            return self
        loaded = _load(index_path(self._path), self._file)
        if loaded is not None:
            self._index, stamp = loaded
            if stamp != stamp_of(self._file.stat):
                self._go_on()
        self.from_index = self._index is not None
        if self._index is None and self._tree is None:
            self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._index = self._tree = None
        if self._file is not None:
            os.close(self._file.fd)

    @property
    def entries(self) -> int:
        """Return how many entries the file has."""
        return len(self._index.parents) if self._index is not None else len(self._whole().nodes)

    def page(self, after: int, limit: int) -> list[bytes]:
        """Return lines of at most `limit` entries after the first `after`."""
        until = min(after + limit, self.entries)
        return [line for _, line in self._lines(range(after, until))] if after < until else []

    def place(self, entry_id: str) -> int | None:
        """Return the position of an entry among all; None if there is none of that id."""
        index = self._trusted()
        if index is None:
            return self._whole().at.get(entry_id)
        low = crc32(_encoded(entry_id)) << 32
        at = bisect_left(index.keys, low)
        while at < len(index.keys) and index.keys[at] >> 32 == low >> 32:
            place = index.keys[at] & 0xFFFFFFFF
            if any(node.id == entry_id for node, _ in self._lines([place])):
                return place
            at += 1
        return None

    def trunk(self) -> Tree:
        """Return the path to the leaf, without what a compaction abandoned: all that a turn, or the next compaction,
        needs. It is the whole tree if most of that is on it."""
        index = self._trusted()
        if index is not None:
            try:
                recent = self._recent(index)
                if recent is not None:
                    return _chained(self._checked(recent))
            except _Stale:
                self._fits = False
                self._read()
        return self._whole()

    def context(self) -> ModelContext:
        """Return the context that the file forms for a model (X-1), reading only what that needs."""
        index = self._trusted()
        if index is not None:
            try:
                found = self._contributing(index)
            except _Stale:
                self._fits = False
                self._read()
            else:
                if found is not None:
                    return found
        return context(self._whole())

    # --- through the index ---
    def _trusted(self) -> _Index | None:
        if self._index is not None and not self._fits:
            self._fits = self._index.whole
            if not self._fits:
                self._read()
        return self._index

    def _recent(self, index: _Index) -> list[int] | None:
        """Return positions from what the last compaction kept to the leaf; None without one, or if that is most of the
        file. The abandoned part is not read. Raises _Stale."""
        parents, sorts = index.parents, index.sorts
        found: list[int] = []
        here, compacted, first = len(parents) - 1, -1, -1
        while here >= 0 and len(found) <= len(parents) // WHOLE_SHARE:
            found.append(here)
            if compacted < 0 and sorts[here] == _COMPACTION:
                compacted = len(found)
                kept = (read_object(self._checked([here])[0][1]) or {}).get("firstKeptEntryId")
                first = here if (place := self.place(kept) if isinstance(kept, str) else None) is None else place
            if here == first:
                return found[::-1]
            if parents[here] >= here:
                raise _Stale
            here = parents[here]
        # The first kept entry may not be an ancestor: then the summary alone represents what was before it.
        return found[:compacted][::-1] if here < 0 <= compacted else None

    def _kept(self, index: _Index) -> tuple[list[int], int]:
        """Return positions from the root to the leaf, and the start of what the last compaction kept. Raises _Stale."""
        path, sorts = _path(list(index.parents)), bytes(index.sorts)
        compacted = next((at for at in range(len(path) - 1, -1, -1) if sorts[path[at]] == _COMPACTION), None)
        return path, self._first_kept(path, compacted) if compacted is not None else 0

    def _contributing(self, index: _Index) -> ModelContext | None:
        path, kept = self._kept(index)
        sorts = bytes(index.sorts)
        if len(path) - kept > len(index.parents) // WHOLE_SHARE:
            return None
        level = next((at for at in range(kept - 1, -1, -1) if sorts[path[at]] == _THINKING), None)
        taken = [*([path[level]] if level is not None else []), *path[kept:]]
        found = context(_chained(self._checked(taken)))
        found = found._replace(places=[taken[at] for at in found.places])
        # If the kept part has no answer, the model is looked for before it, in the whole file.
        return found if found.model is not None or kept == 0 else None

    def _first_kept(self, path: list[int], compacted: int) -> int:
        entry = read_object(self._checked([path[compacted]])[0][1]) or {}
        first = entry.get("firstKeptEntryId")
        place = self.place(first) if isinstance(first, str) else None
        at = bisect_left(path, place) if place is not None else compacted
        return at if at < compacted and path[at] == place else compacted

    def _checked(self, places: Sequence[int]) -> list[tuple[TranscriptNode, bytes]]:
        """Read entries of a path, and compare each with the previous one. Raises _Stale."""
        index = self._index
        assert index is not None
        pairs = self._through(index, places)
        for at in range(1, len(pairs)):
            if index.parents[places[at]] == places[at - 1] and pairs[at][0].parent_id != pairs[at - 1][0].id:
                raise _Stale
        return pairs

    def _lines(self, places: Sequence[int]) -> list[tuple[TranscriptNode, bytes]]:
        if self._index is not None:
            try:
                return self._through(self._index, places)
            except _Stale:
                self._fits = False
                self._read()
        tree = self._whole()
        return [(tree.nodes[place], tree.lines[place]) for place in places if place < len(tree.nodes)]

    def _through(self, index: _Index, places: Sequence[int]) -> list[tuple[TranscriptNode, bytes]]:
        lines: list[bytes] = []
        file, at = self._file, 0
        assert file is not None
        while at < len(places):
            last = at
            while last + 1 < len(places) and places[last + 1] == places[last] + 1:
                last += 1
            start, end = index.starts[places[at]], index.starts[places[last] + 1]
            if not 0 <= start < end <= os.fstat(file.fd).st_size:
                raise _Stale
            read = os.pread(file.fd, end - start, start).removesuffix(b"\n").split(b"\n")
            if len(read) != last + 1 - at:
                raise _Stale
            lines += read
            at = last + 1
        tree = read_tree(lines)
        if len(tree.nodes) != len(places):
            raise _Stale
        return list(zip(tree.nodes, tree.lines, strict=True))

    def _go_on(self) -> None:
        """Add to the index what this process appended since it was built. If that is not simple, the file is read."""
        file, index = self._file, self._trusted()
        if file is None or index is None:
            return
        lines = file.lines(index.starts[-1])
        tail = read_tree(lines)
        if tail.damaged or len(tail.at) != len(tail.nodes) or len(lines) != len(tail.nodes) + 1 or lines[-1]:
            self._read()
            return
        first = len(index.parents)
        # An id of the tail that also occurs before it would be two entries: the last counts, so all is read.
        if any(self.place(node.id) is not None for node in tail.nodes):
            self._read()
            return
        above = {name: place for name in {node.parent_id for node in tail.nodes if node.parent_id is not None}
                 if name not in tail.at and (place := self.place(name)) is not None}
        places = {**above, **{name: first + at for name, at in tail.at.items()}}
        parents = [_NO_PARENT if node.parent_id is None else places.get(node.parent_id, _NO_PARENT)
                   for node in tail.nodes]
        if self._index is None or any(parent >= first + at for at, parent in enumerate(parents)):
            self._read()
            return
        starts, keys, above_it = array("Q"), array("Q"), array("i")
        for grows, was in ((starts, index.starts), (keys, index.keys), (above_it, index.parents)):
            grows.frombytes(memoryview(was).cast("B"))
        for name, at in tail.at.items():
            insort(keys, _key(name, first + at))
        above_it.extend(parents)
        starts.extend(list(accumulate((len(line) + 1 for line in lines[:-1]), initial=index.starts[-1]))[1:])
        grown = _Parts(starts, keys, above_it,
                       bytes(index.sorts) + bytes(_SORTS.get(node.type, _OTHER) for node in tail.nodes),
                       _joined([bytes(index.ids), *(_encoded(node.id) for node in tail.nodes)]))
        self._index = _Index(*grown, memoryview(b""), crc32(b""))
        if len(tail.nodes) >= self._keep_after:
            self.keep_index = partial(_write, index_path(self._path), file.stat, self._now_ns(), grown)

    # --- without an index ---
    def _whole(self) -> Tree:
        if self._tree is None:
            self._read()
        assert self._tree is not None
        return self._tree

    def _read(self) -> None:
        """Read the file; its index is to be rebuilt if it may have one."""
        self._index = None
        file = self._file
        assert file is not None
        lines = file.lines()
        self._tree = tree = read_tree(lines)
        if not self._fits and _may_have_index(file, now_ns := self._now_ns()):
            self.keep_index = partial(_keep, index_path(self._path), file.stat, now_ns, lines, lambda: tree)


def ids_by_index(file: Snapshot) -> list[str] | None:
    """Return the ids of a file's entries in file order: those of its index, then those that this process appended
    since. None if no index is valid, and if the file is damaged. Of the file only the index's last entry and what
    follows it is read. Raises OSError."""
    loaded = _load(index_path(file.path), file)
    if loaded is None or not loaded[0].whole:
        return None
    index, _ = loaded
    ids = bytes(index.ids).decode("utf-8", "surrogatepass").split("\n")
    last, *later, end = file.lines(index.starts[-2])
    stub = read_stub(last)
    if end or len(ids) != len(index.parents) or stub is None or stub.id != ids[-1]:
        return None
    for line in later:
        stub = read_stub(line)
        if stub is None or stub.type == "session":
            return None
        ids.append(stub.id)
    return ids


def keep_of(file: Snapshot, lines: list[bytes], now_ns: Callable[[], int] = time.time_ns) -> Callable[[], None]:
    """Return what writes the index of a file that was just read, if it may have one; called when no caller waits."""
    if not _may_have_index(file, made_ns := now_ns()):
        return _nothing
    return partial(_keep, index_path(file.path), file.stat, made_ns, lines, lambda: read_tree(lines))


def renew_index(file: Snapshot) -> None:
    """Add to the index of a file what this process appended since it was built, so that the next process reads no more
    than that. A file without a valid index gets none. Closes the file."""
    path = index_path(file.path)
    loaded = _load(path, file)
    if loaded is None or loaded[1] == stamp_of(file.stat):
        os.close(file.fd)
        return
    with suppress(OSError), Indexed(file.path, file=file, keep_after=1) as opened:
        if opened.from_index:
            opened.keep_index()


def _may_have_index(file: Snapshot, now_ns: int) -> bool:
    """Return whether a file is large enough, unchanged since the snapshot, and old enough for its instants to show
    that."""
    found = file.stat
    return (found.st_size >= INDEX_MIN_BYTES and _same(found, os.fstat(file.fd))
            and now_ns - max(found.st_mtime_ns, found.st_ctime_ns) >= SETTLED_NS)


def index_path(path: Path) -> Path:
    """Return the path of a transcript's index."""
    return path.with_name(path.name + ".index")


def _path(parents: list[int]) -> list[int]:
    """Return positions from the root to the last entry. Raises _Stale for a parent after its child, which no intact
    file has."""
    here = len(parents) - 1
    path: list[int] = []
    while here >= 0:
        path.append(here)
        parent = parents[here]
        if parent >= here:
            raise _Stale
        here = parent
    path.reverse()
    return path


def _chained(pairs: list[tuple[TranscriptNode, bytes]]) -> Tree:
    """Return a tree of one path: what was omitted between two entries leaves no gap."""
    nodes: list[TranscriptNode] = []
    for node, _ in pairs:
        nodes.append(TranscriptNode(node.type, node.id, nodes[-1].id if nodes else None, node.message))
    return Tree(None, nodes, [line for _, line in pairs], {node.id: at for at, node in enumerate(nodes)}, [], VERSION)


class _Parts(NamedTuple):
    """The data that an index is written from."""

    starts: array[int]
    keys: array[int]
    parents: array[int]
    sorts: bytes
    ids: bytes


def _encoded(entry_id: str) -> bytes:
    return entry_id.encode("utf-8", "surrogatepass")


def _joined(ids: list[bytes]) -> bytes:
    return b"\n".join(ids)


def _key(entry_id: str, place: int) -> int:
    return crc32(_encoded(entry_id)) << 32 | place


def _made(lines: list[bytes], tree: Tree) -> _Parts | None:
    """Return an index of an intact file of this version: header, entries, a line feed after each, every parent before
    its child."""
    nodes = tree.nodes
    if tree.version != VERSION or tree.damaged or len(tree.at) != len(nodes) or not nodes \
            or len(lines) != len(nodes) + 2 or lines[-1] or lines[1] is not tree.lines[0]:
        return None
    starts = array("Q", list(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))[1:])
    at = tree.at
    parents = array("i", [_NO_PARENT if node.parent_id is None else at.get(node.parent_id, _NO_PARENT)
                          for node in nodes])
    if any(parent >= place for place, parent in enumerate(parents)):
        return None
    keys = array("Q", sorted(_key(entry_id, place) for entry_id, place in at.items()))
    return _Parts(starts, keys, parents, bytes(_SORTS.get(node.type, _OTHER) for node in nodes),
                  _joined([_encoded(node.id) for node in nodes]))


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return stamp_of(one) == stamp_of(other)


def _nothing() -> None:
    """Do nothing: there is an index already, or the file has none."""


def _keep(path: Path, stat: os.stat_result, now_ns: int, lines: list[bytes], tree: Callable[[], Tree]) -> None:
    """Build an index of what was read, if the file may have one."""
    made = _made(lines, tree())
    if made is not None:
        _write(path, stat, now_ns, made)


def _write(path: Path, stat: os.stat_result, now_ns: int, made: _Parts) -> None:
    """Write the index atomically. If it cannot be written there is none."""
    starts, keys, parents, sorts, ids = made
    body = b"".join((starts.tobytes(), keys.tobytes(), parents.tobytes(), sorts, ids))
    head = _HEAD.pack(_MAGIC, *stamp_of(stat), now_ns, len(parents), len(ids), crc32(body))
    draft = path.with_name(f".{path.name}.new")
    try:
        with os.fdopen(open_plain(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as file:
            file.write(head + crc32(head).to_bytes(8, "little"))
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _load(path: Path, file: Snapshot) -> tuple[_Index, Stamp] | None:
    """Open an index that was built from this very file, or of its beginning, and the stamp that it had then; None if
    there is none, or another's."""
    try:
        fd = open_plain(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        head = os.pread(fd, _CHECKED, 0)
        if len(head) < _CHECKED or crc32(head[: _HEAD.size]).to_bytes(8, "little") != head[_HEAD.size:]:
            return None
        magic, *stamp, _, count, id_bytes, crc = _HEAD.unpack_from(head)
        size = _CHECKED + 8 * (count + 1) + 8 * count + 4 * count + count + id_bytes
        made_of: Stamp = (stamp[0], stamp[1], stamp[2], stamp[3], stamp[4])
        if magic != _MAGIC or os.fstat(fd).st_size != size:
            return None
        if made_of != stamp_of(file.stat) and made_of not in file.grown_from:
            return None
        view = memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    keys = _CHECKED + 8 * (count + 1)
    parents = keys + 8 * count
    sorts = parents + 4 * count
    ids = sorts + count
    return _Index(view[_CHECKED:keys].cast("Q"), view[keys:parents].cast("Q"), view[parents:sorts].cast("i"),
                  view[sorts:ids], view[ids:], view[_CHECKED:], crc), made_of
