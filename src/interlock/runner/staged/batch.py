"""Land files in batches: write all of a batch, sync them together, and only then move them into place (H-17).

Synced one by one, each file waits for its own journal commit and flush of the disk. Files whose content is already
being written back, synced at the same time, share both.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from interlock.runner.staged.entries import FILE, PIECE_BYTES, FileChange, Remark, below, entry, split, status
from interlock.runner.staged.file_moves import (
    AFTERWARDS,
    MEANWHILE,
    LandingRefused,
    go_on,
    gone,
    move,
    temporary_name,
    tidy,
)

MAX_BATCH_FILES = 128
"""Limit of files, and so of descriptors, of one batch; at most as many more are open for their directories."""
MAX_BATCH_BYTES = 64 * 1024 * 1024
"""Limit of new content in one batch, beyond its first file."""
SYNCS_AT_ONCE = 16
"""Files of a batch that are synced at the same time."""
_SYNC_FILE_RANGE_WRITE = 2
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Errors that may go away once the batch's other files have landed: disk space, or descriptors."""
_libc = ctypes.CDLL(None, use_errno=True)


class Goal(NamedTuple):
    """A file's destination: its directory as an open descriptor, and its name there."""

    parent: int
    directory: str
    name: str
    temporary: str


class _Written(NamedTuple):
    change: FileChange
    goal: Goal
    descriptor: int


def batches(changes: Iterable[FileChange]) -> Generator[list[FileChange]]:
    """Divide files, in their order, into batches within the limits."""
    batch: list[FileChange] = []
    size = 0
    for change in changes:
        if batch and (len(batch) == MAX_BATCH_FILES or size + change.new.size > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += change.new.size
    if batch:
        yield batch


class LandingBatch:
    """Lands the files of one batch. `done` and `refused` hold the outcome of each."""

    def __init__(self, source: int, root: int, token: str, after: Callable[[str], None]) -> None:
        self._source = source
        self._root = root
        self._token = token
        self._after = after
        self._parents: dict[str, int] = {}
        self.done: list[FileChange] = []
        self.refused: list[Remark] = []

    def land(self, changes: list[FileChange]) -> None:
        """Write all, sync all, move all: a file that is refused at one step does not delay the others. A file without
        enough disk space is tried again alone, when the others' new files have replaced the old ones."""
        crowded = self._land(changes, alone=len(changes) == 1)
        for change in crowded:
            self._land([change], alone=True)

    def _land(self, changes: list[FileChange], *, alone: bool) -> list[FileChange]:
        written: list[_Written] = []
        crowded: list[FileChange] = []
        with ExitStack() as stack:
            for change in changes:
                with self._judged(change, None if alone else crowded):
                    one = self._write(stack, change)
                    if one is None:
                        self.done.append(change)
                    else:
                        written.append(one)
            written = self._synced(written)
            self._after("batch synced")
            for one in written:
                with self._judged(one.change):
                    self._move(one)
                    self.done.append(one.change)
        return crowded

    @contextmanager
    def _judged(self, change: FileChange, crowded: list[FileChange] | None = None) -> Generator[None]:
        try:
            yield
        except LandingRefused as refused:
            self.refused.append(Remark(change.path, str(refused)))
        except OSError as error:
            if crowded is not None and error.errno in _NO_ROOM:
                crowded.append(change)
                return
            self.refused.append(Remark(change.path, f"it could not be written: {error.strerror}"))

    def _write(self, stack: ExitStack, change: FileChange) -> _Written | None:
        """Write a file beside its goal, and have the kernel begin to write it back; None if it is there already."""
        directory, name = split(change.path)
        goal = Goal(self._parent(stack, directory), directory, name, temporary_name(self._token, change.path))
        go_on(goal.parent, goal.temporary, name, change)
        found = entry(goal.parent, name)
        if found == change.new:
            return None
        if change.base.kind == "unknown" or found != change.base:
            raise LandingRefused(MEANWHILE)
        with ExitStack() as part:
            part.callback(_tidied, goal)
            descriptor = os.open(goal.temporary, _NEW, 0o600, dir_fd=goal.parent)
            part.callback(os.close, descriptor)
            _copy(self._source, goal, descriptor, change)
            _libc.sync_file_range(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _SYNC_FILE_RANGE_WRITE)
            self._after("temporary written")
            stack.push(part.pop_all())  # A file that failed frees its resources at once.
        return _Written(change, goal, descriptor)

    def _parent(self, stack: ExitStack, directory: str) -> int:
        if directory not in self._parents:
            try:
                self._parents[directory] = stack.enter_context(below(self._root, directory))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise gone(directory) from error
            stack.callback(self._parents.pop, directory)
        return self._parents[directory]

    def _synced(self, written: list[_Written]) -> list[_Written]:
        """Sync all files at the same time, and return those that are on the disk."""
        if not written:
            return []
        kept: list[_Written] = []
        with ThreadPoolExecutor(min(len(written), SYNCS_AT_ONCE), "interlock-landing") as pool:
            for one, syncing in [(one, pool.submit(os.fsync, one.descriptor)) for one in written]:
                with self._judged(one.change):
                    syncing.result()
                    kept.append(one)
        return kept

    def _move(self, one: _Written) -> None:
        goal = one.goal
        self._check_parent(goal)
        move(goal.parent, goal.temporary, goal.name, one.change, self._after)
        self._after("moved")
        tidy(goal.parent, goal.temporary)

    def _check_parent(self, goal: Goal) -> None:
        """Raise LandingRefused if another directory, or a link, replaced the one that the file was written into."""
        try:
            with below(self._root, goal.directory) as current:
                same = os.path.samestat(os.fstat(current), os.fstat(goal.parent))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise gone(goal.directory) from error
        if not same:
            raise gone(goal.directory)


def _copy(source: int, goal: Goal, writing: int, change: FileChange) -> None:
    """Copy the staged file if it still is what was approved. Raises LandingRefused or OSError."""
    digest, size = hashlib.sha256(), 0
    was = status(goal.parent, goal.name)
    with _staged(source, change.path) as reading:
        while piece := os.read(reading, PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(writing, rest):]
    if (size, digest.hexdigest()) != (change.new.size, change.new.sha256):
        raise LandingRefused(AFTERWARDS)
    if was is not None:
        with suppress(PermissionError):  # The owner is kept if the runner may set it.
            os.fchown(writing, was.st_uid, was.st_gid)
    os.fchmod(writing, change.new.mode)


@contextmanager
def _staged(source: int, path: str) -> Generator[int]:
    directory, name = split(path)
    try:
        with below(source, directory) as above:
            reading = os.open(name, FILE, dir_fd=above)
    except OSError as error:
        raise LandingRefused(AFTERWARDS) from error
    try:
        yield reading
    finally:
        os.close(reading)


def _tidied(goal: Goal) -> None:
    with suppress(OSError):  # The next start removes it, if there is one.
        tidy(goal.parent, goal.temporary)
