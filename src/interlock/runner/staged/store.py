"""One session's staged changes on disk: the overlay's directories, and the starting point of each file.

Everything that must survive a kill is written to a temporary file, synced and renamed (H-17).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from interlock.durable_files import replace_file
from interlock.runner.staged.difference import Difference, difference, digest_of, opaque
from interlock.runner.staged.entries import FileChange, FileEntry, Remark, below, names, opened, remove, split, status
from interlock.runner.staged.landing_run import LandingReport, chosen, land

NAME_CHARS = 32


class _Kept(msgspec.Struct):
    """`bases.json`."""

    session_id: str
    workspace: str
    since_ns: int
    bases: dict[str, FileEntry] = {}


class _Landing(msgspec.Struct):
    """`landing.json`: the changes that a yes covers, written before the first step."""

    digest: str
    changes: list[FileChange]


class Staged:
    """One session's staged changes in one workspace. Its methods block."""

    def __init__(self, root: Path, session_id: str, workspace: str) -> None:
        """`root` is the runner's directory for all sessions; nothing is created yet."""
        name = hashlib.sha256(f"{session_id}\0{workspace}".encode()).hexdigest()[:NAME_CHARS]
        self._session_id = session_id
        self.workspace = Path(workspace)
        self.directory = root / name
        self.upper = self.directory / "upper"
        self.work = self.directory / "work"
        self._bases = self.directory / "bases.json"
        self._journal = self.directory / "landing.json"

    @property
    def exists(self) -> bool:
        """Return whether the session ever staged changes here."""
        return self._bases.exists()

    def moment(self) -> int:
        """Return the current time of the clock that stamps files, in nanoseconds since the epoch. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = self.directory / "stamp"
        stamp.write_bytes(b"")
        return stamp.stat().st_ctime_ns

    def prepare(self, now_ns: int) -> None:
        """Create the overlay's directories before an agent starts, and drop files that equal the workspace's, so that
        the agent sees the user's later edits of them. No agent may run. Raises OSError."""
        for directory in (self.upper, self.work):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The overlay shows the mode of its upper directory as the workspace's own.
        self.upper.chmod(self.workspace.stat().st_mode & 0o7777)
        if not self.exists:
            self._keep(_Kept(self._session_id, str(self.workspace), now_ns))
        found = self.look(now_ns)
        with opened(self.upper) as above:
            changed = {change.path for change in found.changes} | {one.path for one in found.left_out}
            _drop_unchanged(above, "", changed)

    def look(self, now_ns: int) -> Difference:
        """Compare, and store the starting point of each file that the agent touched. Raises OSError."""
        kept = self._read()
        found = difference(self.upper, self.workspace, kept.bases, kept.since_ns)
        self._keep(_Kept(self._session_id, str(self.workspace), now_ns, found.bases))
        return found

    def land(self, changes: Sequence[FileChange], after: Callable[[str], None] = lambda _step: None) -> LandingReport:
        """Land approved changes. From the first line on, `resume` completes them after a kill. Raises OSError."""
        replace_file(self._journal, msgspec.json.encode(_Landing(digest_of(list(changes)), list(changes))))
        after("journal written")
        return self._land(after)

    def resume(self) -> LandingReport | None:
        """Finish the landing that a kill interrupted; None if there is none. Raises OSError."""
        return self._land(lambda _step: None) if self._journal.exists() else None

    def reported(self) -> None:
        """Forget the last landing, once its outcome is durable elsewhere."""
        self._journal.unlink(missing_ok=True)

    def discard(self, paths: Iterable[str] | None, now_ns: int) -> LandingReport:
        """Discard staged changes at or below `paths`, or all. No agent may run. Raises OSError."""
        found = self.look(now_ns)
        if paths is None:
            for directory in (self.upper, self.work):
                remove_tree(directory)
                directory.mkdir(mode=0o700)
            self._keep(_Kept(self._session_id, str(self.workspace), now_ns))
            return LandingReport(found.changes, [])
        report = LandingReport([], [])
        with opened(self.upper) as above:
            for name in dict.fromkeys(name.strip("/") for name in paths):
                changes = [one for one in found.changes if one.path == name or one.path.startswith(f"{name}/")]
                why = _put_back(above, name) if changes else "nothing of it is staged"
                if why is not None:
                    report.refused.append(Remark(name, why))
                    continue
                report.done.extend(changes)
                for change in changes:
                    found.bases.pop(change.path, None)
        self._keep(_Kept(self._session_id, str(self.workspace), now_ns, found.bases))
        return report

    def forget(self) -> bool:
        """Remove all of it if nothing is staged; return whether it is gone. Raises OSError."""
        if self.exists and any(self.upper.iterdir()):
            return False
        remove_tree(self.directory)
        return True

    def _land(self, after: Callable[[str], None]) -> LandingReport:
        landing = msgspec.json.decode(self._journal.read_bytes(), type=_Landing)
        report = land(self.upper, self.workspace, landing.changes, landing.digest, after)
        kept = self._read()
        kept.bases.update({change.path: change.new for change in report.done})
        self._keep(_Kept(self._session_id, str(self.workspace), kept.since_ns, kept.bases))
        after("bases kept")
        return report

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self._bases.read_bytes(), type=_Kept)
        except msgspec.MsgspecError as error:
            raise OSError(5, f"{self._bases} cannot be read") from error

    def _keep(self, kept: _Kept) -> None:
        replace_file(self._bases, msgspec.json.encode(kept))


def picked(changes: Sequence[FileChange], paths: Iterable[str] | None) -> list[FileChange]:
    """Return the changes that land: all, or the named ones with the directories that they need."""
    return list(changes) if paths is None else chosen(changes, paths)


def remove_tree(directory: Path) -> None:
    """Remove a directory of the runner's and all below it. Raises OSError."""
    with suppress(FileNotFoundError), opened(directory.parent) as parent:
        remove(parent, directory.name)


def _drop_unchanged(above: int, prefix: str, changed: set[str]) -> None:
    """Remove files of the upper tree that are not changes. The content of an opaque directory stays: without it the
    workspace's file would be hidden."""
    if opaque(above):
        return
    for name in names(above):
        path = prefix + name
        found = status(above, name)
        if found is None:
            continue
        try:
            with below(above, name) as inner:
                _drop_unchanged(inner, f"{path}/", changed)
        except NotADirectoryError:
            if path not in changed and not any(one.startswith(f"{path}/") for one in changed):
                os.unlink(name, dir_fd=above)


def _put_back(above: int, path: str) -> str | None:
    """Make the agent see the workspace's own entry at and below a path; return why not, if that cannot be done for this
    path alone."""
    directory, name = split(path)
    parts = directory.split("/") if directory else []
    try:
        for count in range(len(parts) + 1):
            with below(above, "/".join(parts[:count])) as parent:
                if opaque(parent):
                    return f"the directory {'/'.join(parts[:count])} was replaced; discard that"
        with below(above, directory) as parent:
            remove(parent, name)
    except (FileNotFoundError, NotADirectoryError):
        return "a directory above it was deleted or replaced; discard that"
    return None
