"""A directory for what is not whole yet, beside the place that it is for, so that it is moved there in one step."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from interlock.durable_files import FILE_MODE, create_file, name_new

IN_USE = ".in-use"
"""The file of a directory on which its process has a lock, which ends with the process, however that ends."""

EXPORT_PREFIX = ".interlock-export-"
"""Prefix of the directories in which verbs write the files that they export."""


@contextmanager
def _locked(path: Path, flags: int, operation: int) -> Generator[None]:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _remove_if_abandoned(place: Path) -> None:
    """Remove a directory that has the file, without its lock. One that lacks the file was not made here, unless it is
    empty: then its process was killed before it made the file, or after it removed everything else."""
    with suppress(OSError):
        if place.is_symlink():
            return
        try:
            with _locked(place / IN_USE, os.O_RDWR, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _remove(place)
        except FileNotFoundError:
            place.rmdir()


def _remove(place: Path) -> None:
    """Remove a directory, its file last: while it holds anything, it can be recognized as abandoned."""
    for left in place.iterdir():
        if left.name != IN_USE:
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()
    shutil.rmtree(place, ignore_errors=True)


@contextmanager
def scratch_directory(parent: Path, prefix: str) -> Generator[Path]:
    """Make a directory in `parent`, private to its owner, and remove it in the end. Those of this prefix that a killed
    process left are removed first; one that is in use stays. Raises OSError."""
    with ExitStack() as lock:
        # Under a lock on the parent, so that none that is just made is taken for an abandoned one.
        with _locked(parent, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX):
            for left in sorted(parent.glob(f"{prefix}*")):
                _remove_if_abandoned(left)
            place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            try:
                lock.enter_context(_locked(place / IN_USE, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX))
            except OSError:
                _remove(place)
                raise
        try:
            yield place
        finally:
            with suppress(OSError):
                _remove(place)


@contextmanager
def new_file(path: Path, prefix: str, mode: int = FILE_MODE) -> Generator[IO[bytes]]:
    """Write a file that appears under its name once it is complete and durable, and that replaces none. What a killed
    process left is removed by the next one of this prefix. Raises FileExistsError, OSError."""
    with scratch_directory(path.parent, prefix) as place:
        draft = place / "file"
        with create_file(draft, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        name_new(draft, path)
