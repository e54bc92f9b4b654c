"""Files that a power cut leaves as they were or as they were to be, never in between (X-2, U-3)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of a file system without hard links: FAT, exFAT, some network shares."""


def create_file(path: Path, mode: int = FILE_MODE) -> BinaryIO:
    """Create a file that does not exist yet, and return it for writing. A link is not followed. `mode`, less the umask,
    is set by the creation: FAT refuses a change of it. Raises FileExistsError, OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def replace_file(path: Path, content: bytes, *, writer: str = "new", mode: int = FILE_MODE) -> None:
    """Create or replace a file, and create its directory (mode 0700) if it does not exist.

    After a power cut the old or the new content is there, complete; after the return it is the new one. `writer` is
    part of the draft's name: it has to differ between processes that may replace the file at the same time. A draft
    that a killed process left is replaced by the next one of the same writer. Raises OSError; the file is complete
    then, too, and the draft is gone.
    """
    path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{writer}")
    try:
        draft.unlink(missing_ok=True)
        with create_file(draft, mode) as file:
            os.fchmod(file.fileno(), mode)  # Without the umask.
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        # A write names no file, and the other steps name the draft, which no one knows.
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_directory(path.parent)


def name_new(draft: Path, path: Path) -> None:
    """Name a complete and durable draft of the same file system; the name appears durably, and replaces no other file.

    The draft's own name may still be there afterwards. On a file system without hard links a process that is killed in
    this instant leaves an empty file. Raises FileExistsError, OSError.
    """
    try:
        os.link(draft, path)  # Unlike a rename, this never replaces another file.
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        create_file(path).close()
        draft.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Make the names in a directory, and in those below it, durable. Raises OSError."""
    for path in (directory, *directory.rglob("*")):
        if path.is_dir():
            sync_directory(path)
