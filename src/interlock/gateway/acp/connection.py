"""A connection at `/acp`: the door between a WebSocket and the REST API (O-7)."""

from __future__ import annotations

import asyncio

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.doors.acp.door import AcpDoor
from interlock.doors.acp.surface import Surface
from interlock.gateway.acp.web_socket import WebSocketPipes
from interlock.gateway.rest.internal_transport import internal_client
from interlock.gateway.rest.socket import STALLED, UNAUTHORIZED
from interlock.gateway.rest.streams import END_TIMEOUT_S, abort, bound

REPORT_CHARS = 4_000
"""Maximum logged length of a report of the door: parts of it are the client's."""

log = structlog.get_logger("interlock.gateway")


def _report(line: str) -> None:
    log.warning("acp_door", report=line[:REPORT_CHARS])


GATEWAY = Surface(auth_methods=(), choice="in the URL (`/acp?agent=ID`)", report=_report, is_local=False)
"""No authentication method: the connection's credential has been checked when the door opens."""


async def serve_connection(rest: ASGIApp, scope: Scope, receive: Receive, send: Send, lost: asyncio.Event,
                           agent_id: str | None, runner_id: str | None) -> None:
    """Accept the WebSocket of `scope`, which has been authenticated, and serve it until either side ends it, or its
    credential is `lost`."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})
    bound(scope)
    pipes = WebSocketPipes(receive, send)
    door = AcpDoor(pipes, lambda: internal_client(rest, scope), agent_id, runner_id, on_exit="detach", surface=GATEWAY)
    serving = asyncio.create_task(door.run(), name="acp door")
    ends = [asyncio.create_task(event.wait()) for event in (pipes.over, lost)]
    try:
        await asyncio.wait((serving, *ends), return_when=asyncio.FIRST_COMPLETED)
        if lost.is_set():
            await _close(send, UNAUTHORIZED, "the credential is accepted no more")
        elif pipes.code == STALLED and await abort(scope):
            log.info("viewer_stalled", path=scope["path"])  # A close frame would not reach the client.
        elif pipes.code is not None:
            await _close(send, pipes.code, pipes.reason)
    finally:
        for task in (serving, *ends):
            task.cancel()
        await asyncio.gather(serving, *ends, return_exceptions=True)


async def _close(send: Send, code: int, reason: str) -> None:
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            await send({"type": "websocket.close", "code": code, "reason": reason})
    except (TimeoutError, OSError):
        return  # The client has left, or reads nothing: only the connection can be ended.
