"""Resolve the paths of a request: only the runner can see its symbolic links (H-6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from interlock.command.facts.request import AgentRequest, facts, tokens
from interlock.ports.agent import AgentQuestion

MAX_LINKS = 200
"""Paths of one request that are resolved; further ones are judged by their text alone."""
WAIT_S = 2.0
"""A file system that does not answer within this must not delay a question; its paths are judged by their text."""


async def resolved_paths(question: AgentQuestion, workspace: str) -> dict[str, str]:
    """Map each path of a request to its real path, if they differ. Follows links as they are now."""
    try:
        async with asyncio.timeout(WAIT_S):
            return await asyncio.to_thread(_resolve, question, workspace)
    except TimeoutError:
        return {}


def _resolve(question: AgentQuestion, workspace: str) -> dict[str, str]:
    found = facts(AgentRequest(question.input_json, workspace, question.title, question.locations,
                               question.content_json,
                               question.described))
    directory = Path(workspace) / found.directory
    words = (word for line in found.lines for word in tokens(line) if "/" in word or os.path.lexists(directory / word))
    named = list(dict.fromkeys([*found.paths, *words]))[:MAX_LINKS]
    return dict(_real(named, directory))


def _real(named: Iterable[str], directory: Path) -> Iterable[tuple[str, str]]:
    for path in named:
        try:
            whole = os.path.normpath(directory / Path(path).expanduser())
            real = os.path.realpath(whole)
        except (OSError, RuntimeError, ValueError):  # A loop of links, an unknown user's home, a NUL byte.
            continue
        if real != whole:
            yield path, real
