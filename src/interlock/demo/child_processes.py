"""Processes of the demonstration: started in separate groups, and ended with all their descendants."""

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
"""Time from SIGTERM to SIGKILL: more than a runner needs to end its agents (A-4)."""
LOG_LINES = 12
"""Lines of a process's log that are shown when the demonstration fails."""


class NotStarted(Exception):
    """A process ended before it was ready; the text is one sentence."""


class ChildProcess:
    """One process. `name` is its name in the messages."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, arguments: list[str], log: Path, environment: dict[str, str]) -> ChildProcess:
        """Start `interlock gateway` or `interlock runner`, as on the command line; it ends when its standard input
        does."""
        with log.open("wb") as errors:
            # A separate group: Ctrl-C reaches only the demonstration, which then ends the others in order.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "interlock", *arguments, "--with-parent", stdin=asyncio.subprocess.PIPE,
                stdout=errors, stderr=errors, cwd=log.parent, env=environment, start_new_session=True,
            )
        return cls(name, process, log)

    async def ready(self, awaited: Awaitable[T]) -> T:
        """Wait for `awaited`, the sign that the process is ready. Raises NotStarted if the process ends instead."""
        waiting = asyncio.ensure_future(awaited)
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                words = self.log_tail(1) or "it wrote nothing"
                raise NotStarted(f"The {self.name} ended before it was ready: {words}")
            return waiting.result()
        finally:
            waiting.cancel()
            ended.cancel()

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """Return the end of its log."""
        text = self._log.read_text("utf-8", "replace") if self._log.exists() else ""
        return "\n".join(text.strip().splitlines()[-lines:])

    async def stop(self) -> int:
        """Stop the process, wait until it has ended, and return its exit status."""
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
