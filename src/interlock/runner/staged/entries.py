"""Read the entry at one path, and describe changes to it (H-17). Every path is walked by descriptors, so no symbolic
link and no directory that is swapped meanwhile leads out of the tree that is read or written."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

PIECE_BYTES = 1024 * 1024
"""Size of the pieces in which files are read and copied."""
MAX_FILE_BYTES = 4 * 1024**3
"""A larger file is neither staged nor compared: reading it would delay the end of each turn."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a FIFO would block."""

Kind = Literal["absent", "file", "link", "directory", "other", "unknown"]


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entry at a path. `sha256` (hex) and `size` are of a file's content, or of a link's target. `other` is neither
    file, link nor directory; `unknown` is an entry that the user changed while the agent worked on it."""

    kind: Kind
    mode: int = 0
    size: int = 0
    sha256: str = ""


class FileChange(msgspec.Struct, frozen=True):
    """One path that the agent changed: the entry when it began, and the entry as the agent sees it now."""

    path: str
    base: FileEntry
    new: FileEntry

    @property
    def what(self) -> Literal["added", "modified", "deleted", "mode"]:
        """Name the change in one word."""
        if self.new.kind == "absent":
            return "deleted"
        if self.base.kind == "absent":
            return "added"
        same = (self.base.kind, self.base.sha256, self.base.size) == (self.new.kind, self.new.sha256, self.new.size)
        return "mode" if same else "modified"


class Remark(msgspec.Struct, frozen=True):
    """A path and why it cannot be, or was not, changed."""

    path: str
    why: str


ABSENT = FileEntry("absent")


@contextmanager
def opened(path: str | Path) -> Generator[int]:
    """Open a tree's top directory. Raises OSError."""
    descriptor = os.open(path, DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def below(parent: int, path: str) -> Generator[int]:
    """Open a directory below another one, refusing links in each step; "" is the parent itself. Raises OSError."""
    descriptor = os.dup(parent)
    try:
        for name in path.split("/") if path else ():
            inner = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def status(parent: int, name: str) -> os.stat_result | None:
    """Return lstat(2) of a name, None if there is nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def names(directory: int) -> list[str]:
    """List an open directory, sorted. Raises OSError."""
    with os.scandir(directory) as found:
        return sorted(one.name for one in found)


def entry(parent: int, name: str, known: os.stat_result | None = None) -> FileEntry:
    """Read the entry at a name. Raises OSError if a file cannot be read."""
    found = known or status(parent, name)
    if found is None:
        return ABSENT
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return FileEntry("directory", mode)
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=parent))
        return FileEntry("link", 0, len(target), hashlib.sha256(target).hexdigest())
    if not stat.S_ISREG(found.st_mode):
        return FileEntry("other", mode)
    descriptor = os.open(name, FILE, dir_fd=parent)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EAGAIN, "it was replaced while it was read")
        digest, size = _digest(descriptor, found.st_size)
    finally:
        os.close(descriptor)
    return FileEntry("file", stat.S_IMODE(found.st_mode), size, digest)


def _digest(descriptor: int, size: int) -> tuple[str, int]:
    """Return SHA-256 (hex) and length of a file. Raises OSError: EFBIG past MAX_FILE_BYTES, by the size of a sparse
    file, or by what is read of one that grows all the time."""
    digest, read = hashlib.sha256(), 0
    while size <= MAX_FILE_BYTES and (piece := os.read(descriptor, PIECE_BYTES)):
        digest.update(piece)
        read += len(piece)
        size = max(size, read)
    if size > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_FILE_BYTES} bytes")
    return digest.hexdigest(), read


def remove(parent: int, name: str) -> None:
    """Remove a name and all below it, without following a link. Raises OSError."""
    found = status(parent, name)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    with suppress(OSError):  # An overlay's own work directory has no permissions at all.
        os.chmod(name, 0o700, dir_fd=parent)
    with below(parent, name) as inner:
        for one in names(inner):
            remove(inner, one)
    os.rmdir(name, dir_fd=parent)


def split(path: str) -> tuple[str, str]:
    """Return a path's directory and its last name."""
    directory, _, name = path.rpartition("/")
    return directory, name
