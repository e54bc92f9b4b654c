"""Atomic creation of files: they appear under their name complete and durable, or not at all (X-2, X-4)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from interlock.durable_files import create_file, name_new, sync_directory


def write_draft(draft: Path, lines: Iterable[bytes]) -> None:
    """Write lines, each with its line feed, durably. A draft that a crash left is replaced."""
    draft.unlink(missing_ok=True)
    with create_file(draft) as file:
        file.writelines(line + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def publish_new(path: Path, lines: Iterable[bytes]) -> None:
    """Create a file that does not exist yet. Raises FileExistsError."""
    draft = path.with_name(f".{path.name}.new")
    try:
        write_draft(draft, lines)
        name_new(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def publish_over(path: Path, kept: Path, lines: Iterable[bytes]) -> None:
    """Replace a file by another, and keep the old one under the name `kept`. There is a file at every instant. Raises
    FileExistsError if `kept` exists."""
    draft = path.with_name(f".{path.name}.new")
    try:
        write_draft(draft, lines)
        os.link(path, kept)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)
