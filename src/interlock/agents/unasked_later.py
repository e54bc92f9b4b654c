"""Files of a workspace that make a tool run programs later without asking: hooks and settings (H-17).

People are asked once whether staged changes land, but not about what such a file starts afterwards, when the user
commits, opens an editor or starts an agent. So the question marks them. This module knows them by their path;
`git_programs` finds those that git's settings name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from interlock.agents.workspace_files import ANYTHING, READS

_GIT = "git reads it: settings can name programs that git runs"
_HOOK = "git runs it as a hook"
_HOOKS = "it names programs that git's hooks run, if its tool is installed here"
_PLACES: Mapping[str, str] = {
    ".git": "git takes another repository's hooks and settings from it",
    ".git/hooks/": _HOOK,
    ".git/config": _GIT,
    ".git/config.worktree": _GIT,
    ".git/commondir": _GIT,
    ".husky/": _HOOK,
    ".huskyrc": _HOOKS,
    ".huskyrc.js": _HOOKS,
    ".huskyrc.json": _HOOKS,
    ".lefthook/": _HOOK,
    ".lefthook.yml": _HOOKS,
    ".overcommit.yml": _HOOKS,
    ".pre-commit-config.yaml": _HOOKS,
    "lefthook.json": _HOOKS,
    "lefthook.toml": _HOOKS,
    "lefthook.yaml": _HOOKS,
    "lefthook.yml": _HOOKS,
    "lefthook-local.yml": _HOOKS,
    ".githooks/": _HOOK,
    ".vscode/tasks.json": "an editor runs its tasks, some when the folder is opened",
    ".vscode/settings.json": "an editor reads it: settings can name programs that it runs",
}
_INNER = (".git/modules/", ".git/worktrees/")
"""Prefixes of repositories, with hooks and settings of their own."""
_SETTINGS = frozenset({"config", "config.worktree", "commondir", "gitdir"})


def _agents() -> dict[str, str]:
    """Return the agents' places, each with its reader and its possible effects."""
    readers: dict[str, list[str]] = defaultdict(list)
    for name, reads in READS.items():
        for place in reads.places:
            readers[place.path].append(name)
    return {place.path: f"it configures {', '.join(sorted(readers[place.path]))}: {', '.join(place.could)}"
            for place in ANYTHING.places}


def _by_first() -> dict[str, list[tuple[list[str], bool, str]]]:
    found: dict[str, list[tuple[list[str], bool, str]]] = defaultdict(list)
    for place, why in {**_agents(), **_PLACES}.items():
        parts = place.rstrip("/").casefold().split("/")
        found[parts[0]].append((parts, place.endswith("/"), why))
    return found


_KNOWN = _by_first()


def unasked_later(path: str, kind: str) -> str | None:
    """Return why a file or a link at a path makes a tool run programs unasked, None if it does not. `path` is relative
    to the workspace; a tool may be started in any directory of it, so each place counts at any depth, in any case."""
    if kind not in ("file", "link"):
        return None
    parts = path.casefold().split("/")
    for start, first in enumerate(parts):
        rest = parts[start:]
        for place, is_directory, why in _KNOWN.get(first, ()):
            if _is_at(rest, place, kind, is_directory=is_directory):
                return why
    return _inner(parts)


def _is_at(path: list[str], place: list[str], kind: str, *, is_directory: bool) -> bool:
    if path == place or (is_directory and path[:len(place)] == place):
        return True
    # A link in place of a directory exposes what its target contains.
    return kind == "link" and place[:len(path)] == path


def _inner(parts: list[str]) -> str | None:
    path = "/".join(["", *parts])
    for place in _INNER:
        _, found, rest = path.partition(f"/{place}")
        names = rest.split("/")
        if found and "hooks" in names[:-1]:
            return _HOOK
        if found and names[-1] in _SETTINGS:
            return _GIT
    return None
