"""The processes that `up` starts: restarted within limits, and ended with their starter (G-3)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from interlock.cli.display.terminal import say
from interlock.cli.verb_error import Trouble
from interlock.protocol.limits import KIB, MIB

STOP_GRACE_S = 25.0
"""Time from SIGTERM to SIGKILL: longer than a runner's for its agents."""
RESTART_DELAY_S = 0.25
RESTART_DELAY_MAX_S = 10.0
DEATHS_MAX = 6
DEATHS_WINDOW_S = 60.0
"""A process that dies too many times within this is not restarted."""
LOG_MAX_BYTES = 16 * MIB
"""A longer log is renamed to `.1` when `up` starts."""
TAIL_BYTES = 16 * KIB


class SupervisedChild(Protocol):
    """A child that is restarted when it ends."""

    name: str
    log: Path

    async def wait(self) -> int:
        """Wait for its end; returns its exit status, negative for a signal."""
        ...

    async def start(self) -> None:
        """Start it. Raises Trouble."""
        ...

    @property
    def pid(self) -> int | None:
        """Return its process id."""
        ...

    def last_words(self) -> str:
        """Return the error that its log ends with, or its last line."""
        ...


class Deaths:
    """The ends of one process, counted within DEATHS_WINDOW_S."""

    def __init__(self, child: SupervisedChild) -> None:
        self._child = child
        self._at: deque[float] = deque(maxlen=DEATHS_MAX)

    def pause(self, now: float) -> float:
        """Count a death; return the pause before the next start, in seconds. Raises Trouble if it died too often."""
        self._at.append(now)
        recent = [at for at in self._at if now - at <= DEATHS_WINDOW_S]
        if len(recent) >= DEATHS_MAX:
            raise Trouble("InternalError", f"The {self._child.name} ended {len(recent)} times within "
                          f"{DEATHS_WINDOW_S:.0f} s: {self._child.last_words()}", f"See {self._child.log}")
        return min(RESTART_DELAY_MAX_S, RESTART_DELAY_S * 2 ** (len(recent) - 1))


class Child:
    """A process: its command, and its log."""

    def __init__(self, name: str, arguments: Callable[[], list[str]], log: Path, stop_grace_s: float = STOP_GRACE_S
                 ) -> None:
        self.name = name
        self.log = log
        self._arguments = arguments
        self._stop_grace_s = stop_grace_s
        self._process: asyncio.subprocess.Process | None = None
        self._log_from = 0
        """Bytes of the log when it was started: what precedes them is of an earlier process."""

    @property
    def pid(self) -> int | None:
        """Return its process id; None before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it in a process group of its own, so that Ctrl-C reaches it through `up` alone, in order."""
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._log_from = os.fstat(log).st_size
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "interlock", *self._arguments(), "--with-parent",
                # Its end is bound to ours: when `up` dies in any way, this pipe closes and the child ends, too.
                stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )
        finally:
            os.close(log)

    async def wait(self) -> int:
        """Wait for its end; returns its exit status, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """End it: SIGTERM, and after its grace SIGKILL. Waits for its end."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._stop_grace_s)
        except TimeoutError:
            say(f"the {self.name} did not end within {self._stop_grace_s:.0f} s and is killed", "red", "is killed")
            self.kill()
            await process.wait()

    def hang_up(self) -> None:
        """Make the process reload the config (G-1)."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Return the error that its log ends with since its start, or its last line."""
        return last_words(self.log, self._log_from)


def last_words(log: Path, since: int = 0) -> str:
    """Return the error that a log ends with behind its first `since` bytes, or its last line."""
    lines = [line for line in tail(log, since).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error[")]
    return (errors or lines or ["it printed nothing"])[-1]


async def keep_alive(child: SupervisedChild, final: int | None = None) -> None:
    """Restart a child whenever it ends, with a message. Runs until it is cancelled, or the child has ended with the
    status that is `final`. Raises Trouble."""
    deaths = Deaths(child)
    while (status := await child.wait()) != final:
        pause = deaths.pause(time.monotonic())
        say(f"the {child.name} {ending(status)}; starting it again in {pause:g} s", "red", ending(status))
        await asyncio.sleep(pause)
        await child.start()
        say(f"the {child.name} runs again (process {child.pid})", "green", "runs again")


async def keep_apart(child: Child) -> None:
    """Do the same for a child that is not essential: if it dies too often, a message is printed, and it is not
    restarted."""
    try:
        await keep_alive(child)
    except Trouble as trouble:
        say(f"{trouble}; gateway and runner continue without it", "red", str(trouble).partition(":")[0])
        await asyncio.Event().wait()


def ending(status: int) -> str:
    """Return how a process ended."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def prepare_log(log: Path) -> None:
    """Create the log's directory, and rename a long log."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_MAX_BYTES:
            log.replace(log.with_name(log.name + ".1"))


def tail(path: Path, since: int = 0) -> str:
    """Read the end of a log, behind its first `since` bytes."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
