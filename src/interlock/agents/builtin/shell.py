"""The tool that runs a command in the workspace: a process group of its own under the runner's care (A-4)."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from interlock.agents.builtin.places import ToolFailed
from interlock.ports.agent import AgentStartFailed, ProcessExit
from interlock.ports.process import Process, Spawn

TIMEOUT_DEFAULT_S = 120
TIMEOUT_MAX_S = 3_600
KEPT_CHARS = 16_000
"""What the model sees of a command's output from each end; all of it goes to the user."""
WHOLE_CHARS = 4 * 1024 * 1024
"""What is kept of an output to be given as a file, where the result shows its two ends alone."""
END_GRACE_S = 2.0
"""SIGTERM to SIGKILL, for a command that is cancelled or has run for too long, and for what it left behind."""
SCRIPT = 'exec "$0" -c "$1" 2>&1'
"""One channel: the order of what is written to the two stays."""

Emit = Callable[[str], Awaitable[None]]


class Ran(NamedTuple):
    """The outcome of a command. `whole` is all of its output, where `text` leaves some of it out."""

    text: str
    ok: bool
    whole: str | None = None


class ShellOutput:
    """A command's output: its two ends, and all of it while that is not too much."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._length = 0
        self._whole: list[str] | None = []

    def add(self, text: str) -> None:
        """Take what came."""
        self._length += len(text)
        if self._whole is not None:
            self._whole.append(text)
            if self._length > WHOLE_CHARS:
                self._whole = None
        room = KEPT_CHARS - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-KEPT_CHARS:] if len(text) > room else self._tail

    @property
    def text(self) -> str:
        """What the model sees."""
        left_out = self._length - len(self._head) - len(self._tail)
        middle = f"\n… ({left_out} characters left out) …\n" if left_out else ""
        return self._head + middle + self._tail

    @property
    def whole(self) -> str | None:
        """All of it, where `text` is not; None too where it is more than is kept."""
        cut = self._length > 2 * KEPT_CHARS
        return "".join(self._whole) if cut and self._whole is not None else None


class Shell:
    """Runs one command after another."""

    def __init__(self, spawn: Spawn, environment: Mapping[str, str], workspace: str) -> None:
        self._spawn = spawn
        self._environment = environment
        self._workspace = workspace
        self._running: Process | None = None

    async def run(self, command: str, timeout_s: float, emit: Emit) -> Ran:
        """Run it to its end, or to `timeout_s`. No descendant is left when this returns, or is cancelled. Raises
        ToolFailed where it cannot be started."""
        shell = self._environment.get("SHELL") or "/bin/sh"
        argv = ["/bin/sh", "-c", SCRIPT, shell if shell.endswith(("/sh", "/bash", "/zsh")) else "/bin/sh", command]
        try:
            process = self._running = await self._spawn(argv, self._environment, self._workspace)
        except AgentStartFailed as error:
            raise ToolFailed(str(error)) from None
        output = ShellOutput()
        reading = asyncio.create_task(_read(process, output, emit))
        timed_out = False
        try:
            process.close_input()
            async with asyncio.timeout(timeout_s):
                await process.exited()
        except TimeoutError:
            timed_out = True
        finally:
            # Whatever it left running ends with it, and then its output ends, too.
            try:
                ended = await _ended(process)
            except asyncio.CancelledError:
                reading.cancel()
                raise
            finally:
                self._running = None
        await reading
        text = output.text
        if timed_out:
            said = f"(ended after {timeout_s:g} s, its time limit)"
        elif ended.signal is not None:
            said = f"(ended by signal {ended.signal})"
        else:
            said = f"(exit status {ended.code})" if ended.code else ""
        parts = [part for part in (text.rstrip("\n"), said) if part]
        return Ran("\n".join(parts) or "(no output)", not said, output.whole)

    async def close(self) -> None:
        """End what runs."""
        if self._running is not None:
            await self._running.terminate(END_GRACE_S)


async def _read(process: Process, output: ShellOutput, emit: Emit) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    async for chunk in process.chunks():
        text = decoder.decode(chunk)
        output.add(text)
        await emit(text)
    if text := decoder.decode(b"", final=True):
        output.add(text)
        await emit(text)


async def _ended(process: Process) -> ProcessExit:
    """End it and all that it started, also while anyone who waits for it is cancelled."""
    ending = asyncio.ensure_future(process.terminate(END_GRACE_S))
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        raise
