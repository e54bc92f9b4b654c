"""Transcript files as written by one thread: a file's content, its torn tail, and one durable append (X-3, X-4).

Everything here blocks, and belongs to one thread of the only process that holds the state directory (N-2).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path

import msgspec
import structlog

from interlock.backends.jsonl.atomic_files import publish_new, publish_over
from interlock.backends.jsonl.plain_files import Snapshot, Stamp, open_plain, stamp_of
from interlock.durable_files import sync_directory
from interlock.ports.clock import Clock
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.clock import iso
from interlock.protocol.records import TranscriptLine
from interlock.session.keys import SAFE_NAME, TOPIC
from interlock.session.transcript.entries import VERSION, header_line, read_stub
from interlock.session.transcript.line_json import BOM
from interlock.session.transcript.tree import read_object
from interlock.session.transcript.tree_edits import is_branch
from interlock.session.transcript.versions import upgraded, version_of

KNOWN_FILES = 256
"""Files whose ids are cached; a dropped one is read again before the next append to it."""
ASIDE_NAMES = 100
"""Torn tails and old versions of one file that may be set aside in the same millisecond."""
MAX_HEADER_BYTES = 1024 * 1024
"""A first line that is longer is not a header."""

GROWN_STAMPS = 256
"""Appends to one file after which an older index of it is still known to be a prefix."""
LARGE_BYTES = 1024 * 1024
"""A file of this size that is not cached is surveyed in advance: appends to others do not wait for it."""

_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT

log = structlog.get_logger("interlock.transcripts")


class FileState(msgspec.Struct):
    """What is known of a file while its size is `size`."""

    size: int = 0
    leaf: str | None = None
    own_leaf: str | None = None
    """The last entry that this process knew of, "" if it knew none yet: after it another program continued."""
    ids: set[str] = msgspec.field(default_factory=set[str])
    torn_at: int | None = None
    """The start of a truncated last line."""
    begun: bool = False
    """Whether it has a header."""
    needs_feed: bool = False
    """Whether the last line is complete except for its line feed."""


class TranscriptFiles:
    """The files below `<state>/agents`."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._known: OrderedDict[Path, FileState] = OrderedDict()
        self._topics: dict[str, dict[str, str]] = {}
        """Agent → session → the topic in its file's name."""
        self._grown: OrderedDict[Path, tuple[dict[Stamp, None], Stamp]] = OrderedDict()
        """Stamps that a file had and since when only this process has appended to it, and the resulting stamp."""
        self._let_go: list[Snapshot] = []
        """Files whose stamps are about to be dropped, as they were then."""
        self._undone: dict[Path, int] = {}
        """Files with a failed append that could not be truncated yet → the size that is durable."""

    def path(self, session_id: str, agent_id: str, topic: str = "") -> Path:
        """Return the path of a session's file: the existing one, otherwise with its topic. Raises ValueError for a name
        that could lead elsewhere."""
        for name in (agent_id, session_id):
            if not SAFE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot name a transcript")
        directory = self._root / "agents" / agent_id / "sessions"
        topics = self._topics_in(agent_id, directory)
        if topic and session_id not in topics and SAFE_NAME.fullmatch(topic) \
                and not (directory / f"{session_id}.jsonl").exists():
            topics[session_id] = topic
        named = topics.get(session_id)
        return directory / (f"{session_id}{TOPIC}{named}.jsonl" if named is not None else f"{session_id}.jsonl")

    def _topics_in(self, agent_id: str, directory: Path) -> dict[str, str]:
        """Return the sessions whose file names contain a topic; the directory is read once, since only this process
        writes."""
        found = self._topics.get(agent_id)
        if found is None:
            names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
            parts = (name.removesuffix(".jsonl").partition(TOPIC) for name in names if name.endswith(".jsonl"))
            found = self._topics[agent_id] = {session_id: topic for session_id, _, topic in parts if topic}
        return found

    def look(self, path: Path) -> FileState | None:
        """Return a file's state; None if it does not exist. Changes nothing. The caller continues from its leaf."""
        try:
            fd = open_plain(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            known = self._scan(fd, path)
        finally:
            os.close(fd)
        known.own_leaf = known.leaf or ""
        return known

    def unsurveyed(self, path: Path) -> Snapshot | None:
        """Return a large file that must be read before the next append to it; None if little or nothing is to be read.
        Raises OSError."""
        known = self._known.get(path)
        try:
            size = path.lstat().st_size
        except OSError:
            return None
        return self.snapshot(path) if size >= LARGE_BYTES and (known is None or known.size != size) else None

    def adopt(self, path: Path, known: FileState) -> None:
        """Use the result of a survey on another thread, as long as the file has that size."""
        before = self._known.get(path)
        if before is None or before.size < known.size:
            known.own_leaf = before.own_leaf if before is not None else ""
            self._remember(path, known)

    def lines(self, path: Path) -> list[bytes]:
        """Return every line of a file; [] if it does not exist. A torn last line is also a line."""
        try:
            with Snapshot.take(path) as file:
                return [line for line in file.lines() if line]
        except FileNotFoundError:
            return []

    def snapshot(self, path: Path) -> Snapshot:
        """Return a file between two appends, with its known history. Raises FileNotFoundError, OSError."""
        file = Snapshot.take(path)
        grown = self._grown.get(path)
        if grown is None or grown[1] != stamp_of(file.stat):
            return file
        return file._replace(grown_from=frozenset(grown[0]))

    def publish(self, path: Path, lines: Iterable[bytes]) -> None:
        """Create a new file of complete lines. Raises FileExistsError and OSError: then there is none."""
        _make_directories(path.parent, self._root)
        publish_new(path, lines)
        _sync_directories(path.parent, self._root)

    def settled(self, path: Path) -> Snapshot:
        """Return a file between two appends, without the rest of a failed one. Raises FileNotFoundError, OSError."""
        if path in self._undone:
            fd = open_plain(path, os.O_RDWR | os.O_APPEND)
            try:
                self._cut_back(fd, path)
            finally:
                os.close(fd)
        return Snapshot.take(path)

    def replace(self, file: Snapshot, made: Sequence[bytes]) -> str | None:
        """Replace a file's lines; returns the name under which the old one is kept, None if it differs from the
        snapshot now. Raises OSError: then all is as it was."""
        path, found = file.path, file.path.lstat()
        if (found.st_ino, found.st_size, found.st_mtime_ns) != (
                file.stat.st_ino, file.stat.st_size, file.stat.st_mtime_ns):
            return None
        for kept in self._aside(path, "kept"):
            with suppress(FileExistsError):
                publish_over(path, kept, made)
                self._known.pop(path, None)
                return kept.name
        raise FileExistsError(f"every name to keep {path} under is taken")

    def modernise(self, path: Path) -> None:
        """Convert a file of version 1 or 2 to version 3, before anything is appended to it; the old one is kept (X-2).
        A file of version 3, or a missing one, is unchanged."""
        if path in self._known:
            return
        try:
            with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
                first = read_object(file.readline(MAX_HEADER_BYTES).removeprefix(BOM))
        except FileNotFoundError:
            return
        if first is None or first.get("type") != "session" or version_of(first) >= VERSION:
            return
        with self.settled(path) as old:
            kept = self.replace(old, [line for line in upgraded(old.lines()) if line])
        log.info("a transcript of an older version was rewritten; the old file is kept", file=str(path), kept=kept)

    def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        """Append the lines that the file lacks, durably. Raises OSError that names the file: nothing was added."""
        path = self.path(header.session_id, header.agent_id, header.topic)
        try:
            self._append(path, header, lines)
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error

    def _append(self, path: Path, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        self.modernise(path)
        made = _make_directories(path.parent, self._root)
        fd = open_plain(path, _OPEN_FLAGS)
        try:
            self._cut_back(fd, path)
            known = self._scan(fd, path)
            if known.torn_at is not None:
                known = self._set_aside(fd, path, known, known.torn_at, "ended in a torn line")
            known = self._without_scraps(fd, path, known, lines)
            self._add(fd, path, known, header, lines)
            if known.size == 0 or made:
                _sync_directories(path.parent, self._root)
        finally:
            os.close(fd)

    def _add(
        self, fd: int, path: Path, known: FileState, header: TranscriptHeader, lines: Sequence[TranscriptLine]
    ) -> None:
        parts: list[bytes] = []
        if known.size == 0:
            os.fchmod(fd, 0o600)
            parts += [header_line(header.session_id, header.timestamp, header.cwd), b"\n"]
        elif known.needs_feed:
            parts.append(b"\n")
        fresh: dict[str, None] = {}
        # What a power cut left after its own parent exists already: its parent must not become its child.
        whole = all(line.entry_id not in known.ids for line in dropwhile(lambda one: one.entry_id in known.ids, lines))
        for line in lines:
            if line.entry_id in known.ids or line.entry_id in fresh:
                continue
            parts += [line.line if fresh or not whole else self._placed(path, line, known), b"\n"]
            fresh[line.entry_id] = None
        data = b"".join(parts)
        before = stamp_of(os.fstat(fd))
        try:
            _write_all(fd, data)
            # Also if all lines exist already: their writer may have died before they were durable.
            os.fdatasync(fd)
        except OSError:
            # After a failed sync the disk's content is unknown, so the lines are removed and written again.
            self._known.pop(path, None)
            self._undone[path] = known.size
            with suppress(OSError):
                self._cut_back(fd, path)
            raise
        leaf = next(reversed(fresh), known.leaf)
        own_leaf = next(reversed(fresh), known.own_leaf)
        after = FileState(known.size + len(data), leaf, own_leaf, known.ids, begun=True)
        after.ids.update(fresh)
        self._remember(path, after)
        self._note_growth(path, before, stamp_of(os.fstat(fd)))

    def _note_growth(self, path: Path, before: Stamp, after: Stamp) -> None:
        stamps, last = self._grown.pop(path, ({}, before))
        if last != before:  # Another program wrote to it.
            stamps = {}
        stamps[before] = None
        while len(stamps) > GROWN_STAMPS:
            del stamps[next(iter(stamps))]
        self._grown[path] = stamps, after
        if len(self._grown) > KNOWN_FILES:
            forgotten = next(iter(self._grown))
            self._let_go += self._grown_large([forgotten])
            del self._grown[forgotten]

    def let_go(self) -> list[Snapshot]:
        """Return files that are no longer known to have grown by this process only, whose index should be renewed while
        that is still known. The caller closes them."""
        files, self._let_go = self._let_go, []
        return files

    def grown(self, limit: int) -> Iterator[Snapshot]:
        """Yield the files that this process appended to last, whose index should be renewed before it ends. The caller
        closes each."""
        return self._grown_large([*reversed(self._grown)][:limit])

    def _grown_large(self, paths: Iterable[Path]) -> Iterator[Snapshot]:
        for path in paths:
            with suppress(OSError):
                if path.lstat().st_size >= LARGE_BYTES:
                    yield self.snapshot(path)

    def _placed(self, path: Path, line: TranscriptLine, known: FileState) -> bytes:
        """Return the first line of an append, moved below the file's leaf if another program has continued the file
        since the entry was made: that program's entries are in the model's context, so they are on the path too (X-1,
        X-3)."""
        entry = read_object(line.line) or {}
        parent = entry.get("parentId")
        if isinstance(parent, str) and parent not in known.ids:
            # Entries were removed from the file by another program. The new one is kept nevertheless; context begins
            # with it.
            log.warning("a transcript entry's parent is not in its file", file=str(path), entry=line.entry_id,
                        parent=parent)
            return line.line
        if parent == known.leaf or parent is None or known.leaf is None or is_branch(entry) \
                or known.own_leaf not in ("", parent):
            return line.line
        log.info("another program has gone on in a transcript; the next entry hangs below what it wrote",
                 file=str(path), entry=line.entry_id, parent=known.leaf)
        return msgspec.json.encode({**entry, "parentId": known.leaf})

    def _cut_back(self, fd: int, path: Path) -> None:
        """Truncate what a failed append left, so that no line counts as stored that may not be."""
        size = self._undone.get(path)
        if size is not None:
            os.ftruncate(fd, size)
            del self._undone[path]

    def _scan(self, fd: int, path: Path) -> FileState:
        size = os.fstat(fd).st_size
        before = self._known.get(path)
        if before is not None and before.size == size:
            return before
        file = Snapshot(path, fd, os.fstat(fd))
        known = survey(file, file.each())
        known.own_leaf = before.own_leaf if before is not None else ""
        self._remember(path, known)
        return known

    def _remember(self, path: Path, known: FileState) -> None:
        self._known[path] = known
        self._known.move_to_end(path)
        if len(self._known) > KNOWN_FILES:
            self._known.popitem(last=False)

    def _without_scraps(self, fd: int, path: Path, known: FileState, lines: Sequence[TranscriptLine]) -> FileState:
        """Remove remains of lost earlier entries (X-4).

        Of an unsynced write a disk may keep a later part and not an earlier one. Waiting entries are appended in order,
        so one that is present without an earlier one was never durable, nor was anything after it. If it stayed, it
        would precede its own parent, and the earlier one would be taken for the leaf.
        """
        waiting = [line.entry_id for line in lines]
        absent = next((at for at, entry_id in enumerate(waiting) if entry_id not in known.ids), len(waiting))
        scraps = known.ids.intersection(waiting[absent:])
        if known.size and not known.begun and known.ids <= scraps:
            return self._set_aside(fd, path, known, 0, "had no header that can be read")
        if not scraps:
            return known
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(0)
            at = 0
            for line in file:
                stub = read_stub(line)
                if stub is not None and stub.id in scraps:
                    break
                at += len(line)
            behind = {stub.id for later in file if (stub := read_stub(later)) is not None}
        if not behind <= set(waiting):
            return known  # Another program has continued after it, and its entries stay.
        return self._set_aside(fd, path, known, at, "held a part of a write that power had cut")

    def _set_aside(self, fd: int, path: Path, known: FileState, at: int, why: str) -> FileState:
        """Move everything from `at` on to a file of its own, so that the next entry starts on a clean line (X-4)."""
        torn = os.pread(fd, known.size - at, at)
        aside = self._write_aside(path, torn)
        os.ftruncate(fd, at)
        os.fdatasync(fd)
        log.warning(f"a transcript {why}; it was set aside", file=str(path), aside=str(aside), bytes=len(torn))
        self._known.pop(path, None)
        return self._scan(fd, path)

    def _write_aside(self, path: Path, torn: bytes) -> Path:
        for aside in self._aside(path, "torn"):
            try:
                fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            try:
                _write_all(fd, torn)
                os.fsync(fd)
            finally:
                os.close(fd)
            sync_directory(path.parent)
            return aside
        raise FileExistsError(f"every name to set the end of {path} aside under is taken")

    def _aside(self, path: Path, why: str) -> Iterator[Path]:
        """Yield names beside a file for what is removed from it, by instant."""
        stamp = iso(self._clock.now_ms()).replace(":", "").replace("-", "").replace(".", "")
        for number in range(ASIDE_NAMES):
            yield path.with_name(f"{path.name}.{why}-{stamp}" + (f"-{number}" if number else ""))


def survey(file: Snapshot, lines: Iterable[bytes]) -> FileState:
    """Return what an append needs to know of a file, from its lines; on any thread. Raises OSError."""
    known = FileState(file.stat.st_size)
    damaged = at = 0
    for line in lines:
        if line:
            stub = read_stub(line)
            if stub is None:
                damaged += 1
            elif stub.type == "session":
                known.begun = True
            else:
                known.ids.add(stub.id)
                known.leaf = stub.id
            if at + len(line) == known.size:  # It has no line feed, so it is the last.
                known.torn_at = at if stub is None else None
                known.needs_feed = stub is not None
        at += len(line) + 1
    if damaged - (known.torn_at is not None):
        log.warning("a transcript has damaged lines; they are kept and passed over", file=str(file.path),
                    lines=damaged - (known.torn_at is not None))
    return known


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left):]


def _make_directories(directory: Path, root: Path) -> bool:
    """Create the directories below `root`, private to the owner; return whether any was missing."""
    if directory.is_dir():
        return False
    for parent in reversed([directory, *directory.parents]):
        if parent.is_relative_to(root):
            parent.mkdir(mode=0o700, exist_ok=True)
    return True


def _sync_directories(directory: Path, root: Path) -> None:
    for parent in (directory, *directory.parents):
        if parent.is_relative_to(root):
            sync_directory(parent)
