"""Parse the output of `git diff` with `--raw`, `--numstat` and `--patch` into changed files, and that of `git log` into
commits, bounded (J-4). Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple

from interlock.protocol.clock import iso
from interlock.protocol.limits import KIB
from interlock.protocol.payloads import ChangedCommit, ChangedFile
from interlock.protocol.sizes import json_size
from interlock.runner.turn.blocks import fit
from interlock.runner.workspace.git_place import COMMIT

MAX_FILES = 200
"""Paths that are listed; further ones are only counted."""
MAX_FILE_DIFF_BYTES = 64 * KIB
"""Limit of one file's diff, as JSON; a longer one is cut."""
MAX_REPORT_BYTES = 512 * KIB
"""Limit of paths and diffs together, as JSON, so that the answer fits in a frame; beyond it diffs, then files, are
omitted."""
AUTHOR_CHARS = 100
SUBJECT_CHARS = 200
_SECONDS = re.compile(r"[0-9]{1,10}")
"""Matches up to the year 2286; a commit with a later time has no time."""
RENAME_SIGN = b" => "
FILE_BYTES = 256
"""Size of one file's entry beside its path and its diff."""

Change = Literal["added", "modified", "deleted", "renamed", "retyped", "unmerged"]
CHANGES: dict[str, Change] = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "retyped",
                              "U": "unmerged"}
_COUNTED = re.compile(rb"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_HEADS = (b"diff --git ", b"* Unmerged path ")
"""First lines of a file's part of a patch: lines of a file's content begin with a sign or a blank."""


class GitReport(NamedTuple):
    """The listed files, the total count, and whether diffs or files were omitted."""

    files: list[ChangedFile]
    total: int
    cut: bool


class Entry(NamedTuple):
    """A path, and git's letter for its change; `old` is the path before a rename."""

    change: str
    path: bytes
    old: bytes | None = None


def read_listing(printed: bytes, *, whole: bool) -> list[Entry]:
    """Parse git's output with `--raw`; `whole` is False if git was stopped while it wrote."""
    return _split(_lines(printed, whole=whole))[0]


def read_report(listing: Sequence[Entry], printed: bytes, untracked: Container[bytes], *, whole: bool) -> GitReport:
    """Report the paths in `listing`, with git's output for those that it compared; `whole` is False if git was stopped
    while it wrote. `untracked` are the paths that are not in the repository."""
    lines = _lines(printed, whole=whole)
    compared, counts, patch = _split(lines)
    parts = _parts(lines[patch:], compared, whole=whole)
    files: list[ChangedFile] = []
    left, cut = MAX_REPORT_BYTES, not whole
    merged = _renamed(listing, compared)
    for entry in merged:
        name, old = entry.path.decode("utf-8", "replace"), (entry.old or b"").decode("utf-8", "replace")
        left -= json_size(name) + json_size(old) + FILE_BYTES
        if len(files) == MAX_FILES or left < 0:
            cut = True
            break
        text = parts.get(entry.path)
        # git writes a rename as `old => new` among the counts, as another path may be named.
        is_named_so = entry.old is not None or RENAME_SIGN in entry.path
        added, removed = _lines_of(text) if is_named_so else counts.get(entry.path, (None, None))
        shown = _cut(text or "", min(left, MAX_FILE_DIFF_BYTES))
        left -= json_size(shown)
        is_cut = text is None or len(shown) < len(text)
        cut = cut or is_cut
        files.append(ChangedFile(path=name, change=CHANGES.get(entry.change, "modified"), added=added, removed=removed,
                                 old_path=old if entry.old is not None else None,
                                 untracked=entry.path in untracked, diff=shown, cut=is_cut))
    return GitReport(files, len(merged), cut)


def unquoted(path: bytes) -> bytes:
    """Decode a path as git writes it: quoted and escaped if it has control characters."""
    if not (len(path) > 1 and path.startswith(b'"') and path.endswith(b'"')):
        return path
    return _ESCAPED.sub(lambda found: _byte(found[1]), path[1:-1])


def _byte(escape: bytes) -> bytes:
    return bytes([int(escape, 8) & 0xFF]) if len(escape) == 3 else _LETTERS.get(escape, escape)


def _lines(printed: bytes, *, whole: bool) -> list[bytes]:
    lines = printed.split(b"\n")
    return lines if whole else lines[:-1]  # The last line may be cut.


def _split(lines: Sequence[bytes]) -> tuple[list[Entry], dict[bytes, tuple[int | None, int | None]], int]:
    """Return the entries, the added and removed lines of each path, and where the patch begins."""
    entries = dict[bytes, Entry]()
    counts = dict[bytes, tuple[int | None, int | None]]()
    place = 0
    while place < len(lines) and lines[place].startswith(b":"):
        about, *names = lines[place].split(b"\t")
        path, old = unquoted(names[-1]), unquoted(names[0]) if len(names) > 1 else None
        entries.setdefault(path, Entry(about.rpartition(b" ")[2][:1].decode("latin-1"), path, old))
        place += 1
    while place < len(lines) and (found := _COUNTED.fullmatch(lines[place])) is not None:
        path = unquoted(found[3])
        counts[path] = _sum(counts.get(path), _number(found[1])), _sum(counts.get(path), _number(found[2]), 1)
        place += 1
    return list(entries.values()), counts, place


def _renamed(listing: Sequence[Entry], compared: Sequence[Entry]) -> list[Entry]:
    """Put each rename in the place of the new path, and leave out the old one: git finds renames only among the paths
    that it compares."""
    renames = {entry.path: entry for entry in compared if entry.old is not None}
    gone = {entry.old for entry in renames.values()}
    return [renames.get(entry.path, entry) for entry in listing if entry.path not in gone or entry.path in renames]


def _lines_of(part: str | None) -> tuple[int | None, int | None]:
    """Count the lines that a file's part of a patch adds and removes; None if it has no such part, or compares none."""
    if part is None or any(line.startswith("Binary files ") for line in part.split("\n@@", 1)[0].split("\n")):
        return None, None
    _, *hunks = part.split("\n@@")
    lines = [line for hunk in hunks for line in hunk.split("\n")[1:]]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _number(text: bytes) -> int | None:
    return None if text == b"-" else int(text)


def _sum(before: tuple[int | None, int | None] | None, more: int | None, which: int = 0) -> int | None:
    """Add up the lines of a path whose kind changed: git lists it as removed and as added."""
    known = before[which] if before is not None else 0
    return None if known is None or more is None else known + more


def _parts(lines: Sequence[bytes], entries: Sequence[Entry], *, whole: bool) -> dict[bytes, str]:
    """Return each path's part of the patch. A path whose kind changed has two; an unmerged one may have more, so the
    parts after it cannot be assigned with certainty and are omitted."""
    found = list(_sections(lines))
    parts = dict[bytes, str]()
    place = 0
    for entry in entries:
        taken = found[place:place + (2 if entry.change == "T" else 1)]
        place += len(taken)
        if taken:
            parts[entry.path] = "\n".join(taken)
    uncertain = any(entry.change not in "AMDRT" for entry in entries)
    if uncertain or (whole and place != len(found)):
        return {}
    return parts


def _sections(lines: Sequence[bytes]) -> Iterator[str]:
    section: list[bytes] = []
    for line in lines:
        if line.startswith(_HEADS):
            if section:
                yield _text(section)
            section = [line]
        elif section:
            section.append(line)
    if section:
        yield _text(section)


def _text(section: list[bytes]) -> str:
    if section[-1] == b"":
        section.pop()
    return b"\n".join(section).decode("utf-8", "replace")


def _cut(text: str, budget: int) -> str:
    """Return as many whole lines as fit."""
    if json_size(text) <= budget:
        return text
    return text[:fit(text, budget)].rpartition("\n")[0]


def read_commits(printed: bytes) -> list[ChangedCommit]:
    """Parse commits: id, time in seconds, author and subject, a line each, and a NUL between two commits. Other text is
    omitted."""
    found = (one.decode("utf-8", "replace").strip("\n").split("\n", 3) for one in printed.split(b"\0"))
    return [ChangedCommit(commit=parts[0], at=iso(int(parts[1]) * 1000) if _SECONDS.fullmatch(parts[1]) else None,
                          author=_short(parts[2], AUTHOR_CHARS), subject=_short(parts[3], SUBJECT_CHARS))
            for parts in found if len(parts) == 4 and COMMIT.fullmatch(parts[0])]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most - 1]}…"
