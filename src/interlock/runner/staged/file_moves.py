"""Steps by which one approved change is written to the workspace (H-17)."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from collections.abc import Callable

from interlock.runner.staged.entries import FileChange, FileEntry, below, entry, names, status

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
MEANWHILE = "it was changed in the workspace meanwhile"
AFTERWARDS = "the agent changed it after it was shown"
NOT_ALONE = "it holds files that are not part of this"
_UNKNOWN = (errno.EINVAL, errno.ENOSYS)
"""The file system does not support this renaming."""
_libc = ctypes.CDLL(None, use_errno=True)


class LandingRefused(Exception):
    """Raised if this change does not land; the text is the reason."""


def gone(directory: str) -> LandingRefused:
    """Return the refusal of a change whose directory is missing or was replaced."""
    return LandingRefused(f"the directory {directory or '.'} no longer exists")


def temporary_name(token: str, path: str) -> str:
    """Return a new file's temporary name until it is complete; the same when a landing is resumed."""
    return f".interlock-{token[:16]}-{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def check(parent: int, name: str, base: FileEntry) -> None:
    """Raise LandingRefused unless the entry is the agent's starting point. Raises OSError."""
    if base.kind == "unknown" or entry(parent, name) != base:
        raise LandingRefused(MEANWHILE)


def move(parent: int, temporary: str, name: str, change: FileChange, after: Callable[[str], None]) -> None:
    """Move a complete file to its place with one system call. The replaced file is checked once more after that: an
    editor may have saved at the same moment. Raises LandingRefused or OSError."""
    base = change.base
    check(parent, name, base)
    if base.kind == "directory" and holds(parent, name):
        raise LandingRefused(NOT_ALONE)
    after("checked")
    if base.kind == "absent":
        _add(parent, temporary, name, change.new)
        return
    try:
        _renameat2(parent, temporary, name, RENAME_EXCHANGE)
    except FileNotFoundError:
        raise LandingRefused(MEANWHILE) from None
    except OSError as error:
        if error.errno not in _UNKNOWN or "directory" in (change.new.kind, base.kind):
            raise
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    after("exchanged")
    if not _is_old(parent, temporary, base):
        _put_back(parent, temporary, name)
        raise LandingRefused(MEANWHILE if base.kind != "directory" else NOT_ALONE)


def take_away(parent: int, temporary: str, name: str, base: FileEntry, after: Callable[[str], None]) -> None:
    """Remove a file or a link, unless it was changed meanwhile. Raises LandingRefused or OSError."""
    after("checked")
    try:
        _renameat2(parent, name, temporary, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        os.unlink(name, dir_fd=parent)
        return
    after("taken away")
    if not _is_old(parent, temporary, base):
        _put_back(parent, temporary, name)
        raise LandingRefused(MEANWHILE)


def go_on(parent: int, temporary: str, name: str, change: FileChange) -> None:
    """Remove the temporary file of a landing that was killed, or put it back if it is the user's. Raises OSError."""
    if status(parent, temporary) is None:
        return
    landed = entry(parent, name) == change.new
    if landed and change.base.kind != "absent" and not _is_old(parent, temporary, change.base):
        _put_back(parent, temporary, name)
    tidy(parent, temporary)


def _is_old(parent: int, name: str, base: FileEntry) -> bool:
    return entry(parent, name) == base and not (base.kind == "directory" and holds(parent, name))


def _put_back(parent: int, temporary: str, name: str) -> None:
    """Rename the user's file back; the current entry gets the temporary name."""
    try:
        _renameat2(parent, temporary, name, RENAME_EXCHANGE)
    except FileNotFoundError:
        _renameat2(parent, temporary, name, RENAME_NOREPLACE)


def _add(parent: int, temporary: str, name: str, new: FileEntry) -> None:
    """Name a new file. A plain rename would replace a file that the user creates at the same moment."""
    try:
        try:
            _renameat2(parent, temporary, name, RENAME_NOREPLACE)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
            if new.kind == "directory":
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                return
            # Network file systems support only links.
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise LandingRefused(MEANWHILE) from None


def _renameat2(parent: int, old: str, new: str, flag: int) -> None:
    if _libc.renameat2(parent, os.fsencode(old), parent, os.fsencode(new), flag) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def holds(parent: int, name: str) -> bool:
    """Return whether a directory has any entry. Raises OSError."""
    with below(parent, name) as inner:
        return bool(names(inner))


def tidy(parent: int, temporary: str) -> None:
    """Remove what a landing left beside its goal: a part of a new file, or an exchanged old one. Raises OSError."""
    found = status(parent, temporary)
    if found is None:
        return
    try:
        os.unlink(temporary, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        os.rmdir(temporary, dir_fd=parent)
