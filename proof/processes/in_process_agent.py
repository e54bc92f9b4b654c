"""An agent inside its runner's own process, for proofs with too many sessions for a process each.

A prompt is a name: it is appended to `done` in the workspace once. After it, `hold` keeps the turn open until the
workspace has a file `released`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar

from interlock.ports.agent import AgentPrompt, AgentStart, ProcessExit, Started, TurnOutcome, TurnWriter
from interlock.ports.process import Spawn
from interlock.protocol.payloads import Features

LOOK_S = 0.2
RELEASED = "released"
DONE = "done"


class InnerAgent:
    """One session's agent. It starts nothing and asks nothing."""

    _released: ClassVar[dict[str, asyncio.Event]] = {}
    _looking: ClassVar[dict[str, asyncio.Task[None]]] = {}

    def __init__(self, _spawn: Spawn) -> None:
        self._workspace = ""
        self._cancelled = asyncio.Event()

    async def open(self, opening: AgentStart) -> Started:
        """Be there."""
        self._workspace = opening.workspace
        return Started(Features(adapter_type="process", permission="asks"), "Inner")

    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Append the name; hold the turn if that is asked."""
        name, *how = " ".join(str(block.get("text", "")) for block in prompt.content).split()
        self._cancelled.clear()
        done = os.open(f"{self._workspace}/{DONE}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(done, name.encode() + b"\n")
        os.close(done)
        if how == ["hold"]:
            ends = [asyncio.ensure_future(one.wait()) for one in (self._release(), self._cancelled)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
        await turn_writer.text(f"{name} done\n")
        return TurnOutcome("cancelled" if self._cancelled.is_set() else "end_turn")

    def _release(self) -> asyncio.Event:
        """One for all agents of a workspace, so that only one looks for the file."""
        if self._workspace not in self._released:
            event = self._released[self._workspace] = asyncio.Event()
            self._looking[self._workspace] = asyncio.create_task(_set_with(event, Path(self._workspace) / RELEASED))
        return self._released[self._workspace]

    async def cancel(self) -> None:
        """End the turn."""
        self._cancelled.set()

    async def pause(self) -> None:
        """There is no process to pause."""

    async def resume(self) -> None:
        """See `pause`."""

    async def close(self) -> ProcessExit | None:
        """End the turn; there is no process."""
        self._cancelled.set()
        return None

    async def gone(self) -> ProcessExit:
        """Never returns."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing sets that future")

    def stderr_tail(self) -> str:
        """Nothing is written there."""
        return ""


async def _set_with(event: asyncio.Event, file: Path) -> None:
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(LOOK_S)
    event.set()
