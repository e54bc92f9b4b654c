"""A disk that forgets: data that a process wrote below a directory and did not sync is lost at a power cut (R3).

Writes go through, each noted with what it replaced. A sync settles what is noted of that file, a directory's sync what
is noted of its names. `cut` takes back the rest, newest first, and ends the process; with some luck of the draw sectors
of what was not synced are on the disk all the same, as they may be. SQLite writes through a VFS that notes, everything
else through the calls of `os` that the stores use, which are replaced in this process alone.
"""

# ruff: noqa: PTH100, PTH112, PTH120 - the calls of `os` are what is replaced here, and pathlib goes through them.
from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR_BYTES = 512
SYNCS_NAMES = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
"""SQLite's own VFS syncs the directory of such a file with its first sync."""

Key = tuple[int, int]


class Written(NamedTuple):
    """`new` was written at `offset` over `old`, in a file of `size` bytes."""

    key: Key
    offset: int
    old: bytes
    new: bytes
    size: int


class Named(NamedTuple):
    """A name in `directory` was made, moved or removed; `undo` makes it as it was, `settle` forgets what that needs."""

    directory: str
    undo: Callable[[], None]
    settle: Callable[[], None]


class VolatileDisk:
    """What below `root` is not synced, in the order in which it was done."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.turn = threading.RLock()
        self._noted: list[Written | Named] = []
        self._ends: dict[Key, int] = {}
        self._hidden = itertools.count()
        self.open, self.unlink, self.link, self.rename = os.open, os.unlink, os.link, os.rename

    def below(self, path: Any) -> bool:
        """Whether a path is on this disk."""
        return isinstance(path, str | Path) and (os.path.abspath(path) + "/").startswith(self.root + "/")

    def know(self, path: str) -> Key:
        """Keep a descriptor of a file, independent of its name."""
        end = self.open(path, os.O_RDWR | os.O_CLOEXEC)
        state = os.fstat(end)
        key = (state.st_dev, state.st_ino)
        # Never closed: closing one end of a file gives up the locks that SQLite holds on it.
        self._ends.setdefault(key, end)
        return key

    def write(self, key: Key, offset: int, data: bytes) -> None:
        """Note what a write is going to replace; the caller holds `turn` until it is done."""
        end = self._ends[key]
        self._noted.append(Written(key, offset, os.pread(end, len(data), offset), data, os.fstat(end).st_size))

    def truncate(self, key: Key, size: int) -> None:
        """Note what a truncation is going to take."""
        end = self._ends[key]
        before = os.fstat(end).st_size
        self._noted.append(Written(key, size, os.pread(end, max(0, before - size), size), b"", before))

    def name(self, path: Any, undo: Callable[[], None], settle: Callable[[], None] = lambda: None) -> None:
        """Note a change of a name."""
        self._noted.append(Named(os.path.dirname(os.path.abspath(path)), undo, settle))

    def hide(self, path: Any) -> str | None:
        """Link the file of a name that is about to be lost under another name; None if there is none."""
        if not os.path.lexists(path):
            return None
        kept = f"{self.root}/.unsynced-{os.getpid()}-{next(self._hidden)}"
        self.link(path, kept, follow_symlinks=False)
        return kept

    def synced(self, key: Key) -> None:
        """A file's bytes are on the disk."""
        self._noted = [one for one in self._noted if not (isinstance(one, Written) and one.key == key)]

    def names_synced(self, directory: str) -> None:
        """A directory's names are on the disk."""
        for one in self._noted:
            if isinstance(one, Named) and one.directory == directory:
                one.settle()
        self._noted = [one for one in self._noted if not (isinstance(one, Named) and one.directory == directory)]

    def cut(self, draw: random.Random) -> None:
        """Take back what is not synced, and end this process. No one writes any more once this holds `turn`."""
        self.turn.acquire()
        noted, torn = self._noted, draw.random() < 0.5
        for one in reversed(noted):
            if isinstance(one, Named):
                with contextlib.suppress(FileNotFoundError):  # Its other end, in another directory, is on the disk.
                    one.undo()
                continue
            end = self._ends[one.key]
            os.pwrite(end, one.old, one.offset)
            os.ftruncate(end, one.size)
        for one in noted:
            if torn and isinstance(one, Written):
                self._tear(one, draw)
        os.kill(os.getpid(), signal.SIGKILL)

    def _tear(self, written: Written, draw: random.Random) -> None:
        """Have some sectors of a write on the disk."""
        start = written.offset - written.offset % SECTOR_BYTES
        for sector in range(start, written.offset + len(written.new), SECTOR_BYTES):
            if draw.random() < 0.5:
                first = max(sector, written.offset)
                piece = written.new[first - written.offset:sector + SECTOR_BYTES - written.offset]
                os.pwrite(self._ends[written.key], piece, first)


class VolatileVfs(apsw.VFS):
    """SQLite's file system over a disk that forgets; the default of this process from here on."""

    def __init__(self, disk: VolatileDisk) -> None:
        self._disk = disk
        super().__init__("forgetful", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:  # noqa: N802 - the name is SQLite's
        """Open a file, noting."""
        return _File(self._disk, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: VolatileDisk, name: Any, flags: Any) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._key = disk.know(self._path) if self._path is not None and disk.below(self._path) else None
        self._names_due = bool(flags[0] & SYNCS_NAMES)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self._disk.turn:
            if self._key is not None:
                self._disk.write(self._key, offset, data)
            super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._disk.turn:
            if self._key is not None:
                self._disk.truncate(self._key, newsize)
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        with self._disk.turn:
            if self._key is not None:
                self._disk.synced(self._key)
                if self._names_due:
                    self._names_due = False
                    self._disk.names_synced(os.path.dirname(self._path))


class _Raw(io.RawIOBase):
    """A descriptor as a file whose writes are noted."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        return os.write(self._descriptor, bytes(data))

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)


def make_volatile(root: Path) -> VolatileDisk:
    """Put such a disk below `root` for the rest of this process: the VFS, and the calls of `os` that stores use."""
    disk = VolatileDisk(root)
    disk.vfs = VolatileVfs(disk)  # type: ignore[attr-defined] - kept, since SQLite does not keep it
    keys: dict[int, tuple[Key, bool]] = {}
    directories: dict[int, str] = {}
    real = {name: getattr(os, name) for name in ("open", "close", "write", "ftruncate", "fsync", "fdatasync", "replace",
                                                 "rename", "unlink", "mkdir", "rmdir", "fdopen")}

    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None or not disk.below(path):
            return real["open"](path, flags, mode, dir_fd=dir_fd)
        with disk.turn:
            fresh = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            descriptor = real["open"](path, flags, mode)
            if flags & os.O_DIRECTORY or os.path.isdir(path):
                directories[descriptor] = os.path.abspath(path)
                return descriptor
            if fresh:
                disk.name(path, lambda: real["unlink"](path))
            if flags & (os.O_WRONLY | os.O_RDWR):
                keys[descriptor] = (disk.know(str(path)), bool(flags & os.O_APPEND))
            return descriptor

    def close(descriptor: int) -> None:
        keys.pop(descriptor, None)
        directories.pop(descriptor, None)
        real["close"](descriptor)

    def write(descriptor: int, data: Any) -> int:
        with disk.turn:
            known = keys.get(descriptor)
            if known is not None:
                key, appends = known
                at = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
                disk.write(key, at, bytes(data))
            return real["write"](descriptor, data)

    def ftruncate(descriptor: int, size: int) -> None:
        with disk.turn:
            if descriptor in keys:
                disk.truncate(keys[descriptor][0], size)
            real["ftruncate"](descriptor, size)

    def sync(descriptor: int) -> None:
        real["fdatasync"](descriptor)
        with disk.turn:
            if descriptor in keys:
                disk.synced(keys[descriptor][0])
            if descriptor in directories:
                disk.names_synced(directories[descriptor])

    def rename(source: Any, target: Any) -> None:
        if not disk.below(target):
            real["rename"](source, target)
            return
        with disk.turn:
            lost = disk.hide(target)

            def undo() -> None:
                real["rename"](target, source)
                if lost is not None:
                    real["rename"](lost, target)

            real["rename"](source, target)
            disk.name(target, undo, lambda: real["unlink"](lost) if lost is not None else None)

    def unlink(path: Any, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None or not disk.below(path):
            real["unlink"](path, dir_fd=dir_fd)
            return
        with disk.turn:
            lost = disk.hide(path)
            try:
                real["unlink"](path)
            except OSError:
                if lost is not None:
                    real["unlink"](lost)
                raise
            if lost is not None:
                disk.name(path, lambda: real["rename"](lost, path), lambda: real["unlink"](lost))

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with disk.turn:
            real["mkdir"](path, mode, dir_fd=dir_fd)
            if dir_fd is None and disk.below(path):
                disk.name(path, lambda: _without(path, real["rmdir"]))

    def fdopen(descriptor: int, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if descriptor not in keys or mode not in ("w", "wb"):
            return real["fdopen"](descriptor, mode, *args, **kwargs)
        file = io.BufferedWriter(_Raw(descriptor))
        return file if mode == "wb" else io.TextIOWrapper(file)

    for name, noting in {"open": open_, "close": close, "write": write, "ftruncate": ftruncate, "fsync": sync,
                         "fdatasync": sync, "rename": rename, "replace": rename, "unlink": unlink, "remove": unlink,
                         "mkdir": mkdir, "fdopen": fdopen}.items():
        setattr(os, name, noting)
    return disk


def _without(path: Any, rmdir: Callable[[Any], None]) -> None:
    try:
        rmdir(path)
    except OSError:
        return  # It contains names of other programs.
