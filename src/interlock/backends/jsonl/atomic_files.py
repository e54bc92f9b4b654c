"""Whole files, published: they appear under their name complete and durable, or not at all (X-2, X-4)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MODE = 0o600


def write_draft(draft: Path, lines: Iterable[bytes]) -> None:
    """Write lines, each with its line feed, so that they survive power loss. A draft that a crash left is replaced."""
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with os.fdopen(fd, "wb") as file:
        file.writelines(line + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def publish_new(path: Path, lines: Iterable[bytes]) -> None:
    """Make a file that is not there yet. Raises FileExistsError: a link, unlike a rename, takes no other's place."""
    draft = path.with_name(f".{path.name}.new")
    try:
        write_draft(draft, lines)
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def publish_over(path: Path, kept: Path, lines: Iterable[bytes]) -> None:
    """Put a file in the place of another, which stays under the name `kept`. At no instant is there none. Raises
    FileExistsError where `kept` is taken."""
    draft = path.with_name(f".{path.name}.new")
    try:
        write_draft(draft, lines)
        os.link(path, kept)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive power loss."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
