"""`/mcp`: the tools of `interlock mcp` over MCP's streamable HTTP (O-8).

A client authenticates as for any request of the gateway, by its key. It may do what its key may do over REST, since the
tools are a client of the REST API with that very credential; and no tool votes. Each POST is independent: no MCP
session is stored here, so that any gateway of a cluster can answer it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from interlock.gateway.rest.app import RestApp, read_body
from interlock.gateway.rest.request.json_body import read_json
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.ports.signals import Signal
from interlock.protocol.extras import install
from interlock.protocol.problems import Problem

PATHS = frozenset({"/mcp", "/v1/mcp"})
EXCHANGE = "interlock.gateway.mcp.exchange"


class McpEndpoint:
    """Serves the requests at PATHS. `rest` is the REST API; `secure` returns whether a request for a host name came, or
    came to the proxy, over TLS; `on_stop` is sent when the gateway stops."""

    def __init__(self, rest: RestApp, secure: Callable[[str], bool], on_stop: Signal[[]]) -> None:
        self._rest = rest
        self._secure = secure
        self._open = set[asyncio.Event]()
        on_stop.connect(self._stop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose host and origin were already checked. Raises Problem before it is answered."""
        if scope["method"] != "POST":
            raise Problem("MethodNotAllowed", f"{scope['path']} takes POST: no stream is opened with GET, and there is "
                          "no session to delete.", headers={"Allow": "POST"})
        async with self._rest.connection(scope, "sse") as opening:
            try:
                body = await read_body(Request(scope, receive), optional=False)
            except ClientDisconnect:
                return
            await read_json(body)
            await self._load()
            from interlock.gateway.mcp.exchange import serve_exchange

            host = headers_of(scope)[b"host"][0]
            origin = f"{'https' if self._secure(host) else 'http'}://{host}"
            stopping = asyncio.Event()
            self._open.add(stopping)
            try:
                await serve_exchange(self._rest, origin, scope, _replayed(body, receive), send, opening.lost, stopping)
            finally:
                self._open.discard(stopping)

    def _stop(self) -> None:
        for stopping in self._open:
            stopping.set()

    async def _load(self) -> None:
        """Load MCP's SDK with the first client, off the event loop: most gateways have no client here."""
        try:
            await asyncio.to_thread(import_module, EXCHANGE)
        except ModuleNotFoundError as error:
            raise Problem("Unavailable", f"The MCP library is not installed at this gateway ({error.name}).",
                          hint=f"Install it: {install('mcp')}") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body that was already read, and then the following messages."""
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay
