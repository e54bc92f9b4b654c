"""Find staged changes that make a tool run programs later without asking: by their path, and by git's settings (H-17).
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interlock.agents.git_programs import GitPrograms, GitSetting, new_programs, settings
from interlock.agents.unasked_later import unasked_later
from interlock.runner.staged.entries import FILE, FileChange, below, opened, split

MAX_REPOSITORIES = 16
"""Repositories of one workspace whose settings are read, the outermost first."""
MAX_INCLUDED = 16
"""Staged files of one repository that settings include as more settings."""
MAX_SETTINGS_BYTES = 256 * 1024
"""A larger file of settings or attributes is not read."""
GIT_TIMEOUT_S = 5.0
_ELSEWHERE = frozenset({"GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_WORK_TREE"})
"""Variables that make git read another repository."""
_SETTINGS = (".git/config", ".git/config.worktree")
_ATTRIBUTES = (".gitattributes", ".git/info/attributes")


def marks(changes: Sequence[FileChange], upper: Path, workspace: Path) -> dict[str, str]:
    """Return, by path, why a change makes a tool run programs unasked. Blocks; runs git, which only reads its settings
    and starts nothing. Never raises: without git, only paths count."""
    present = [change for change in changes if change.new.kind in ("file", "link")]
    found = {change.path: why for change in present if (why := unasked_later(change.path, change.new.kind))}
    with suppress(OSError), opened(upper) as above, opened(workspace) as under:
        for directory in _repositories(present, above, under):
            inside = [one for one in present if not directory or one.path.startswith(f"{directory}/")]
            found |= _Repository(above, under, str(workspace), directory).marks(inside)
    return found


class _Repository:
    """One repository's settings as they are, and as they would be after everything staged has landed."""

    def __init__(self, above: int, under: int, workspace: str, directory: str) -> None:
        self._above = above
        self._under = under
        self._workspace = workspace
        self._prefix = f"{directory}/" if directory else ""
        self._place = posixpath.join(workspace, directory).rstrip("/")
        listed = _git(["-C", self._place, "config", "--list", "--null", "--show-origin", "--includes"])
        top = _git(["-C", self._place, "rev-parse", "--show-toplevel"]).decode("utf-8", "surrogateescape").rstrip("\n")
        self._found = settings(listed, self._place, origins=True)
        self._top = self._place if directory or not top else top

    def marks(self, changes: Sequence[FileChange]) -> dict[str, str]:
        found: dict[str, str] = {}
        staged = {change.path.casefold(): change for change in changes}
        own = {self._prefix.casefold() + name for name in _SETTINGS}
        waiting = [change.path for path, change in staged.items() if path in own]
        for path in waiting:  # Included files are appended.
            new = self._settings(self._above, path)
            if (why := new_programs(self._settings(self._under, path), new)) is not None:
                found[path] = why
            self._found += new
            named = GitPrograms(new, self._top, _home()).files
            more = [staged[inside].path for file in named if (inside := self._inside(file)) in staged]
            waiting += [one for one in more if one not in waiting][:MAX_INCLUDED - len(waiting)]
        programs = GitPrograms(self._found, self._top, _home())
        for change in changes:
            path = change.path
            place = posixpath.join(self._workspace, path)
            why = programs.why(place, change.new.kind)
            if why is None and (path.casefold().endswith(_ATTRIBUTES) or place.casefold() in programs.attributes):
                why = programs.switched_on(_text(self._under, path), _text(self._above, path))
            if why is not None:
                found.setdefault(path, why)
        return found

    def _inside(self, file: str) -> str:
        """Return the path in the workspace, in lower case, of a file that settings name."""
        return posixpath.relpath(file, self._workspace.casefold())

    def _settings(self, root: int, path: str) -> list[GitSetting]:
        text = _text(root, path)
        listed = _git(["config", "--file", "-", "--no-includes", "--list", "--null"], text) if text else b""
        return settings(listed, posixpath.join(self._workspace, split(path)[0]))


def _repositories(changes: Sequence[FileChange], above: int, under: int) -> list[str]:
    """Return the directories of repositories above staged changes, the outermost first; "" is always included, since
    the workspace may be inside a larger one."""
    places = {""}
    for change in changes:
        parts = change.path.split("/")
        places |= {"/".join(parts[:count]) for count in range(1, len(parts))}
    found = [""]
    for place in sorted(places - {""}, key=lambda one: (one.count("/"), one)):
        if len(found) < MAX_REPOSITORIES and any(_has(root, place) for root in (above, under)):
            found.append(place)
    return found


def _home() -> str:
    return str(Path.home())


def _has(root: int, place: str) -> bool:
    with suppress(OSError), below(root, place) as directory:
        os.stat(".git", dir_fd=directory, follow_symlinks=False)
        return True
    return False


def _text(root: int, path: str) -> str:
    """Return a regular file's text, without following a link; "" if it is not one or is too large."""
    directory, name = split(path)
    with suppress(OSError), below(root, directory) as parent, \
            os.fdopen(os.open(name, FILE, dir_fd=parent), "rb") as file:
        text = file.read(MAX_SETTINGS_BYTES + 1)
        return text.decode("utf-8", "surrogateescape") if len(text) <= MAX_SETTINGS_BYTES else ""
    return ""


def _git(arguments: Sequence[str], text: str = "") -> bytes:
    """Return git's output, up to where it fails; nothing if git is missing."""
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        # git would refuse to read a workspace that belongs to another user.
        ran = subprocess.run(["git", "-c", "safe.directory=*", *arguments], input=os.fsencode(text),
                             capture_output=True, timeout=GIT_TIMEOUT_S, check=False, env=environment, cwd="/")
    except (OSError, subprocess.SubprocessError):
        return b""
    return ran.stdout
