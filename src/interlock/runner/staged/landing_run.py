"""Landing: write approved changes into the workspace, each completely or not at all (H-17).

A path whose file is not the agent's starting point is refused, and so is one whose staged file is not what was
approved. All steps may be repeated after a kill: an entry that already is as approved counts as landed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from interlock.runner.staged.batch import LandingBatch, batches
from interlock.runner.staged.entries import FileChange, Remark, below, entry, opened, split, status
from interlock.runner.staged.file_moves import (
    AFTERWARDS,
    NOT_ALONE,
    LandingRefused,
    check,
    go_on,
    gone,
    holds,
    move,
    take_away,
    temporary_name,
    tidy,
)


class LandingReport(NamedTuple):
    """The outcome of each change."""

    done: list[FileChange]
    refused: list[Remark]


def _nothing(_step: str) -> None:
    pass


def land(upper: Path, workspace: Path, changes: Iterable[FileChange], token: str,
         after: Callable[[str], None] = _nothing) -> LandingReport:
    """Write changes into the workspace, each directory before its content. `token` names this landing in its temporary
    files, the same when it is resumed. `after` is called after each step with its name. Raises OSError if a tree cannot
    be opened, or a directory cannot be synced."""
    report = LandingReport([], [])
    ordered = in_order(changes)
    with opened(upper) as source, opened(workspace) as root:
        for change in (one for one in ordered if one.new.kind != "file"):
            try:
                _land(source, root, change, token, after)
                report.done.append(change)
            except LandingRefused as refused:
                report.refused.append(Remark(change.path, str(refused)))
            except OSError as error:
                report.refused.append(Remark(change.path, f"it could not be written: {error.strerror}"))
        for files in batches(one for one in ordered if one.new.kind == "file"):
            batch = LandingBatch(source, root, token, after)
            batch.land(files)
            report.done.extend(batch.done)
            report.refused.extend(batch.refused)
        for directory in sorted({split(change.path)[0] for change in report.done}):
            _sync(root, directory)
            after("directory synced")
    return report


def _sync(root: int, directory: str) -> None:
    """Sync a directory once for everything that landed in it: until `land` returns, a kill means that it is repeated.
    If it is gone, this landing removed it, and its parent is synced. Raises OSError."""
    try:
        with below(root, directory) as parent:
            os.fsync(parent)
    except (FileNotFoundError, NotADirectoryError):
        return


def in_order(changes: Iterable[FileChange]) -> list[FileChange]:
    """Return removals first, the deepest before their parents; then directories, the shallow ones first; then files."""
    def place(change: FileChange) -> tuple[int, int, str]:
        depth = change.path.count("/")
        if change.new.kind == "absent":
            return 0, -depth, change.path
        return (1 if change.new.kind == "directory" else 2), depth, change.path

    return sorted(changes, key=place)


def chosen(changes: Sequence[FileChange], names: Iterable[str]) -> list[FileChange]:
    """Return the changes at or below the named paths, with the new directories that they need."""
    wanted = {name.strip("/") for name in names}
    picked = {change.path for change in changes if any(above in wanted for above in _upwards(change.path))}
    needed = {above for path in picked for above in _upwards(path)}
    return [change for change in changes if change.path in picked or (
        change.path in needed and change.new.kind == "directory" and change.base.kind != "directory")]


def _upwards(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _land(source: int, root: int, change: FileChange, token: str, after: Callable[[str], None]) -> None:
    """Land a change that is not a file's."""
    directory, name = split(change.path)
    try:
        with below(root, directory) as parent:
            temporary = temporary_name(token, change.path)
            go_on(parent, temporary, name, change)
            if entry(parent, name) == change.new:
                return
            check(parent, name, change.base)
            try:
                _put(source, parent, name, temporary, change, after)
            finally:
                tidy(parent, temporary)
    except (FileNotFoundError, NotADirectoryError) as error:
        if change.new.kind != "absent" or _is_swapped(root, directory):
            raise gone(directory) from error


def _is_swapped(root: int, directory: str) -> bool:
    """Return whether a link replaced a directory: it may lead out of this workspace."""
    parts = directory.split("/")
    for count, name in enumerate(parts):
        with below(root, "/".join(parts[:count])) as parent:
            found = status(parent, name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            return found is not None and stat.S_ISLNK(found.st_mode)
    return False


def _put(source: int, parent: int, name: str, temporary: str, change: FileChange, after: Callable[[str], None]) -> None:
    new, base = change.new, change.base
    if new.kind == "absent":
        if base.kind == "directory":
            if holds(parent, name):
                raise LandingRefused(NOT_ALONE)
            os.rmdir(name, dir_fd=parent)
        else:
            take_away(parent, temporary, name, base, after)
        after("removed")
        return
    if new.kind == "directory" and base.kind == "directory":
        _set_mode(parent, name, new.mode)
        after("mode set")
        return
    if new.kind == "directory":
        os.mkdir(temporary, 0o700, dir_fd=parent)
        os.chmod(temporary, new.mode, dir_fd=parent)
    else:
        _copy_link(source, parent, temporary, change)
    after("temporary written")
    move(parent, temporary, name, change, after)
    after("moved")


def _set_mode(parent: int, name: str, mode: int) -> None:
    """Set a directory's mode, regardless of its current one; never through a link."""
    directory = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{directory}").chmod(mode)
    finally:
        os.close(directory)


def _copy_link(source: int, parent: int, temporary: str, change: FileChange) -> None:
    directory, last = split(change.path)
    try:
        with below(source, directory) as above:
            target = os.readlink(last, dir_fd=above)
    except OSError as error:
        raise LandingRefused(AFTERWARDS) from error
    if hashlib.sha256(os.fsencode(target)).hexdigest() != change.new.sha256:
        raise LandingRefused(AFTERWARDS)
    os.symlink(target, temporary, dir_fd=parent)
