"""An agent's process as an adapter sees it; the runner supervises it (A-1, A-2, A-4, A-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from interlock.box.walls import NO_WALLS, Walls
from interlock.ports.agent import Exit


class LineTooLong(Exception):
    """A line passed the cap (A-8: the turn fails with FRAME_TOO_LARGE). Its rest is skipped, the next line is whole."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The agent wrote a line of more than {limit:,} bytes; have it write to a file instead.")
        self.limit = limit


class Process(Protocol):
    """A running program with a process group of its own. Whoever started it calls `terminate`, also after its end.

    Guarantees: after `terminate` returned, no descendant is left, and what it wrote stays readable. One task may read
    `lines` or `chunks`; all else may be called at any time, also after the end.
    """

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        ...

    async def exited(self) -> Exit:
        """Wait until the program itself has ended; its descendants may live on."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises BrokenPipeError once nobody reads there."""
        ...

    def close_input(self) -> None:
        """End of its standard input."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Lines of its standard output without their newline; read only as fast as asked. Raises LineTooLong in place
        of a line above MAX_CHILD_LINE_BYTES, after which the iteration may go on."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Its standard output as it comes, read only as fast as asked."""
        ...

    def stderr_tail(self) -> str:
        """The last STDERR_TAIL_BYTES of its standard error."""
        ...

    def pause(self) -> None:
        """Stop it and all its descendants (C-6)."""
        ...

    def resume(self) -> None:
        """Let go on what `pause` stopped."""
        ...

    async def terminate(self, grace_s: float = ...) -> Exit:
        """A-4: SIGTERM, grace, SIGKILL, and wait until every descendant is gone."""
        ...


class Spawn(Protocol):
    """Start a program with this whole environment in this directory. Raises AgentStartFailed."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /) -> Process: ...


class SpawnBehind(Protocol):
    """Start a program as `Spawn` does, behind walls (H-15)."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /, *,
                       walls: Walls = NO_WALLS) -> Process: ...
