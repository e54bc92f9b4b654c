"""Resolve the paths of a request: only the runner can see its symbolic links (H-6)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from interlock.command.facts import programs
from interlock.command.facts.request import NOT_RESOLVED, AgentRequest, facts, local_path, tokens
from interlock.command.facts.shell import CommandLine
from interlock.command.policy.coverage import is_secret
from interlock.ports.agent import AgentQuestion

MAX_LOOKS = 10_000
"""Maximum number of file names that are resolved for one request."""
MAX_DIRECTORIES = 16
"""Directories that the `cd`s of a request may lead to."""
WAIT_S = 2.0
"""A file system that does not answer within this must not delay a question; no rule allows it then."""
_GLOB = frozenset("*?[")


class _TooMuch(Exception):
    """Not every path could be resolved."""


async def resolved_paths(question: AgentQuestion, workspace: str) -> dict[str, str]:
    """Map each path of a request to its real path, if they differ. Follows links as they are now. With a member
    NOT_RESOLVED others may be missing."""
    try:
        async with asyncio.timeout(WAIT_S):
            return await asyncio.to_thread(_resolve, question, workspace)
    except TimeoutError:
        return {NOT_RESOLVED: ""}


def _resolve(question: AgentQuestion, workspace: str) -> dict[str, str]:
    found = facts(AgentRequest(question.input_json, workspace, question.title, question.locations,
                               question.content_json,
                               question.described))
    resolver = _Resolver(workspace, found.directory)
    try:
        resolver.directory()
        for path in found.spelled:
            resolver.path(path)
        for line in found.read:
            resolver.enter(line)
        for line in found.read:
            for word in dict.fromkeys(_words(line)):
                resolver.word(word, is_pattern="glob" in line.marks and bool(_GLOB & set(word)))
    except _TooMuch:
        resolver.found[NOT_RESOLVED] = ""
    return resolver.found


def _words(line: CommandLine) -> Iterator[str]:
    """Yield every name that a line may use for a file: the words that a shell makes of it, and its parts as written."""
    yield from tokens(line.text)
    yield from line.targets
    for command in (*line.commands, *line.inner):
        for word in command.words:
            yield from programs.paths_in(word)


class _Resolver:
    """Resolves the names of one request, from each directory in which its commands may run."""

    def __init__(self, workspace: str, directory: str) -> None:
        self.found: dict[str, str] = {}
        self._workspace = os.path.normpath(workspace)
        self._directory = directory
        self._own = _joined(workspace, directory)
        self._directories = [self._own]
        self._looks = 0
        self._until = time.monotonic() + WAIT_S

    def directory(self) -> None:
        """Resolve the directory that the input names for its commands. Raises _TooMuch."""
        if self._directory:
            self._note(self._directory, [self._own])

    def enter(self, line: CommandLine) -> None:
        """Note the directories that a line's commands change to. Raises _TooMuch."""
        for command in line.commands:
            if programs.program(command.words) not in programs.CHANGE_DIRECTORY:
                continue
            for target in command.words[1:]:
                if _GLOB & set(target):
                    raise _TooMuch
                self._directories = list(dict.fromkeys(
                    [*self._directories, *(_joined(one, target) for one in self._directories)]))
        if len(self._directories) > MAX_DIRECTORIES:
            raise _TooMuch

    def path(self, path: str) -> None:
        """Resolve a path that a member of the input names. Raises _TooMuch."""
        self._note(path, [_joined(self._own, local_path(path))])

    def word(self, word: str, *, is_pattern: bool) -> None:
        """Resolve a word of a command, which may name several files by a pattern. Raises _TooMuch."""
        places = [_joined(one, word) for one in self._directories]
        if is_pattern:
            matches = [match for place in places for match in self._matches(place)]
            self._note(word, matches)
            self._note_secret(word, matches)
        elif "/" in word or any(self._exists(place) for place in places):
            self._note(word, places)

    def _note(self, name: str, places: list[str]) -> None:
        """Store the place that a name resolves to; of several places, one outside the workspace."""
        for place in places:
            self._look()
            try:
                real = os.path.realpath(place)
            except (OSError, ValueError):  # A NUL byte.
                continue
            if real == os.path.normpath(place):
                continue
            if name not in self.found or not _inside(real, self._workspace):
                self.found[name] = real
            if not _inside(real, self._workspace):
                return

    def _note_secret(self, pattern: str, matches: list[str]) -> None:
        """Store a file of secrets that a pattern matches, unless the pattern leads outside the workspace anyway: its
        text does not show that name."""
        if pattern in self.found and not _inside(self.found[pattern], self._workspace):
            return
        secret = next((match for match in matches if is_secret(_below(match, self._workspace))), None)
        if secret is not None:
            self.found[pattern] = secret

    def _matches(self, place: str) -> list[str]:
        """Return the names that a shell may make of a pattern, and possibly more. Raises _TooMuch."""
        found = ["/"]
        for part in place.split("/"):
            if "**" in part:  # One directory, or with some shells any depth.
                raise _TooMuch
            if _GLOB & set(part):
                # What brackets match differs between shells.
                wanted = part.partition("[")[0] + "*" if "[" in part else part
                found = [_joined(one, name) for one in found for name in self._names(one) if fnmatchcase(name, wanted)]
            else:
                found = [_joined(one, part) for one in found]
        return [one for one in found if self._exists(one)]

    def _names(self, directory: str) -> Iterator[str]:
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    self._look()
                    yield entry.name
        except (OSError, ValueError):
            return

    def _exists(self, place: str) -> bool:
        self._look()
        return os.path.lexists(place)

    def _look(self) -> None:
        self._looks += 1
        if self._looks > MAX_LOOKS or time.monotonic() > self._until:
            raise _TooMuch


def _joined(directory: str, name: str) -> str:
    """Return a name as resolved from a directory; its `..` are kept, since a link may precede them."""
    try:
        return str(Path(directory) / Path(name).expanduser())
    except RuntimeError:  # An unknown user's home.
        return str(Path(directory) / name)


def _below(path: str, directory: str) -> str:
    return os.path.normpath(path).removeprefix(directory.rstrip("/") + "/")


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
