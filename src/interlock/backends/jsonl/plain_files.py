"""Opening and reading of transcript files, whatever is under their names (X-4).

A name may lead to a FIFO, a device or a directory, by mistake or by intent. Nothing here waits for such a file, and
nothing is read from it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""A larger transcript is not read: it would not fit in memory beside others."""
PIECE_BYTES = 1024 * 1024
"""A file is read in pieces of this size."""

_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a directory", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
          stat.S_IFBLK: "a device", stat.S_IFLNK: "a symbolic link"}


def open_plain(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file and return its descriptor. Never waits. Raises FileNotFoundError; OSError that names the file
    for anything else than a regular file."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, mode)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _named(path, error) from None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    kind = _kind_of(os.fstat(fd).st_mode)
    os.close(fd)
    raise OSError(errno.EINVAL, f"it is {kind}, and no regular file", str(path))


def _named(path: Path, error: OSError) -> OSError:
    """Return the same error with a description of what exists there, if that is not a regular file."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return error
    if stat.S_ISREG(mode):
        return error
    return OSError(error.errno, f"it is {_kind_of(mode)}, and no regular file", str(path))


def _kind_of(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


Stamp = tuple[int, int, int, int, int]
"""Distinguishes states of a file: device, inode, size, and the instants of its last changes."""


def stamp_of(found: os.stat_result) -> Stamp:
    """Read a file's stamp."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Snapshot(NamedTuple):
    """A file at one instant, between two appends: nothing after `stat.st_size` is read. It is read on any thread. Use
    it as a context manager."""

    path: Path
    fd: int
    stat: os.stat_result
    grown_from: frozenset[Stamp] = frozenset()
    """Earlier stamps of the file, since which only this process has appended to it."""

    @classmethod
    def take(cls, path: Path) -> Self:
        """Open a file. Raises FileNotFoundError, and OSError for one that may not be read."""
        fd = open_plain(path, os.O_RDONLY)
        found = os.fstat(fd)
        if found.st_size > MAX_FILE_BYTES:
            os.close(fd)
            what = f"it has {found.st_size} bytes, and at most {MAX_FILE_BYTES} are read"
            raise OSError(errno.EFBIG, what, str(path))
        return cls(path, fd, found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def pieces(self, at: int = 0) -> Iterator[bytes]:
        """Read the bytes from `at` on, in pieces. Raises OSError that names the file."""
        try:
            while at < self.stat.st_size and (piece := os.pread(self.fd, min(PIECE_BYTES, self.stat.st_size - at), at)):
                yield piece
                at += len(piece)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def lines(self, at: int = 0) -> list[bytes]:
        """Read the lines from `at` on, without their line feeds; the last is empty if the file ends with one. Time and
        memory are linear, however long a line is."""
        return list(self.each(at))

    def each(self, at: int = 0) -> Iterator[bytes]:
        """Read the same lines one by one."""
        rest: list[bytes] = []
        for piece in self.pieces(at):
            first, *others = piece.split(b"\n")
            rest.append(first)
            if others:
                yield b"".join(rest)
                yield from others[:-1]
                rest = [others[-1]]
        yield b"".join(rest)
