"""Split chunks of bytes into lines, quickly and within a limit (A-8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from interlock.ports.process import LineTooLong as LineTooLong
from interlock.protocol.limits import MAX_CHILD_LINE_BYTES

READ_BYTES = 256 * 1024
"""Size of one read of the agent's output; the stream buffers twice that, and nothing more is read ahead."""


class LineSplitter:
    """Splits chunks into lines without their newline. Holds at most one unfinished line, of at most `limit` bytes.
    Pure."""

    def __init__(self, limit: int = MAX_CHILD_LINE_BYTES) -> None:
        self.limit = limit
        self.skipping = False
        """Whether the rest of a line that was too long is being discarded."""
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Return the lines that this chunk completes, in order, with a LineTooLong as soon as a line is too long."""
        found: list[bytes | LineTooLong] = []
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._add(piece, found)
            if not self.skipping:
                found.append(self._take())
            self.skipping = False
        if rest:
            self._add(rest, found)
        return found

    def finish(self) -> bytes | None:
        """Return the last line if it had no newline, else None."""
        return self._take() if self._parts else None

    def _add(self, piece: bytes, found: list[bytes | LineTooLong]) -> None:
        if self.skipping:
            return
        self._size += len(piece)
        if self._size > self.limit:
            self._take()
            self.skipping = True
            found.append(LineTooLong(self.limit))
        else:
            self._parts.append(piece)

    def _take(self) -> bytes:
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


class BoundedLines:
    """An asynchronous iterator over lines, each without its newline; the last line may lack one.

    Back-pressure: nothing is read before it is requested, except for the rest of a line that was too long. That rest is
    discarded at once, even if no further line is requested, so that the agent does not block on it. After LineTooLong
    the iteration may continue with the next line.
    """

    def __init__(self, read: Callable[[int], Awaitable[bytes]], limit: int = MAX_CHILD_LINE_BYTES) -> None:
        self._read = read
        self._splitter = LineSplitter(limit)
        self._ready: deque[bytes | LineTooLong] = deque()
        self._skip: asyncio.Task[None] | None = None
        self._ended = False

    def __aiter__(self) -> BoundedLines:
        return self

    async def __anext__(self) -> bytes:
        if self._skip is not None:
            await asyncio.shield(self._skip)
            self._skip = None
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._advance()
        line = self._ready.popleft()
        if isinstance(line, LineTooLong):
            if self._splitter.skipping:
                self._skip = asyncio.create_task(self._skip_rest())
            raise line
        return line

    async def _advance(self) -> None:
        chunk = await self._read(READ_BYTES)
        if chunk:
            self._ready.extend(self._splitter.feed(chunk))
            return
        self._ended = True
        last = self._splitter.finish()
        if last is not None:
            self._ready.append(last)

    async def _skip_rest(self) -> None:
        while self._splitter.skipping and not self._ended:
            await self._advance()
