"""An agent's process as an adapter sees it; the runner supervises it (A-1, A-2, A-4, A-8)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from interlock.box.walls import NO_WALLS, Walls
from interlock.ports.agent import ProcessExit


class LineTooLong(Exception):
    """A line passed the cap (A-8: the turn fails with FRAME_TOO_LARGE). Its rest is skipped, the next line is whole."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The agent wrote a line of more than {limit:,} bytes; have it write to a file instead.")
        self.limit = limit


class Process(Protocol):
    """A running program with a process group of its own. Anyone who started it calls `terminate`, also after its end.

    Guarantees: after `terminate` returned, no descendant is left, and what it wrote stays readable. One task may read
    `lines` or `chunks`; all else may be called at any time, also after the end.
    """

    @property
    def exit(self) -> ProcessExit | None:
        """How it ended; None while it runs."""
        ...

    async def exited(self) -> ProcessExit:
        """Wait until the program itself has ended; its descendants may live on."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises BrokenPipeError once no one reads there."""
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

    async def terminate(self, grace_s: float = ...) -> ProcessExit:
        """A-4: SIGTERM, grace, SIGKILL, and wait until every descendant is gone."""
        ...


class Spawn(Protocol):
    """Start a program with this whole environment in this directory. Raises AgentStartFailed."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /) -> Process: ...


class HeldProgram(NamedTuple):
    """A program that waits to be started, as its process has put it (H-16). `name` is its bare name if that is what the
    agent's PATH finds for it, else its path without symbolic links; `environment` are the variables that reach further
    than the command line and are not those that the agent was started with."""

    path: bytes
    directory: bytes
    name: bytes
    environment: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    own_view: bool = False
    """Its process has mounts or a root of its own, where each path may be another file than elsewhere."""


class StartedBelow(NamedTuple):
    """What an allowed program's tree started without being asked about: how many, a SHA-256 over their argument vectors
    in order (hex), and how often each name, the most frequent first."""

    total: int
    digest: str
    names: tuple[tuple[str, int], ...] = ()


Decision = Literal["once", "below", "no"]
"""`below`: the program may start, and what its processes start is not asked about."""


class Programs(Protocol):
    """Decides on the programs that an agent's processes start. A token names one start."""

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Decide, and take as long as that needs. Cancelled if the process ends meanwhile."""
        ...

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        """An allowed program has ended; None if it never started."""
        ...

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        """Another program than the allowed one was about to run, and was killed: its file and arguments."""
        ...

    async def refused(self, why: str) -> None:
        """A program was refused without a question: "a program with …"."""
        ...


class ProcessOutlet(Protocol):
    """A way out that serves one process."""

    async def close(self) -> None:
        """End every connection and listener."""
        ...


class WayOut(Protocol):
    """What a process in a network of its own may reach (H-19)."""

    async def open(self, listeners: Sequence[tuple[int, socket.socket]]) -> ProcessOutlet:
        """Serve a process's listeners, each with its port."""
        ...


class SpawnBehind(Protocol):
    """Start a program as `Spawn` does, behind walls (H-15). `programs` decides on what it starts if the walls say that
    programs are held (H-16); without it none is started. `way_out` serves it if they give it a network of its own
    (H-19)."""

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, /, *,
                       walls: Walls = NO_WALLS, programs: Programs | None = None,
                       way_out: WayOut | None = None) -> Process: ...
