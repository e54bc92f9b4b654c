"""The gateway's own REST API in A2A's terms: its resources as structs, its refusals as A2A's errors (O-9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp, Scope

from interlock.gateway.a2a.wire import A2AError, GatewayRefusal
from interlock.gateway.rest.internal_rest import InternalResponse, InternalRest
from interlock.protocol.api.operation import SSE
from interlock.protocol.problems import full_sentence
from interlock.sdk.follower import EventParser

T = TypeVar("T")
_PASSED_BACK = frozenset({b"retry-after", b"www-authenticate"})


class InternalApi:
    """Calls for one request, whose scope is `scope`. `rest` is the REST API as an ASGI callable."""

    def __init__(self, rest: ASGIApp, scope: Scope) -> None:
        self._rest = InternalRest(rest, scope)

    async def read(self, kind: type[T], path: str, **query: str | int | None) -> T:
        """Return the resource of a GET. Raises GatewayRefusal."""
        return msgspec.json.decode(await self._whole(await self._rest.send("GET", path, _query(query))), type=kind)

    async def change(self, kind: type[T], path: str, body: Mapping[str, Any], idempotency_key: str) -> T:
        """Return the resource of a POST. Raises GatewayRefusal."""
        headers = ((b"content-type", b"application/json"), (b"idempotency-key", idempotency_key.encode()))
        response = await self._rest.send("POST", path, b"", headers, msgspec.json.encode(body))
        return msgspec.json.decode(await self._whole(response), type=kind)

    @asynccontextmanager
    async def events(self, path: str, **query: str | int | None) -> AsyncGenerator[AsyncGenerator[tuple[str, bytes]]]:
        """Follow a stream of server-sent events as (event, data), until it is over. Raises GatewayRefusal."""
        response = await self._rest.send("GET", path, _query(query), ((b"accept", SSE.encode()),))
        try:
            yield _events(response, path)
        finally:
            await response.close()

    async def _whole(self, response: InternalResponse) -> bytes:
        try:
            answer = await response.read()
        finally:
            await response.close()
        _check(response, answer)
        return answer


async def _events(response: InternalResponse, path: str) -> AsyncGenerator[tuple[str, bytes]]:
    if response.status == 204:
        return
    if response.status >= 400:
        _check(response, await response.read())
    parser = EventParser()
    async for chunk in response.chunks():
        for _, event, data in parser.feed(chunk):
            if event in ("behind", "unauthorized"):
                raise GatewayRefusal(503 if event == "behind" else 401, event.title(),
                                     f"The stream {path} was ended by the gateway ({event}). Subscribe to the task "
                                     "again.")
            yield event, data


def _query(query: Mapping[str, str | int | None]) -> bytes:
    return urlencode({name: value for name, value in query.items() if value is not None}).encode()


def _check(response: InternalResponse, body: bytes) -> None:
    """Raise GatewayRefusal for a refusal of the API."""
    if response.status < 400:
        return
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise A2AError("INTERNAL_ERROR", "Something failed inside the gateway; its log has the details.") from None
    explained = " ".join(full_sentence(str(problem[name])) for name in ("detail", "hint") if problem.get(name))
    headers = tuple((name, value) for name, value in response.headers if name in _PASSED_BACK)
    raise GatewayRefusal(response.status, str(problem.get("code")), explained, headers)
