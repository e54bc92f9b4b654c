"""Compare a workspace with its agent's version of it, read from an overlay's upper directory (H-17)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.runner.staged.entries import ABSENT, FileChange, FileEntry, Remark, below, entry, names, opened, status

_OPAQUE = "user.overlay.opaque"
"""On a directory of the upper tree: hides what the workspace has there, except what the upper tree has, too."""
MAX_DEPTH = 128
"""Depth below a workspace; deeper entries are left out, and listed as such."""
_encoder = msgspec.json.Encoder()


class Difference(NamedTuple):
    """The agent's changes, sorted by path, and those that can never land. The caller stores `bases`: the state of each
    path that the agent touched when it first did."""

    changes: list[FileChange]
    left_out: list[Remark]
    bases: dict[str, FileEntry]

    @property
    def digest(self) -> str:
        """Return SHA-256 over every change, hex: a yes covers this."""
        return digest_of(self.changes)


def digest_of(changes: list[FileChange]) -> str:
    """Return SHA-256 over changes in their order, hex."""
    return hashlib.sha256(_encoder.encode(changes)).hexdigest()


def difference(upper: Path, lower: Path, bases: Mapping[str, FileEntry], since_ns: int) -> Difference:
    """Compare the trees. `bases` is the last comparison's; a path that it lacks was touched by the agent after
    `since_ns`, in nanoseconds since the epoch: if the user's file is newer, the agent's starting point is unknown.
    Raises OSError if one of the two trees cannot be read."""
    comparison = _Comparison(bases, since_ns)
    with opened(upper) as above, opened(lower) as under:
        comparison.directory(above, under, "", 0)
    comparison.changes.sort(key=lambda change: change.path)
    return Difference(comparison.changes, comparison.left_out, comparison.bases)


class _Comparison:
    def __init__(self, bases: Mapping[str, FileEntry], since_ns: int) -> None:
        self._known = bases
        self._since_ns = since_ns
        self.changes: list[FileChange] = []
        self.left_out: list[Remark] = []
        self.bases: dict[str, FileEntry] = {}

    def directory(self, above: int, under: int | None, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.left_out.append(Remark(prefix.rstrip("/"), f"it lies more than {MAX_DEPTH} directories deep"))
            return
        here = names(above)
        for name in here:
            path = prefix + name
            try:
                path.encode()
            except UnicodeEncodeError:
                self.left_out.append(Remark(os.fsencode(path).decode("utf-8", "backslashreplace"),
                                            "its name is not UTF-8"))
                continue
            try:
                self._name(above, under, name, path, depth)
            except OSError as error:
                self.left_out.append(Remark(path, f"it cannot be read: {error.strerror}"))
        if under is not None and opaque(above):
            for name in sorted(set(names(under)) - set(here)):
                self._removed(under, name, prefix + name)

    def _name(self, above: int, under: int | None, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
            if under is not None:
                self._removed(under, name, path)
            return
        was = status(under, name) if under is not None else None
        both = was is not None and stat.S_ISDIR(was.st_mode)
        if stat.S_ISDIR(found.st_mode):
            self._changed(under, name, path, was, entry(above, name, found))
            with ExitStack() as stack:
                inner = stack.enter_context(below(above, name))
                beneath = stack.enter_context(below(under, name)) if both and under is not None else None
                self.directory(inner, beneath, f"{path}/", depth + 1)
            return
        new = entry(above, name, found)
        if new.kind == "other":
            self.left_out.append(Remark(path, "it is neither a file, a link nor a directory"))
            return
        if both and under is not None:
            self._emptied(under, name, path)
        self._changed(under, name, path, was, new)

    def _removed(self, under: int, name: str, path: str) -> None:
        was = status(under, name)
        if was is None:
            self.bases[path] = ABSENT
            return
        if stat.S_ISDIR(was.st_mode):
            self._emptied(under, name, path)
        self._changed(under, name, path, was, ABSENT)

    def _emptied(self, under: int, name: str, path: str) -> None:
        with below(under, name) as beneath:
            for inner in names(beneath):
                self._removed(beneath, inner, f"{path}/{inner}")

    def _changed(self, under: int | None, name: str, path: str, was: os.stat_result | None, new: FileEntry) -> None:
        current = ABSENT if under is None or was is None else entry(under, name, was)
        known = self._known.get(path)
        if known is None and current != new and was is not None and current.kind != "directory" \
                and was.st_ctime_ns > self._since_ns:
            known = msgspec.structs.replace(current, kind="unknown")
        base = self.bases[path] = known if known is not None else current
        if new not in (current, base):
            if new.kind == "file" and new.mode & (stat.S_ISUID | stat.S_ISGID):
                self.left_out.append(Remark(path, "anyone who runs it would become its owner (set-user-id)"))
                return
            self.changes.append(FileChange(path, base, new))


def opaque(directory: int) -> bool:
    """Return whether a directory of the upper tree hides what the workspace has there."""
    try:
        return os.getxattr(directory, _OPAQUE) == b"y"
    except OSError:
        return False
