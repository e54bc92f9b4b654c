"""The gateway's own REST API, called in this process with the credential of the request that came in (O-9): the same
keys, roles, tenants, limits and records as over the network, since it is the same code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp, Message, Scope

from interlock.gateway.a2a.wire import A2AError, GatewayRefusal
from interlock.gateway.rest.streams import SSE
from interlock.protocol.problems import full_sentence
from interlock.sdk.follower import EventParser

T = TypeVar("T")
CHUNKS_WAITING = 16
"""Bursts of a stream that wait for a slow client; the stream stalls after them, and ends as any stalled one (S-4)."""
_OWN_HEADERS = frozenset({b"accept", b"accept-encoding", b"content-encoding", b"content-length", b"content-type",
                          b"expect", b"idempotency-key", b"if-none-match", b"last-event-id", b"prefer", b"range",
                          b"transfer-encoding"})
"""Headers that belong to the request that came in, and not to what it is served with."""
_PASSED_BACK = frozenset({b"retry-after", b"www-authenticate"})


class InternalApi:
    """Calls for one request, whose scope is `scope`. `rest` is the REST API as an ASGI callable."""

    def __init__(self, rest: ASGIApp, scope: Scope) -> None:
        self._rest = rest
        self._scope = scope

    async def read(self, kind: type[T], path: str, **query: str | int | None) -> T:
        """Return the resource of a GET. Raises GatewayRefusal."""
        return msgspec.json.decode(await self._whole("GET", path, query, b"", ()), type=kind)

    async def change(self, kind: type[T], path: str, body: Mapping[str, Any], idempotency_key: str) -> T:
        """Return the resource of a POST. Raises GatewayRefusal."""
        headers = ((b"content-type", b"application/json"), (b"idempotency-key", idempotency_key.encode()))
        return msgspec.json.decode(await self._whole("POST", path, {}, msgspec.json.encode(body), headers), type=kind)

    @asynccontextmanager
    async def events(self, path: str, **query: str | int | None) -> AsyncGenerator[AsyncGenerator[tuple[str, bytes]]]:
        """Follow a stream of server-sent events as (event, data), until it is over. Raises GatewayRefusal."""
        chunks = asyncio.Queue[Message](CHUNKS_WAITING)
        leaving = asyncio.Event()
        scope = self._inner("GET", path, query, ((b"accept", SSE.encode()),))

        async def receive() -> Message:
            await leaving.wait()
            return {"type": "http.disconnect"}

        async def serve() -> None:
            await self._rest(scope, receive, chunks.put)
            await chunks.put({"type": "http.response.body"})

        serving = asyncio.create_task(serve())
        try:
            yield _events(chunks, serving, path)
        finally:
            leaving.set()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _whole(self, method: str, path: str, query: Mapping[str, str | int | None], body: bytes,
                     headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
        sent: list[Message] = []
        unread = [body]

        async def receive() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop()}
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._rest(self._inner(method, path, query, headers), receive, send)
        answer = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        _check(sent[0], answer)
        return answer

    def _inner(self, method: str, path: str, query: Mapping[str, str | int | None],
               headers: tuple[tuple[bytes, bytes], ...]) -> Scope:
        kept = [pair for pair in self._scope["headers"] if pair[0] not in _OWN_HEADERS]
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return {**self._scope, "method": method, "path": path, "raw_path": path.encode(),
                "query_string": asked.encode(), "headers": [*kept, *headers]}


async def _events(chunks: asyncio.Queue[Message], serving: asyncio.Task[None], path: str
                  ) -> AsyncGenerator[tuple[str, bytes]]:
    parser = EventParser()
    start = await _next(chunks, serving)
    if start["status"] == 204:
        return
    if start["status"] >= 400:
        body = (await _next(chunks, serving)).get("body", b"")
        _check(start, body)
    while (message := await _next(chunks, serving)).get("more_body", False):
        for _, event, data in parser.feed(message.get("body", b"")):
            if event in ("behind", "unauthorized"):
                raise GatewayRefusal(503 if event == "behind" else 401, event.title(),
                                     f"The stream {path} was ended by the gateway ({event}). Subscribe to the task "
                                     "again.")
            yield event, data


async def _next(chunks: asyncio.Queue[Message], serving: asyncio.Task[None]) -> Message:
    """Return the next message, or the failure of what sends them."""
    getting = asyncio.ensure_future(chunks.get())
    try:
        await asyncio.wait((getting, serving), return_when=asyncio.FIRST_COMPLETED)
        if not getting.done() and chunks.empty():
            serving.result()
        return await getting
    finally:
        getting.cancel()


def _check(start: Message, body: bytes) -> None:
    """Raises GatewayRefusal for a refusal of the API."""
    if start["status"] < 400:
        return
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise A2AError("INTERNAL_ERROR", "Something failed inside the gateway; its log has the details.") from None
    explained = " ".join(full_sentence(str(problem[name])) for name in ("detail", "hint") if problem.get(name))
    headers = tuple((name, value) for name, value in start["headers"] if name in _PASSED_BACK)
    raise GatewayRefusal(start["status"], str(problem.get("code")), explained, headers)
