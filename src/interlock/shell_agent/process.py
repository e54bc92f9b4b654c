"""One shell command as a child process: its output, its exit, and its termination.

The command leads its own process group, so that its children end with it. Its exit is waited for without reaping it
(`waitid` with WNOWAIT): the zombie keeps the group's number, so a signal to the group can never reach another process
that got the same number.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import IO, Literal, NamedTuple

CHUNK_BYTES = 32 * 1024
"""Size of one read from a command, and of the output in one `tool_call_update`."""
TERMINATE_GRACE_S = 2.0
"""SIGTERM to SIGKILL, when a command is cancelled."""
LINGER_S = 0.5
LINGER_BYTES = 1024 * 1024
"""After a command's exit its pipes are read to their end. If a process that left the group keeps one open, reading
stops after LINGER_S without output, or after LINGER_BYTES: more than any pipe buffers by default, so nothing that the
command itself wrote is lost."""

Channel = Literal["stdout", "stderr"]
Emit = Callable[[Channel, str], Awaitable[None]]


class CommandNotStarted(Exception):
    """The shell could not be started; the text is the operating system's reason."""


class CommandExit(NamedTuple):
    """How a command ended: exactly one of exit_code and signal is set. The counts are of bytes read."""

    exit_code: int | None
    signal: int | None
    stdout_bytes: int
    stderr_bytes: int

    @property
    def status(self) -> int:
        """Return the value of `$?` in a shell: 128 + N for a death by signal N."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


class _Pipe:
    """One output of the command, read only as fast as `emit` accepts it: that is the back-pressure on the command."""

    def __init__(self, channel: Channel, source: IO[bytes], emit: Emit) -> None:
        self.channel: Channel = channel
        self.bytes_read = 0
        self._source = source
        self._emit = emit
        # A StreamReader stops reading the pipe at twice its limit; only that and the pipe itself buffer.
        self._reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._left_after_exit: int | None = None

    async def pump(self, exited: asyncio.Future[int]) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), self._source)
        try:
            while chunk := await self._next(exited):
                self.bytes_read += len(chunk)
                await self._emit_text(self._decoder.decode(chunk))
            await self._emit_text(self._decoder.decode(b"", final=True))
        finally:
            transport.close()

    async def _emit_text(self, text: str) -> None:
        if text:
            await self._emit(self.channel, text)

    async def _next(self, exited: asyncio.Future[int]) -> bytes:
        """Return the next chunk; b"" at the end of the pipe, or if no process of the command can write to it any more.
        """
        reading = asyncio.ensure_future(self._reader.read(CHUNK_BYTES))
        try:
            await asyncio.wait([reading, exited], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait([reading], timeout=LINGER_S)
            if not reading.done():
                return b""
        finally:
            reading.cancel()
        return self._within_linger(reading.result(), exited.done())

    def _within_linger(self, chunk: bytes, exited: bool) -> bytes:
        if not exited:
            return chunk
        left = LINGER_BYTES if self._left_after_exit is None else self._left_after_exit
        self._left_after_exit = left - len(chunk)
        return chunk if left > 0 else b""


class RunningCommand:
    """A started command. `finish` must be awaited; `terminate` may be called at any time, also more than once."""

    def __init__(self, line: str, cwd: str, emit: Emit) -> None:
        """Start `/bin/sh -c line` in `cwd` (absolute), reading from /dev/null. Raises CommandNotStarted."""
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise CommandNotStarted(getattr(error, "strerror", None) or str(error)) from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pipes = [_Pipe("stdout", self._process.stdout, emit), _Pipe("stderr", self._process.stderr, emit)]
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = loop.create_future()
        # A separate thread: in the loop's pool a few long commands would delay noticing the end of all others.
        watch = threading.Thread(target=_watch, args=(self._process, loop, self._on_exit), daemon=True)
        watch.start()

    async def finish(self) -> CommandExit:
        """Wait for the end, and until all output is emitted. Processes that the command left in its group are killed.

        If `emit` raises or this is cancelled, the command is killed first: none survives its turn.
        """
        try:
            async with asyncio.TaskGroup() as pumps:
                for pipe in self._pipes:
                    pumps.create_task(pipe.pump(self._exited))
                code = await asyncio.shield(self._exited)
        except BaseException:
            self._signal(signal.SIGKILL)
            await asyncio.shield(self._exited)
            raise
        out, err = (pipe.bytes_read for pipe in self._pipes)
        return CommandExit(code if code >= 0 else None, -code if code < 0 else None, out, err)

    async def terminate(self) -> None:
        """Send SIGTERM to the group, SIGCONT so that a stopped one receives it, SIGKILL after TERMINATE_GRACE_S; return
        when the command is gone."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        await asyncio.wait([self._exited], timeout=TERMINATE_GRACE_S)
        self._signal(signal.SIGKILL)
        await asyncio.shield(self._exited)

    def _signal(self, number: signal.Signals) -> None:
        # Once the exit is known the process may have been reaped, and its number may be another process's.
        if not self._exited.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _on_exit(self) -> None:
        self._signal(signal.SIGKILL)  # the rest of its group
        self._exited.set_result(self._process.wait())


def _watch(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
    """Wait for the exit in a thread, then call `on_exit` in the loop; a loop that is closed by then is skipped."""
    if sys.platform == "darwin":
        process.wait()  # Python got `waitid` late there; the number is free for an instant before the group is killed
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(on_exit)
