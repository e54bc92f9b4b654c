"""The tool that runs a command in the workspace: a separate process group under the runner's supervision (A-4)."""

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
"""Characters of each end of a command's output that the model sees; the user gets all of it."""
WHOLE_CHARS = 4 * 1024 * 1024
"""Characters of an output that are stored to be sent as a file, if the result has only its two ends."""
END_GRACE_S = 2.0
"""SIGTERM to SIGKILL, for a command that is cancelled or has run for too long, and for processes that it left."""
SCRIPT = 'exec "$0" -c "$1" 2>&1'
"""Merges the two channels, so that the order of the output is preserved."""

Emit = Callable[[str], Awaitable[None]]


class Ran(NamedTuple):
    """The outcome of a command. `whole` is all of its output, if `text` omits some of it."""

    text: str
    ok: bool
    whole: str | None = None


class ShellOutput:
    """A command's output: its two ends, and all of it up to a limit."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._length = 0
        self._whole: list[str] | None = []

    def add(self, text: str) -> None:
        """Append output."""
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
        """Return the text that the model sees."""
        left_out = self._length - len(self._head) - len(self._tail)
        middle = f"\n… ({left_out} characters left out) …\n" if left_out else ""
        return self._head + middle + self._tail

    @property
    def whole(self) -> str | None:
        """Return the whole output if `text` is cut; None also if it exceeds the limit."""
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
        """Run it to its end, or for `timeout_s`. No descendant is left when this returns or is cancelled. Raises
        ToolFailed if it cannot be started."""
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
            # Processes that it left running end with it, and with them their output.
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
            note = f"(ended after {timeout_s:g} s, its time limit)"
        elif ended.signal is not None:
            note = f"(ended by signal {ended.signal})"
        else:
            note = f"(exit status {ended.code})" if ended.code else ""
        parts = [part for part in (text.rstrip("\n"), note) if part]
        return Ran("\n".join(parts) or "(no output)", not note, output.whole)

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
    """End it and everything that it started, even if the caller is cancelled."""
    ending = asyncio.ensure_future(process.terminate(END_GRACE_S))
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        raise
