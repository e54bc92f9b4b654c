"""The four channels between the runner and an agent's process, as asyncio protocols: input, output, tail, control."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from typing import IO, cast

from interlock.protocol.limits import STDERR_TAIL_BYTES
from interlock.runner.process.lines import READ_BYTES
from interlock.runner.process.programs import ProgramLines

LAST_READS = 8
"""Reads that drain a pipe without writers; bounded, since a survivor may continue to write."""


class Input(asyncio.BaseProtocol):
    """The agent's standard input. `write` waits while the pipe's buffer is above asyncio's mark of 64 KiB."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    async def attach(self) -> None:
        self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, self._pipe)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._room.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Write. Raises BrokenPipeError if the agent no longer reads, at once or while this waits."""
        if self._transport is not None and not self._closed:
            self._transport.write(data)
            await self._room.wait()
        if self._closed:
            raise BrokenPipeError("The agent no longer reads its standard input.")

    def close(self) -> None:
        """Close after the buffered data is written."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Close now; unwritten data is dropped."""
        self._closed = True
        self._room.set()
        if self._transport is None:
            self._pipe.close()
        elif not self._transport.is_closing():  # asyncio does not allow a second abort.
            self._transport.abort()


class AgentOutput:
    """The agent's standard output behind a buffer that stops reading at twice READ_BYTES."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._reader = asyncio.StreamReader(limit=READ_BYTES)
        self._transport: asyncio.ReadTransport | None = None
        widen(pipe)

    async def attach(self) -> None:
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._pipe)

    async def read(self, size: int) -> bytes:
        """Return at least one byte, at most `size`; b"" at the end."""
        return await self._reader.read(size)

    def finish(self) -> None:
        """Drain the pipe into the buffer once no writer is left, and close. The added bytes are bounded by the pipe's
        own size, so memory stays flat, and readers miss nothing."""
        if self._transport is None:
            self._pipe.close()
        elif not self._pipe.closed:
            with suppress(OSError):
                for _ in range(LAST_READS):
                    if not (rest := os.read(self._pipe.fileno(), READ_BYTES)):
                        break
                    self._reader.feed_data(rest)
            self._transport.close()


class Tail(asyncio.Protocol):
    """Drains standard error for ever and keeps its last STDERR_TAIL_BYTES (A-8)."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._cut = False
        self._transport: asyncio.ReadTransport | None = None

    async def attach(self) -> None:
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, self._pipe)

    def data_received(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > STDERR_TAIL_BYTES:
            del self._kept[:-STDERR_TAIL_BYTES]
            self._cut = True

    def catch_up(self) -> None:
        """Read what the pipe holds now; the loop may not have read it yet."""
        if self._transport is not None and not self._pipe.closed:
            with suppress(OSError):
                self.data_received(os.read(self._pipe.fileno(), READ_BYTES))

    def finish(self) -> None:
        """Catch up and close."""
        self.catch_up()
        if self._transport is not None:
            self._transport.close()
        else:
            self._pipe.close()

    def text(self) -> str:
        """Return the stored text, undecodable bytes replaced; an incomplete first line is omitted if others follow."""
        kept = bytes(self._kept)
        if self._cut:
            _, newline, rest = kept.partition(b"\n")
            kept = rest if newline and rest else kept
        return kept.decode("utf-8", "replace")


class SupervisorSocket(asyncio.Protocol):
    """The runner's end of the supervisor's socket: what `supervisor` documents, as fields and events."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.failure: tuple[str, int] | None = None
        self.status: int | None = None
        self.survivors: list[int] = []
        self.clean = False
        """Whether the supervisor itself reported the end."""
        self.answered = asyncio.Event()
        """The start succeeded or failed."""
        self.ended = asyncio.Event()
        """The agent's own process has ended."""
        self.over = asyncio.Event()
        """The supervisor is gone, and with it everything it could end."""
        self._held: ProgramLines | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._unread = b""

    def hold_programs(self, lines: ProgramLines) -> None:
        """Pass the lines about held programs to `lines` (see `box.gate`)."""
        self._held = lines

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(line.decode().split())

    def connection_lost(self, exc: Exception | None) -> None:
        for event in (self.answered, self.ended, self.over):
            event.set()
        if self._held is not None:
            self._held.close()

    def send(self, data: bytes) -> None:
        """Send to the supervisor; does nothing once it is gone."""
        if self._transport is not None and not self.over.is_set():
            self._transport.write(data)

    def close(self) -> None:
        """Close the socket, which the supervisor treats as the runner's death."""
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> None:
        """Close the socket: the supervisor has reported all, and ends when it is closed."""
        self.clean = True
        if self._transport is not None:
            self._transport.close()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["S", pid]:
                self.pid = int(pid)
                self.answered.set()
            case ["F", stage, number]:
                self.failure = (stage, int(number))
                self._finish()
            case ["E", status]:
                self.status = int(status)
                self.ended.set()
            case ["D", *pids]:
                self.survivors = [int(pid) for pid in pids]
                self._finish()
            case ["P" | "V" | "X" | "M" | "N", *_] if self._held is not None:
                self._held.take(words)
            case _:
                raise ValueError(f"The supervisor sent {words!r}, which has no meaning.")


def widen(pipe: IO[bytes]) -> None:
    """Enlarge a pipe to READ_BYTES, so that one read takes as much; if that is refused, reads are smaller."""
    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), size, READ_BYTES)
