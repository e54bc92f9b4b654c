"""Read a model's answer from the network, and merge what arrived meanwhile into one piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx2

from interlock.agents.builtin.text_events import TextEvents
from interlock.protocol.limits import KIB

READ_AHEAD_BYTES = 256 * KIB
"""Bytes of an answer that may wait for the reader before reading from the network stops."""


async def merge_text(response: httpx2.Response) -> None:
    """Merge the text of a streamed answer into as few events as have arrived: a hook of the HTTP client."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    plain = response.headers.get("content-encoding", "identity").lower() == "identity"
    if kind == "text/event-stream" and plain and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = AnswerStream(response.stream)


class AnswerStream(httpx2.AsyncByteStream):
    """The body of a response. A separate task reads; it passes on a single event at once, and merges events that
    accumulate while the reader is busy."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._events = TextEvents()
        self._parts: list[bytes] = []
        self._size = 0
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._ended = False
        self._reading: asyncio.Task[None] | None = None

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Read it to its end. A second reader continues after the first: OpenAI's library reads on after the last
        event to release the connection. Raises the errors of reading the body, after everything that arrived before.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        try:
            while not self._ended or self._parts:
                await self._came.wait()
                if (merged := self._events.feed(self._take())):
                    yield merged
            if not self._reading.cancelled():
                await self._reading
            if (rest := self._events.rest()):
                yield rest
        finally:
            await self._stop()

    async def aclose(self) -> None:
        """Stop reading, and release the connection."""
        await self._stop()
        await self._body.aclose()

    async def _read(self) -> None:
        try:
            async for part in self._body:
                self._parts.append(part)
                self._size += len(part)
                self._came.set()
                while self._size >= READ_AHEAD_BYTES:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._ended = True
            self._came.set()

    def _take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._room.set()
        if not self._ended:
            self._came.clear()
        return taken

    async def _stop(self) -> None:
        if self._reading is None:
            return
        self._reading.cancel()
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.exception()  # The reader has received it; the closing task does not need it.
