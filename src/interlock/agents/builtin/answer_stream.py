"""A model's answer as it is read from the network: what has come meanwhile is passed on together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx2

from interlock.agents.builtin.text_events import TextEvents
from interlock.protocol.limits import KIB

READ_AHEAD_BYTES = 256 * KIB
"""So much of an answer may wait for its reader before no more of it is read."""


async def merge_text(response: httpx2.Response) -> None:
    """Let the text of a streamed answer be read in as few events as have come: a hook of the HTTP client."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    plain = response.headers.get("content-encoding", "identity").lower() == "identity"
    if kind == "text/event-stream" and plain and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = AnswerStream(response.stream)


class AnswerStream(httpx2.AsyncByteStream):
    """The body of a response. A task of its own reads, and never waits for more while something has come; so a lone
    event is passed on at once, and what piled up while the reader was busy is one piece."""

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
        """Read it to its end. A second reader continues after what the first one had: so OpenAI's library reads on
        behind the last event, to have the connection back. Raises what reading the body raises, after all that
        came before."""
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
        """Read no more, and give the connection back."""
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
            self._reading.exception()  # The reader has it; the closer does not need it.
