"""The steps by which one approved change takes its place in the workspace (H-17)."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os

from interlock.runner.staged.entries import FileEntry, below, entry, names, status

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
MEANWHILE = "it was changed in the workspace meanwhile"
AFTERWARDS = "the agent changed it after it was shown"
NOT_ALONE = "it holds files that are not part of this"
_libc = ctypes.CDLL(None, use_errno=True)


class LandingRefused(Exception):
    """This change does not land; the text says why."""


def gone(directory: str) -> LandingRefused:
    """The refusal of a change whose directory is missing, or is another one by now."""
    return LandingRefused(f"the directory {directory or '.'} is not there any more")


def temporary_name(token: str, path: str) -> str:
    """Name a new file beside its goal until it is whole; the same when a landing is resumed."""
    return f".interlock-{token[:16]}-{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def check(parent: int, name: str, base: FileEntry) -> None:
    """Raise Refused unless a name is what the agent began from. Raises OSError."""
    if base.kind == "unknown" or entry(parent, name) != base:
        raise LandingRefused(MEANWHILE)


def move(parent: int, temporary: str, name: str, new: FileEntry, base: FileEntry) -> None:
    """Put what is whole into its place, by one call of the kernel. Raises Refused or OSError."""
    check(parent, name, base)
    if base.kind == "directory" and holds(parent, name):
        raise LandingRefused(NOT_ALONE)
    if base.kind == "absent" and new.kind == "file":
        _add(parent, temporary, name)
    elif "directory" in (new.kind, base.kind) and base.kind != "absent":
        _renameat2(parent, temporary, name, RENAME_EXCHANGE)
    else:
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def _add(parent: int, temporary: str, name: str) -> None:
    """Give a new file its name. A plain rename would replace what the user makes there in this very moment."""
    try:
        try:
            _renameat2(parent, temporary, name, RENAME_NOREPLACE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):  # Network file systems know links alone.
                raise
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise LandingRefused(MEANWHILE) from None


def _renameat2(parent: int, temporary: str, name: str, flag: int) -> None:
    if _libc.renameat2(parent, os.fsencode(temporary), parent, os.fsencode(name), flag) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def holds(parent: int, name: str) -> bool:
    """Whether a directory holds anything. Raises OSError."""
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
