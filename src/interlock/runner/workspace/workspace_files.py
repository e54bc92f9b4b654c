"""Find files in a workspace that would configure its agent, before the agent starts (H-13).

The search is bounded: a few places in the workspace and the directories above it in the same repository. Its result is
encoded once, as the bytes that a person is shown and that a yes covers; the agent starts only if an open names their
digest. The files may change between the search and the agent's own reading: see the threat model.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.agents.workspace_effects import effects
from interlock.agents.workspace_files import FilePlace, places_read
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.runner.process.descriptors import is_shortage
from interlock.runner.turn.blocks import sound

MAX_FILES = 200
"""Files that are listed; an agent whose workspace has more is not started."""
MAX_FILE_BYTES = 1_000_000
"""A larger file is not read: it is identified by its size and time."""
MAX_BYTES = 8_000_000
"""Limit of all files together; further ones are not read."""
MAX_DEPTH = 6
"""Depth below a place."""
MAX_ABOVE = 32
"""Directories above the workspace that are searched."""
MAX_LINES = 400
"""Lines about the effects of all files together."""
WAIT_S = 10.0
"""Limit of the search: if the file system takes longer, the agent is not started."""


class TooMany(Exception):
    """The search was not finished; the text is one sentence with the remedy."""


class AgentFiles(NamedTuple):
    """The files that configure the agent. `encoded` is WorkspaceFiles as JSON: the bytes that a yes covers."""

    encoded: bytes
    files: int

    @property
    def digest(self) -> str:
        """Return SHA-256, hex."""
        return hashlib.sha256(self.encoded).hexdigest()


async def look(agent_id: str, spec: AgentSpec, workspace: str, roots: Sequence[str], environment: Mapping[str, str]
               ) -> AgentFiles | None:
    """Find the files that configure the agent in `workspace`; None if there are none. Raises TooMany."""
    places = places_read(spec, environment)
    if not places:
        return None
    try:
        async with asyncio.timeout(WAIT_S):
            return await asyncio.to_thread(find, agent_id, places, Path(workspace), roots, environment.get("HOME", ""))
    except TimeoutError:
        raise TooMany(f"The files of {workspace} that configure the agent could not be read within {WAIT_S:.0f} s; try "
                      "again once the file system answers.") from None


def find(agent_id: str, places: Sequence[FilePlace], workspace: Path, roots: Sequence[str],
         home: str) -> AgentFiles | None:
    """Do the same in this thread."""
    found = {path: (file, place) for directory in _directories(workspace, roots, home)
             for path, file, place in _files(directory, places, workspace)}
    if not found:
        return None
    left, lines = MAX_BYTES, MAX_LINES
    files: list[p.WorkspaceFile] = []
    for path in sorted(found):
        file, place = found[path]
        read = _read(path, file, place, left)
        left -= read.size if read.unread is None else 0
        if len(read.does) > lines:
            read = msgspec.structs.replace(read, does=["does more than is shown: read the file"])
        lines -= len(read.does)
        files.append(read)
    report = p.WorkspaceFiles(agent_id=agent_id, directory=sound(str(workspace)), files=files)
    return AgentFiles(msgspec.json.encode(report), len(files))


def _directories(workspace: Path, roots: Sequence[str], home: str) -> list[Path]:
    """Return the workspace and the directories above it: up to the repository's top, else up to the runner's root.
    Never HOME itself, which contains the user's own settings."""
    above = [workspace, *workspace.parents][:MAX_ABOVE]
    top = next((one for one in above if os.path.lexists(one / ".git")), None)
    if top is None:
        tops = [Path(root).resolve() for root in roots]
        top = next((one for one in reversed(above) if one in tops), workspace)
    upto = above[:above.index(top) + 1]
    own = os.path.realpath(home) if home else ""
    return [one for one in upto if str(one) != own]


def _files(directory: Path, places: Sequence[FilePlace], workspace: Path) -> Iterator[tuple[str, Path, FilePlace]]:
    """Yield each file of the places in one directory, with its path relative to the workspace."""
    count = 0
    for place in places:
        start = directory / place.path
        for file in _below(start, 0) if place.path.endswith("/") else [start] if os.path.lexists(start) else ():
            count += 1
            if count > MAX_FILES:
                raise TooMany(f"More than {MAX_FILES} files below {directory} configure the agent, too many to ask "
                              "about; remove what it does not need, or set `workspace_files` of the agent.")
            yield sound(os.path.relpath(file, workspace)), file, place


def _below(directory: Path, depth: int) -> Iterator[Path]:
    """Yield everything that is not a directory below one; links are followed, as agents do. What cannot be listed is
    one entry."""
    try:
        entries = sorted(os.scandir(directory), key=lambda one: one.name)
    except FileNotFoundError:
        if os.path.lexists(str(directory).rstrip("/")):
            yield directory  # A link without a target yet.
        return
    except OSError as error:  # It is a file, or not accessible.
        if is_shortage(error):
            raise
        yield directory
        return
    for one in entries:
        path = Path(one.path)
        if _is_directory(one):
            if depth < MAX_DEPTH:
                yield from _below(path, depth + 1)
            else:
                yield path
        else:
            yield path


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _read(path: str, file: Path, place: FilePlace, left: int) -> p.WorkspaceFile:
    leads_to = sound(os.path.realpath(file)) if file.is_symlink() else None
    about = p.WorkspaceFile(path=path, could=list(place.could), leads_to=leads_to)
    try:
        # Without O_NONBLOCK a FIFO in the repository would block the start.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if is_shortage(error):  # That is not about the file: the start fails, as it would a moment later.
            raise
        return _unread(about, f"it cannot be opened: {error.strerror}")
    try:
        seen = os.fstat(descriptor)
        mark = f"of {seen.st_size} bytes, inode {seen.st_ino}, changed at {seen.st_mtime_ns} ns"
        if not stat.S_ISREG(seen.st_mode):
            return _unread(about, f"it is not a regular file, {mark}")
        if seen.st_size > min(MAX_FILE_BYTES, left):
            return _unread(about, f"it is too large, {mark}", seen.st_size)
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return _unread(about, f"it cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES:
        return _unread(about, f"it grew while it was read, {mark}", len(content))
    return msgspec.structs.replace(about, does=effects(path, content), size=len(content),
                                   sha256=hashlib.sha256(content).hexdigest())


def _unread(about: p.WorkspaceFile, why: str, size: int = 0) -> p.WorkspaceFile:
    return msgspec.structs.replace(about, unread=why, size=size)
