"""The gateway's own REST API, called in this process on behalf of a connection that came in (O-7, O-9): the same keys,
roles, tenants, limits and records as over the network, because it is the same code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from starlette.types import ASGIApp, Message, Scope

Headers = Iterable[tuple[bytes, bytes]]

CHUNKS_WAITING = 16
"""Chunks of a stream that wait for a slow reader; the stream stalls after them, and ends as any stalled one (S-4)."""
_OWN_HEADERS = frozenset({b"accept", b"accept-encoding", b"content-encoding", b"content-length", b"content-type",
                          b"expect", b"idempotency-key", b"if-none-match", b"last-event-id", b"prefer", b"range",
                          b"transfer-encoding"})
"""Headers of the incoming request that do not apply to the internal one."""
_READS = frozenset({"GET", "HEAD"})


class ResponseCut(Exception):
    """Raised if the API failed after its response had started."""


class InternalResponse:
    """A response whose body is read while it is produced. Call `close` at the end."""

    def __init__(self, rest: ASGIApp, scope: Scope, body: bytes) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._scope = scope
        self._unread = [body]
        self._chunks = asyncio.Queue[Message](CHUNKS_WAITING)
        self._left = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(rest), name="internal request")

    async def begin(self) -> None:
        """Wait for the status and the headers. Raises what the API raises."""
        start = await self._next()
        self.status, self.headers = start["status"], [(bytes(name), bytes(value)) for name, value in start["headers"]]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it is produced. Raises ResponseCut."""
        more = True
        while more:
            message = await self._next()
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def read(self) -> bytes:
        """Return the complete body. Raises ResponseCut."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def close(self) -> None:
        """Abandon the response, read or not. A change that has started is completed, as it is when the client of a real
        connection leaves; a read ends here."""
        self._left.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()  # A writer that waits for room continues, and finds that the reader has left.
        if self._scope["method"] in _READS:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        elif not self._serving.done():
            _unfinished.add(self._serving)
            self._serving.add_done_callback(_unfinished.discard)

    async def _serve(self, rest: ASGIApp) -> None:
        await rest(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._unread:
            return {"type": "http.request", "body": self._unread.pop()}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._left.is_set():
            await self._chunks.put(message)

    async def _next(self) -> Message:
        getting = asyncio.ensure_future(self._chunks.get())
        try:
            await asyncio.wait((getting, self._serving), return_when=asyncio.FIRST_COMPLETED)
            if not getting.done() and self._chunks.empty():
                self._serving.result()
                raise ResponseCut("the response was not finished")
            return await getting
        finally:
            getting.cancel()


_unfinished = set[asyncio.Task[None]]()
"""Changes whose callers have left; referenced so that they are not collected before they end."""


class InternalRest:
    """Requests to `rest`, the REST API as an ASGI callable, with the connection and the credential of `scope`."""

    def __init__(self, rest: ASGIApp, scope: Scope) -> None:
        self._rest = rest
        self._scope = scope
        self._kept = [(name, value) for name, value in scope["headers"] if name not in _OWN_HEADERS]

    async def send(self, method: str, path: str, query: bytes = b"", headers: Headers = (), body: bytes = b"",
                   *, raw_path: bytes | None = None) -> InternalResponse:
        """Send a request, and return once its response has begun. `path` is decoded, `raw_path` as a client would send
        it. Raises what the API raises."""
        scope = {**self._scope, "method": method, "path": path, "raw_path": raw_path or path.encode(),
                 "query_string": query, "headers": [*self._kept, *headers]}
        response = InternalResponse(self._rest, scope, body)
        try:
            await response.begin()
        except BaseException:
            await response.close()
            raise
        return response
