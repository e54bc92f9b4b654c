"""Processes of the demonstration: started in groups of their own, and ended with all that they hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

STOP_S = 8.0
"""From SIGTERM to SIGKILL: more than a runner needs to end its agents (A-4)."""
LOG_LINES = 12
"""So much of a process's log is shown when the demonstration fails."""


class NotStarted(Exception):
    """A process ended before it was ready; the text is one sentence."""


class ChildProcess:
    """One process. `name` is how the story calls it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, arguments: list[str], log: Path, environment: dict[str, str]) -> ChildProcess:
        """Start `interlock gateway` or `interlock runner`, as a person would; it ends when its standard input does."""
        with log.open("wb") as errors:
            # A group of its own: Ctrl-C reaches the demonstration alone, which then ends the others in order.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "interlock", *arguments, "--with-parent", stdin=asyncio.subprocess.PIPE,
                stdout=errors, stderr=errors, cwd=log.parent, env=environment, start_new_session=True,
            )
        return cls(name, process, log)

    async def ready(self, awaited: Awaitable[T]) -> T:
        """Wait for what tells that it is ready. Raises NotStarted when it ends instead."""
        waiting = asyncio.ensure_future(awaited)
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                said = self.last_words(1) or "it said nothing"
                raise NotStarted(f"The {self.name} ended before it was ready: {said}")
            return waiting.result()
        finally:
            waiting.cancel()
            ended.cancel()

    def last_words(self, lines: int = LOG_LINES) -> str:
        """Give the end of its log."""
        text = self._log.read_text("utf-8", "replace") if self._log.exists() else ""
        return "\n".join(text.strip().splitlines()[-lines:])

    async def stop(self) -> int:
        """End it, and return when it is gone; gives the exit status."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        return await self._process.wait()
