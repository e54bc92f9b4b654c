"""Open paths of the workspace: symbolic links are resolved first, nothing outside is opened, and a change between the
check and the opening is detected (A-1)."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ToolFailed(Exception):
    """A tool failed; the text is one sentence for the model."""


class Workspace:
    """A workspace with a part that is hidden from the agent (H-15). `hidden` are absolute, links resolved."""

    def __init__(self, root: str, hidden: Sequence[str] = ()) -> None:
        self._root = Path(root)
        self.hidden = tuple(Path(path) for path in hidden)

    def resolve(self) -> Path:
        """Return its directory, links resolved."""
        return self._root.resolve()


Root = Path | Workspace
"""A workspace, with or without a hidden part."""


def is_hidden(workspace: Root, place: Path) -> bool:
    """Return whether a place, links resolved, is hidden from the agent."""
    return isinstance(workspace, Workspace) and any(place.is_relative_to(hidden) for hidden in workspace.hidden)


def refuse_hidden(workspace: Root, place: Path) -> None:
    """Raise ToolFailed for a place that is hidden from the agent."""
    if is_hidden(workspace, place):
        raise ToolFailed(f"{shown(workspace, place)} is hidden from agents.")


def resolved(workspace: Root, named: str) -> Path:
    """Return the place of a path, links resolved. Raises ToolFailed for one outside the workspace."""
    if "\0" in named:
        raise ToolFailed("A path must not contain a zero byte.")
    root = workspace.resolve()
    try:
        place = (root / (named or ".")).resolve()
    except (OSError, RuntimeError) as error:
        raise ToolFailed(f"The path {named!r} cannot be resolved: {error}.") from None
    if place != root and root not in place.parents:
        raise ToolFailed(f"The path {named!r} lies outside the workspace {root}; only what is inside can be reached.")
    refuse_hidden(workspace, place)
    return place


def shown(workspace: Root, place: Path) -> str:
    """Return a place as the model sees it: relative to the workspace."""
    return place.relative_to(workspace.resolve()).as_posix()


@contextmanager
def opened(workspace: Root, place: Path, flags: int) -> Generator[int]:
    """Open a resolved place, step by step from the workspace, following no link: one that was created after `resolved`
    is refused. Raises ToolFailed."""
    refuse_hidden(workspace, place)
    parts = place.relative_to(workspace.resolve()).parts
    directory = -1
    try:
        directory = os.open(workspace.resolve(), DIRECTORY)
        for part in parts[:-1]:
            if flags & os.O_CREAT:
                _made(part, directory)
            directory, above = os.open(part, DIRECTORY, dir_fd=directory), directory
            os.close(above)
        # A pipe without a writer must not block the tool: it is opened without waiting, and refused by its kind.
        descriptor = os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644,
                             dir_fd=directory)
    except OSError as error:
        raise ToolFailed(f"{shown(workspace, place) or '.'}: {error.strerror}.") from None
    finally:
        if directory >= 0:
            os.close(directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _made(part: str, directory: int) -> None:
    try:
        os.mkdir(part, dir_fd=directory)
    except FileExistsError:
        return
