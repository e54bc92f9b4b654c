"""The SDK's transport to the REST API in this process, with the credential of the connection being served (O-7,
O-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.types import ASGIApp, Scope

from interlock.gateway.rest.internal_rest import InternalResponse, InternalRest, ResponseCut
from interlock.gateway.rest.request.authentication import ADMITTED, CREDENTIAL
from interlock.sdk import AsyncInterlock

_OF_THE_CONNECTION = frozenset({b"host", b"user-agent"})
_OF_THE_REQUEST = frozenset({b"accept", b"content-type", b"idempotency-key", b"last-event-id", b"prefer"})
_PLACE = "http://127.0.0.1"
_KEY = "of-the-connection"
"""The SDK's key. It is not sent: the credential of the connection is looked up instead."""


def internal_client(rest: ASGIApp, scope: Scope) -> AsyncInterlock:
    """Return a client of `rest` that acts as the connection of `scope`, which has been authenticated."""
    return AsyncInterlock(_PLACE, _KEY, transport=InternalTransport(InternalRest(rest, _inner(scope))))


class InternalTransport(httpx2.AsyncBaseTransport):
    """A transport to `rest`, with bodies streamed as they are produced."""

    def __init__(self, rest: InternalRest) -> None:
        self._rest = rest

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. Raises httpx2.ReadError if the API fails."""
        headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() in _OF_THE_REQUEST]
        raw_path, _, query = request.url.raw_path.partition(b"?")
        try:
            response = await self._rest.send(request.method, request.url.path, query, headers, await request.aread(),
                                             raw_path=raw_path)
        except ResponseCut as cut:
            raise httpx2.ReadError(str(cut), request=request) from None
        return httpx2.Response(response.status, headers=response.headers, stream=_Body(response), request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: InternalResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.chunks():
                yield chunk
        except ResponseCut as cut:
            raise httpx2.ReadError(str(cut)) from None

    async def aclose(self) -> None:
        """Abandon the response."""
        await self._response.close()


def _inner(scope: Scope) -> dict[str, Any]:
    """Return the scope of the requests. Its `state` is empty: a stream that stalls ends alone, without the
    connection."""
    return {
        "type": "http", "asgi": scope["asgi"], "http_version": "1.1", "scheme": "http", "root_path": "",
        "headers": [(name, value) for name, value in scope["headers"] if name in _OF_THE_CONNECTION],
        "client": scope.get("client"), "server": scope.get("server"), "state": {}, ADMITTED: scope[CREDENTIAL]}
