"""Lines out of chunks of bytes, quickly and within a bound (A-8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from interlock.ports.process import LineTooLong as LineTooLong
from interlock.protocol.limits import MAX_CHILD_LINE_BYTES

READ_BYTES = 256 * 1024
"""One read of the agent's output; with the stream's own buffer of twice that, all that is ever read ahead."""


class LineSplitter:
    """Pure: chunks in, lines without their newline out. Holds one unfinished line at most, of `limit` bytes at most."""

    def __init__(self, limit: int = MAX_CHILD_LINE_BYTES) -> None:
        self.limit = limit
        self.skipping = False
        """The rest of a line that was too long is being thrown away."""
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """The lines that this chunk completes, in order; a LineTooLong stands where, and as soon as, one passes it."""
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
        """The last line where it had no newline; None where there is none."""
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
    """An asynchronous iterator over lines, each without its newline, the last one also where it had none.

    Back-pressure: nothing is read before it is asked for, but for the rest of a line that was too long. That rest is
    thrown away at once, also when no one asks again, so that the agent does not block on it. After LineTooLong the
    iteration may go on with the next line.
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
