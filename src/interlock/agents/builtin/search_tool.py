"""The tool that searches the workspace's text by a regular expression. It blocks: the caller runs it in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic
from typing import Any

import re2

from interlock.agents.builtin.places import Root, ToolFailed, opened, resolved, shown

MAX_MATCHES = 200
MAX_LINE_CHARS = 300
MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger file is skipped."""
MAX_FILES = 50_000
MAX_SECONDS = 20.0
"""After this the matches so far are returned, with a note that they are incomplete."""
LEFT_OUT = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache",
                      ".ruff_cache", ".pytest_cache", ".tox"})  # fmt: skip
"""Directories that are searched only if they are named."""


def search(workspace: Root, pattern: str, path: str = ".", glob: str = "*", *, ignore_case: bool = False) -> str:
    """Return matching lines as `file:line: text`. RE2 takes time proportional to the text, for any pattern. Raises
    ToolFailed."""
    matches = _expression(pattern, ignore_case)
    top = resolved(workspace, path)
    if not top.exists():
        raise ToolFailed(f"There is no {path}.")
    found: list[str] = []
    ends = monotonic() + MAX_SECONDS
    for seen, place in enumerate(_files(top, glob)):
        for number, line in enumerate(_lines(workspace, place), 1):
            if matches(line):
                found.append(f"{shown(workspace, place)}:{number}: {line.strip()[:MAX_LINE_CHARS]}")
                if len(found) >= MAX_MATCHES:
                    return "\n".join([*found, f"(the first {MAX_MATCHES} matches; narrow the pattern or the path)"])
        if seen >= MAX_FILES or monotonic() > ends:
            return "\n".join([*found, f"(not everything was searched: {seen + 1} files; narrow the path)"])
    return "\n".join(found) or "(no match)"


def _expression(pattern: str, ignore_case: bool) -> Callable[[str], object]:
    options: Any = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    library: Any = re2
    try:
        return library.compile(pattern, options=options).search
    except library.error as error:
        raise ToolFailed(f"The pattern {pattern!r} is not a regular expression of RE2: {error}.") from None


def _files(top: Path, glob: str) -> Iterator[Path]:
    if top.is_file():
        yield top
        return
    for directory, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if name not in LEFT_OUT)
        for name in sorted(names):
            place = Path(directory) / name
            if fnmatch(name, glob) or fnmatch(place.relative_to(top).as_posix(), glob):
                yield place


def _lines(workspace: Root, place: Path) -> list[str]:
    try:
        # Links are not followed: their target is searched in its own place.
        with opened(workspace, place, os.O_RDONLY) as file:
            kind = os.fstat(file)
            if not stat.S_ISREG(kind.st_mode) or kind.st_size > MAX_FILE_BYTES:
                return []
            data = b"".join(iter(lambda: os.read(file, 1 << 20), b""))
    except ToolFailed:
        return []
    return [] if b"\0" in data[:8_192] else data.decode("utf-8", "replace").split("\n")
