"""Find the directories of a workspace's repository that git reads: without git, and never outside the runner's roots.

A repository may come from an agent or a stranger: its files and links name other directories (J-4).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from interlock.protocol.limits import KIB, MIB

MAX_ABOVE = 32
"""Directories that are searched, from the workspace upwards."""
MAX_TEXT_BYTES = 64 * KIB
"""Limit of a file that names a directory, a commit or ignored paths; a longer one is not read."""
MAX_PACKED_BYTES = 16 * MIB
"""Limit of the file of packed references; a longer one is not read."""
MAX_NAMES = 5
"""Steps that references to other references are followed, and object directories that borrow from others."""
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Links are not followed, and opening a FIFO does not block."""


class NotReadable(Exception):
    """The repository cannot be read; the text is one sentence."""


class Repository(NamedTuple):
    """Absolute directories without links. `commit` is None before the first commit, `branch` for a detached HEAD."""

    top: Path
    own: Path
    """The directory of this working tree: its index and its HEAD."""
    shared: Path
    """The directory that all working trees of the repository share."""
    objects: Path
    branch: str | None
    commit: str | None
    excluded: bytes
    """The content of `info/exclude`."""
    shallow: bytes
    """The commits at which a shallow clone ends, one per line."""


def find_repository(workspace: Path, roots: Sequence[str]) -> Repository:
    """Find the repository that contains a workspace; `roots` are the runner's. Raises NotReadable."""
    allowed = [Path(root).resolve() for root in roots]
    above = [one for one in [workspace, *workspace.parents][:MAX_ABOVE] if _inside(one, allowed)]
    top = next((one for one in above if os.path.lexists(one / ".git")), None)
    if top is None:
        raise NotReadable(f"There is no git repository at {workspace}.")
    own = _directory(top / ".git", allowed)
    common = _line(own / "commondir")
    shared = _checked(own / common, allowed) if common else own
    objects = _checked(shared / "objects", allowed)
    _check_borrowed(objects, allowed)
    branch, commit = _head(own, shared)
    return Repository(top, own, shared, objects, branch, commit, read_plain(shared / "info/exclude", MAX_TEXT_BYTES),
                      _shallow(shared))


def checked_out(workspace: Path, roots: Sequence[str]) -> str | None:
    """Return the commit that is checked out in a workspace: "" before the first one, None if it cannot be read."""
    try:
        return find_repository(workspace, roots).commit or ""
    except (NotReadable, OSError):
        return None


def read_plain(path: Path, most: int) -> bytes:
    """Return a regular file's content, without following a link; b"" if it is not one or is longer than `most`."""
    try:
        with os.fdopen(os.open(path, PLAIN), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            content = file.read(most + 1)
    except OSError:
        return b""
    return content if len(content) <= most else b""


def _directory(path: Path, allowed: Sequence[Path]) -> Path:
    """Return the directory that `.git` is, or that it names."""
    if path.is_dir():
        return _checked(path, allowed)
    named = _line(path)
    if not named.startswith("gitdir: "):
        raise NotReadable(f"{path} neither is a repository nor names one.")
    return _checked(path.parent / named.removeprefix("gitdir: "), allowed)


def _checked(path: Path, allowed: Sequence[Path]) -> Path:
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as wrong:
        raise NotReadable("The repository's directories cannot be resolved.") from wrong
    if not _inside(real, allowed):
        raise NotReadable(f"A part of the repository is in {real}, which lies outside the runner's roots; "
                          "start the runner with that directory as a root, too.")
    if not real.is_dir():
        raise NotReadable(f"The repository lacks its directory {real}.")
    return real


def _check_borrowed(objects: Path, allowed: Sequence[Path]) -> None:
    """Check the directories that a clone borrows objects from, and those that they borrow from in turn. Raises
    NotReadable."""
    waiting, seen = [objects], set[Path]()
    while waiting:
        one = waiting.pop()
        seen.add(one)
        if os.path.lexists(one / "pack"):
            _checked(one / "pack", allowed)
        if len(seen) > MAX_NAMES:
            raise NotReadable("The repository borrows objects from too many directories.")
        named = read_plain(one / "info/alternates", MAX_TEXT_BYTES).decode("utf-8", "surrogateescape").split("\n")
        borrowed = [_checked(one / line, allowed) for line in named if line and not line.startswith("#")]
        waiting += [other for other in borrowed if other not in seen]


def _head(own: Path, shared: Path) -> tuple[str | None, str | None]:
    """Return the branch that is checked out and the commit. Raises NotReadable."""
    text, branch = _line(own / "HEAD"), None
    for _ in range(MAX_NAMES):
        if COMMIT.fullmatch(text):
            return branch, text
        name = text.removeprefix("ref: ").strip()
        if name == text or not _REFERENCE.fullmatch(name) or ".." in name:
            break
        if name == "refs/heads/.invalid":
            raise NotReadable("The repository does not store its references as files; other formats are not supported.")
        branch = branch or name.removeprefix("refs/heads/")
        packed = _packed(shared, name)
        text = next((line for place in (own, shared) if (line := _reference(place, name))), packed)
        if not text:
            return branch, None
    raise NotReadable("The repository's HEAD names no commit and no branch.")


def _reference(place: Path, name: str) -> str:
    """Return the content of a reference's own file, unless a link leads to it."""
    path = place / name
    return _line(path) if os.path.realpath(path.parent) == str(path.parent) else ""


def _packed(shared: Path, name: str) -> str:
    wanted = f" {name}".encode()
    for line in read_plain(shared / "packed-refs", MAX_PACKED_BYTES).split(b"\n"):
        if line.endswith(wanted) and line[:1] not in (b"#", b"^"):
            return line.removesuffix(wanted).decode("latin-1")
    return ""


def _shallow(shared: Path) -> bytes:
    """Return the commits that a shallow clone ends at: only lines that name one, since git reads the list."""
    lines = read_plain(shared / "shallow", MAX_TEXT_BYTES).decode("latin-1").split("\n")
    return "".join(f"{line}\n" for line in lines if COMMIT.fullmatch(line)).encode()


def _line(path: Path) -> str:
    return read_plain(path, MAX_TEXT_BYTES).decode("utf-8", "surrogateescape").strip("\n")


def _inside(path: Path, allowed: Sequence[Path]) -> bool:
    return any(path.is_relative_to(one) for one in allowed)
