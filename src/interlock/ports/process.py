"""An agent's process as an adapter sees it; the runner supervises it (A-1, A-2, A-4, A-8)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from interlock.box.walls import NO_WALLS, Walls
from interlock.ports.agent import ProcessExit


class LineTooLong(Exception):
    """Raised if a line exceeds the limit (A-8: the turn fails with FRAME_TOO_LARGE). Its rest is skipped, the next line
    is complete."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The agent wrote a line of more than {limit:,} bytes.")
        self.limit = limit


class Process(Protocol):
    """A running program with a process group of its own. Its starter calls `terminate`, also after it has ended.

    Guarantees: after `terminate` has returned, no descendant is left, and its output stays readable. One task may read
    `lines` or `chunks`; all else may be called at any time, also after the end.
    """

    @property
    def exit(self) -> ProcessExit | None:
        """Return how it ended; None while it runs."""
        ...

    async def exited(self) -> ProcessExit:
        """Wait until the program itself has ended; its descendants may still run."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises BrokenPipeError if the other end is closed."""
        ...

    def close_input(self) -> None:
        """End of its standard input."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of its standard output without their newline; output is read only on demand. Raises
        LineTooLong in place of a line above MAX_CHILD_LINE_BYTES, after which the iteration may continue."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield its standard output as it arrives, read only on demand."""
        ...

    def stderr_tail(self) -> str:
        """Return the last STDERR_TAIL_BYTES of its standard error."""
        ...

    def pause(self) -> None:
        """Stop it and all its descendants (C-6)."""
        ...

    def resume(self) -> None:
        """Continue the processes that `pause` stopped."""
        ...

    async def terminate(self, grace_s: float = ...) -> ProcessExit:
        """End it (A-4): send SIGTERM, wait `grace_s`, send SIGKILL, and wait until every descendant has ended."""
        ...


class Spawn(Protocol):
    """Starts a program with exactly this environment in this directory. Raises AgentStartFailed."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /) -> Process: ...


class HeldProgram(NamedTuple):
    """A program that waits to be started, as its process described it (H-16). `name` is its bare name if the agent's
    PATH resolves that to it, otherwise its path without symbolic links; `environment` holds the variables that affect
    more than the command line and differ from those the agent was started with."""

    path: bytes
    directory: bytes
    name: bytes
    environment: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    own_view: bool = False
    """Whether its process has its own mounts or root, where each path may be another file than elsewhere."""


class StartedBelow(NamedTuple):
    """The programs that an allowed program's tree started without a question: their number, a SHA-256 over their
    argument vectors in order (hex), and how often each name occurs, the most frequent first."""

    total: int
    digest: str
    names: tuple[tuple[str, int], ...] = ()


Decision = Literal["once", "below", "no"]
"""`below`: the program may start, and the programs that it starts are not asked about."""


class Programs(Protocol):
    """The decision maker for programs that an agent's processes start. A token identifies one start."""

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Decide, without a time limit. Cancelled if the process ends meanwhile."""
        ...

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        """Record that an allowed program has ended; `below` is None if it never started."""
        ...

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        """Record that another program than the allowed one was about to run, and was killed: its file and arguments."""
        ...

    async def refused(self, why: str) -> None:
        """Record that a program was refused without a question: "a program with …"."""
        ...


class ProcessOutlet(Protocol):
    """An outlet that serves one process."""

    async def close(self) -> None:
        """End every connection and listener."""
        ...


class WayOut(Protocol):
    """What a process in a network of its own can reach (H-19)."""

    async def open(self, listeners: Sequence[tuple[int, socket.socket]]) -> ProcessOutlet:
        """Serve a process's listeners, each with its port."""
        ...


class SpawnBehind(Protocol):
    """Starts a program as `Spawn` does, behind walls (H-15). `programs` decides on the programs it starts if the walls
    hold programs (H-16); without it none is started. `way_out` serves it if the walls give it a network of its own
    (H-19)."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /, *,
                       walls: Walls = NO_WALLS, programs: Programs | None = None,
                       way_out: WayOut | None = None) -> Process: ...
