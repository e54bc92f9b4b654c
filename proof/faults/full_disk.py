"""A disk that can be full or fail: while it is, writes of a process below a directory are refused, and reads continue
(R14).

Full is as on a file system that copies on write: every write needs room, one over old bytes too. Failing, every other
write and sync is refused by the draw. SQLite writes through a VFS that refuses, everything else through the calls of
`os` that the stores use, which are replaced in this process alone.
"""

# ruff: noqa: PTH100 - the calls of `os` are what is replaced here, and pathlib goes through them.
from __future__ import annotations

import errno
import io
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import apsw

State = Literal["fine", "full", "failing"]
FAILS = 0.5
"""How likely a write or sync fails on a disk that is failing."""
WRITES = ("write", "pwrite", "ftruncate", "mkdir", "link", "symlink")
SYNCS = ("fsync", "fdatasync")
RENAMES = ("rename", "replace")


class FullDisk:
    """What is below `root`, and how the disk is. `refused` is set once something was."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root = os.path.abspath(root) + "/"
        self.state: State = "fine"
        self.refused = threading.Event()
        self._draw = random.Random(seed)
        self._vfs = _Vfs(self)

    def below(self, place: Any) -> bool:
        """Whether a path, or what a descriptor is open on, is on this disk."""
        if isinstance(place, int):
            try:
                place = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - see above
            except OSError:
                return False
        return isinstance(place, str | Path) and (os.path.abspath(place) + "/").startswith(self.root)

    def refuses(self, *, needs_room: bool) -> Literal["", "full", "failing"]:
        """Return whether a call fails now, and how."""
        state = self.state
        if state == "fine" or (state == "full" and not needs_room):
            return ""
        if state == "failing" and self._draw.random() >= FAILS:
            return ""
        self.refused.set()
        return state

    def check(self, place: Any, *, needs_room: bool) -> None:
        """Raise the error of the system if a call on this file fails now."""
        if self.state != "fine" and self.below(place) and (how := self.refuses(needs_room=needs_room)):
            number = errno.ENOSPC if how == "full" else errno.EIO
            raise OSError(number, os.strerror(number), place if isinstance(place, str) else None)

    def close(self) -> None:
        """Give SQLite its own file system back; databases that are open keep this one."""
        self._vfs.unregister()


class _Vfs(apsw.VFS):
    def __init__(self, disk: FullDisk) -> None:
        self._disk = disk
        super().__init__(f"scarce-{id(disk)}", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:  # noqa: N802 - the name is SQLite's
        return _File(self._disk, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: Any, flags: Any) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk if path is not None and disk.below(path) else None
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._check(apsw.SQLITE_IOERR_WRITE, needs_room=True)
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._check(apsw.SQLITE_IOERR_TRUNCATE, needs_room=False)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._check(apsw.SQLITE_IOERR_FSYNC, needs_room=False)
        super().xSync(flags)

    def _check(self, failure: int, *, needs_room: bool) -> None:
        how = self._disk.refuses(needs_room=needs_room) if self._disk is not None else ""
        if how:
            raise apsw.exception_for(apsw.SQLITE_FULL if how == "full" else failure)


class _Raw(io.RawIOBase):
    """A descriptor as a file whose writes go through `os.write`."""

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


def limit_disk(root: Path, seed: int) -> FullDisk:
    """Put such a disk below `root` for the rest of this process: the VFS, and the calls of `os` that stores use."""
    disk = FullDisk(root, seed)
    real = {name: getattr(os, name) for name in ("open", "fdopen", *WRITES, *SYNCS, *RENAMES)}

    def refusing(name: str, *, needs_room: bool, last: bool = False) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            disk.check(args[-1] if last else args[0], needs_room=needs_room)
            return real[name](*args, **kwargs)

        return call

    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT and dir_fd is None and not os.path.lexists(path):
            disk.check(path, needs_room=True)
        return int(real["open"](path, flags, mode, dir_fd=dir_fd))

    def fdopen(descriptor: int, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode not in ("w", "wb") or not disk.below(descriptor):
            return real["fdopen"](descriptor, mode, *args, **kwargs)
        file = io.BufferedWriter(_Raw(descriptor))
        return file if mode == "wb" else io.TextIOWrapper(file)

    for name in WRITES:
        setattr(os, name, refusing(name, needs_room=True, last=name in ("link", "symlink")))
    for name in SYNCS:
        setattr(os, name, refusing(name, needs_room=False))
    for name in RENAMES:
        setattr(os, name, refusing(name, needs_room=False, last=True))
    os.open, os.fdopen = open_, fdopen
    return disk
