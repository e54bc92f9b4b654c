"""Processes of the demonstration: started in groups of their own, and ended with all that they hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

STOP_S = 8.0
"""From SIGTERM to SIGKILL: more than a runner needs to end its agents (A-4)."""
LOG_LINES = 12
"""So much of a process's log is shown when the demonstration fails."""


class NotStarted(Exception):
    """A process ended before it was ready; the text is one sentence."""


class Running:
    """One process. `name` is how the story calls it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, arguments: list[str], log: Path, environment: dict[str, str]) -> Running:
        """Start `python -m interlock.demo.process`; it ends when its standard input does."""
        with log.open("wb") as errors:
            # A group of its own: Ctrl-C reaches the demonstration alone, which then ends the others in order.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "interlock.demo.process", *arguments, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=errors, env=environment, start_new_session=True,
            )
        return cls(name, process, log)

    async def first_line(self) -> str:
        """Wait for the first line of its output. Raises NotStarted."""
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        if not line:
            raise NotStarted(f"The {self.name} ended before it was ready: {self.last_words(1) or 'it said nothing'}")
        return line

    async def ended(self) -> int:
        """Wait for its end; gives the exit status."""
        return await self._process.wait()

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
