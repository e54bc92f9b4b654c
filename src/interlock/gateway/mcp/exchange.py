"""A request at `/mcp`, answered by MCP's own SDK over the tools of its credential (O-8)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import ContextVar
from functools import cache
from typing import Any

import structlog
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.doors.mcp.server import make_server
from interlock.doors.mcp.tools import GatewayTools
from interlock.gateway.rest.internal_transport import internal_client
from interlock.gateway.rest.request.authentication import rates_beside
from interlock.gateway.rest.streams import SEND_STALL_S, abort, bound
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.problems import Problem

log = structlog.get_logger("interlock.gateway")

_tools: ContextVar[GatewayTools] = ContextVar("_tools")
_DOOR = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""Host and origin were checked by the gateway's own guard, by the gateway's config (K-2)."""


async def serve_exchange(rest: ASGIApp, origin: str, scope: Scope, receive: Receive, send: Send, lost: asyncio.Event,
                         stopping: asyncio.Event) -> None:
    """Serve an authenticated request, until it is answered, its client leaves, its credential is `lost` or the gateway
    is `stopping`. Raises Problem if no response has started by then."""
    answer = _Answer(scope, send)
    serving = asyncio.create_task(_serve(rest, origin, scope, receive, answer.send), name="mcp exchange")
    ends = [asyncio.create_task(event.wait()) for event in (lost, stopping)]
    try:
        await asyncio.wait((serving, *ends), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, *ends):
            task.cancel()
        await asyncio.gather(serving, *ends, return_exceptions=True)
    if answer.is_whole:
        return
    failure = None if serving.cancelled() else serving.exception()
    if failure is not None and not answer.stalled:
        log.error("mcp_failed", path=scope["path"], exc_info=failure)
    if answer.is_begun:  # Only the connection can be ended now.
        await abort(scope)
    elif lost.is_set():
        raise Problem("Unauthorized", "The credential is accepted no more.")
    elif stopping.is_set():
        raise Problem("Unavailable", "This gateway is being stopped.", headers={"Retry-After": "1"})
    elif failure is not None:
        raise Problem("InternalError", "Something failed inside the gateway; its log has the details.")


async def _serve(rest: ASGIApp, origin: str, scope: Scope, receive: Receive, send: Send) -> None:
    tools = GatewayTools(internal_client(rest, scope), origin)
    _tools.set(tools)
    server = _server()
    # A manager serves once; its creation costs far less than a tool call.
    server.streamable_http_app(stateless_http=True, transport_security=_DOOR, max_request_body_size=MAX_BODY_BYTES)
    manager = server.session_manager
    try:
        async with manager.run():
            await manager.handle_request(scope, receive, send)
    finally:
        await tools.close()


class _Answer:
    """The response as it is sent, with the headers of K-3; it is abandoned if the client reads nothing for
    SEND_STALL_S."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.is_begun = False
        self.is_whole = False
        self.stalled = False
        self._scope = scope
        self._send = send

    async def send(self, message: Message) -> None:
        """Send a part of the answer. Raises TimeoutError."""
        if message["type"] == "http.response.start":
            headers = message["headers"]
            message = {**message, "headers": [*headers, *rates_beside(self._scope, headers)]}
            bound(self._scope)
            self.is_begun = True
        try:
            async with asyncio.timeout(SEND_STALL_S):
                await self._send(message)
        except TimeoutError:
            self.stalled = True
            log.info("viewer_stalled", path=self._scope["path"])
            raise
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_whole = True


@cache
def _server() -> MCPServer[Any]:
    """Create the server, once. The SDK would redirect the process's logs to standard error: they stay as they are."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    server = make_server(_tools.get)
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)
        with contextlib.suppress(OSError):
            handler.close()
    root.setLevel(level)
    logging.getLogger("mcp").setLevel(logging.ERROR)  # Its warnings quote what any client may send.
    return server
