"""Where a workspace's repository keeps what git reads of it: found without git, and never outside the runner's roots.

A repository may be an agent's, or a stranger's: it names directories by files and links of its own (J-4).
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
"""Directories from the workspace upwards that are looked at."""
MAX_TEXT_BYTES = 64 * KIB
"""A file that names a directory, a commit or what is ignored; a longer one is not read."""
MAX_PACKED_BYTES = 16 * MIB
"""The file of packed references; a longer one is not read."""
MAX_NAMES = 5
"""References that name another one are followed so far, and object directories that borrow from another one."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A link is not followed, and a FIFO does not hold anyone up."""


class NotReadable(Exception):
    """The repository is not looked at; the text is one sentence."""


class Repository(NamedTuple):
    """Absolute directories without links. `commit` is None before the first commit; `branch` if none is checked out."""

    top: Path
    own: Path
    """What belongs to this working tree: its index, its HEAD."""
    shared: Path
    """What all working trees of the repository have in common."""
    objects: Path
    branch: str | None
    commit: str | None
    excluded: bytes
    """What `info/exclude` says."""


def find_repository(workspace: Path, roots: Sequence[str]) -> Repository:
    """Find the repository that a workspace lies in; `roots` are the runner's. Raises NotReadable."""
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
    return Repository(top, own, shared, objects, branch, commit, read_plain(shared / "info/exclude", MAX_TEXT_BYTES))


def read_plain(path: Path, most: int) -> bytes:
    """Return a plain file's content, without following a link; b"" if it is none or longer than `most`."""
    try:
        with os.fdopen(os.open(path, PLAIN), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            content = file.read(most + 1)
    except OSError:
        return b""
    return content if len(content) <= most else b""


def _directory(path: Path, allowed: Sequence[Path]) -> Path:
    """The directory that `.git` is, or that it names."""
    if path.is_dir():
        return _checked(path, allowed)
    named = _line(path)
    if not named.startswith("gitdir: "):
        raise NotReadable(f"{path} is neither a repository nor names one.")
    return _checked(path.parent / named.removeprefix("gitdir: "), allowed)


def _checked(path: Path, allowed: Sequence[Path]) -> Path:
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as wrong:
        raise NotReadable("The repository's directories lead nowhere.") from wrong
    if not _inside(real, allowed):
        raise NotReadable(f"The repository keeps a part of itself in {real}, which lies outside the runner's roots; "
                          "start the runner with that directory as a root, too.")
    if not real.is_dir():
        raise NotReadable(f"The repository lacks its directory {real}.")
    return real


def _check_borrowed(objects: Path, allowed: Sequence[Path]) -> None:
    """A clone may take objects from other directories, and those from others again."""
    waiting, seen = [objects], set[Path]()
    while waiting:
        one = waiting.pop()
        seen.add(one)
        if os.path.lexists(one / "pack"):
            _checked(one / "pack", allowed)
        if len(seen) > MAX_NAMES:
            raise NotReadable("The repository takes its objects from too many directories.")
        named = read_plain(one / "info/alternates", MAX_TEXT_BYTES).decode("utf-8", "surrogateescape").split("\n")
        borrowed = [_checked(one / line, allowed) for line in named if line and not line.startswith("#")]
        waiting += [other for other in borrowed if other not in seen]


def _head(own: Path, shared: Path) -> tuple[str | None, str | None]:
    """The branch that is checked out and the commit. Raises NotReadable."""
    said, branch = _line(own / "HEAD"), None
    for _ in range(MAX_NAMES):
        if _COMMIT.fullmatch(said):
            return branch, said
        name = said.removeprefix("ref: ").strip()
        if name == said or not _REFERENCE.fullmatch(name) or ".." in name:
            break
        if name == "refs/heads/.invalid":
            raise NotReadable("The repository keeps its references in another form than files, which is not read here.")
        branch = branch or name.removeprefix("refs/heads/")
        packed = _packed(shared, name)
        said = next((line for place in (own, shared) if (line := _reference(place, name))), packed)
        if not said:
            return branch, None
    raise NotReadable("The repository's HEAD names no commit and no branch.")


def _reference(place: Path, name: str) -> str:
    """What a reference's own file says, if no link leads to it."""
    path = place / name
    return _line(path) if os.path.realpath(path.parent) == str(path.parent) else ""


def _packed(shared: Path, name: str) -> str:
    wanted = f" {name}".encode()
    for line in read_plain(shared / "packed-refs", MAX_PACKED_BYTES).split(b"\n"):
        if line.endswith(wanted) and line[:1] not in (b"#", b"^"):
            return line.removesuffix(wanted).decode("latin-1")
    return ""


def _line(path: Path) -> str:
    return read_plain(path, MAX_TEXT_BYTES).decode("utf-8", "surrogateescape").strip("\n")


def _inside(path: Path, allowed: Sequence[Path]) -> bool:
    return any(path.is_relative_to(one) for one in allowed)
