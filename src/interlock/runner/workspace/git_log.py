"""What `git log` printed, as commits within bounds (J-4). Pure."""

from __future__ import annotations

import re

from interlock.protocol.clock import iso
from interlock.protocol.payloads import ChangedCommit
from interlock.runner.workspace.git_place import COMMIT

AUTHOR_CHARS = 100
SUBJECT_CHARS = 200
_SECONDS = re.compile(r"[0-9]{1,10}")
"""Matches up to the year 2286; a commit with a later time has no time."""


def read_commits(printed: bytes) -> list[ChangedCommit]:
    """Parse commits: id, time in seconds, author and subject, a line each, and a NUL between two commits. Other text is
    omitted."""
    found = (one.decode("utf-8", "replace").strip("\n").split("\n", 3) for one in printed.split(b"\0"))
    return [ChangedCommit(commit=parts[0], at=iso(int(parts[1]) * 1000) if _SECONDS.fullmatch(parts[1]) else None,
                          author=_cut(parts[2], AUTHOR_CHARS), subject=_cut(parts[3], SUBJECT_CHARS))
            for parts in found if len(parts) == 4 and COMMIT.fullmatch(parts[0])]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most - 1]}…"
