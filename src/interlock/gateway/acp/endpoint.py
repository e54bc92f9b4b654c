"""`/acp`: the door of `interlock acp` over a WebSocket, for a client that can start no process (O-7).

The client authenticates as for any WebSocket of the gateway, by its key or by a ticket, and names an agent and a runner
in the query: `/acp?agent=ID&runner=ID`. What it may do is what its key may do over REST, since the door is a client of
the REST API with that very credential.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from typing import NamedTuple
from urllib.parse import parse_qsl

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.doors.acp.door import AcpDoor
from interlock.doors.acp.surface import Surface
from interlock.gateway.internal_transport import internal_client
from interlock.gateway.rest.app import RestApp
from interlock.gateway.rest.socket import BAD_REQUEST, STALLED, UNAUTHORIZED
from interlock.gateway.rest.streams import FAREWELL_S, SEND_STALL_S, abort, bound
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.limits import MAX_MESSAGE_BYTES
from interlock.protocol.problems import Place, Problem

TOO_LONG = 1009
"""Close code: a message is longer than MAX_MESSAGE_BYTES."""


class WebSocketPipes:
    """A WebSocket that was accepted. `over` is set once the connection cannot go on; `code` is then what it is to be
    closed with, None if the client has left."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._writing = asyncio.Lock()
        self.over = asyncio.Event()
        self.code: int | None = None
        self.reason = ""

    async def write(self, data: bytes) -> None:
        """Write whole lines, a message each. Raises BrokenPipeError if the client has left, or has read nothing for
        SEND_STALL_S."""
        try:
            async with asyncio.timeout(SEND_STALL_S), self._writing:
                for line in data.splitlines():
                    if self.over.is_set():
                        raise BrokenPipeError("the connection is over")
                    await self._send({"type": "websocket.send", "text": line.decode()})
        except TimeoutError:
            self._end(STALLED, "too slow to keep up; load the session again")
            raise BrokenPipeError("the client reads too slowly") from None
        except BrokenPipeError:
            raise
        except OSError:  # uvicorn's ClientDisconnected: either side has closed the connection meanwhile.
            self._end()
            raise BrokenPipeError("the client has left") from None

    async def lines(self) -> AsyncIterator[bytes]:
        """The client's messages, until it leaves or sends what is not one."""
        while not self.over.is_set():
            message = await self._receive()
            if message["type"] != "websocket.receive":
                self._end()
                return
            text = message.get("text")
            if text is None:
                self._end(BAD_REQUEST, "a message is a text frame with one JSON-RPC message")
                return
            if len(line := text.encode()) > MAX_MESSAGE_BYTES:
                self._end(TOO_LONG, f"a message has at most {MAX_MESSAGE_BYTES} bytes")
                return
            yield line

    def _end(self, code: int | None = None, reason: str = "") -> None:
        if not self.over.is_set():
            self.code, self.reason = code, reason
            self.over.set()


REPORT_CHARS = 4_000
"""What is logged of one report of the door: parts of it are the client's."""

log = structlog.get_logger("interlock.gateway")


def _report(line: str) -> None:
    log.warning("acp_door", report=line[:REPORT_CHARS])


GATEWAY = Surface(auth_methods=(), choice="in the URL (`/acp?agent=ID`)", report=_report, is_local=False)
"""No method of authentication: the credential of the connection has been checked when the door opens."""


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
            log.info("viewer_stalled", path=scope["path"])  # A close would not get through to it.
        elif pipes.code is not None:
            await _close(send, pipes.code, pipes.reason)
    finally:
        for task in (serving, *ends):
            task.cancel()
        await asyncio.gather(serving, *ends, return_exceptions=True)


async def _close(send: Send, code: int, reason: str) -> None:
    try:
        async with asyncio.timeout(FAREWELL_S):
            await send({"type": "websocket.close", "code": code, "reason": reason})
    except (TimeoutError, OSError):
        return  # The client has left, or reads nothing: the connection's end is all that it gets.


PATHS = frozenset({"/acp", "/v1/acp"})
RUNNER_CHARS = 256
CONNECTION = "interlock.gateway.acp.endpoint"


class Selection(NamedTuple):
    """What the sessions of a connection use; None leaves it open."""

    agent_id: str | None
    runner_id: str | None


class AcpEndpoint:
    """Serves the WebSockets at PATHS. `rest` is the REST API."""

    def __init__(self, rest: RestApp) -> None:
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, whose host and origin were checked before. Raises Problem before it is accepted."""
        async with self._rest.connection(scope) as opening:
            chosen = selection(scope["query_string"])
            # The SDK is loaded with the first client, and beside the loop: most gateways have no client here.
            await asyncio.to_thread(import_module, CONNECTION)
            from interlock.gateway.acp.endpoint import serve_connection

            await serve_connection(self._rest, scope, receive, send, opening.lost, *chosen)


def selection(query: bytes) -> Selection:
    """Read the agent and the runner from the query of the URL. Raises Problem InvalidPayload."""
    found = dict[str, str]()
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in ("agent", "runner"):
            raise _invalid(name, f"There is no query parameter `{name}` here; known: agent, runner.")
        if name in found:
            raise _invalid(name, f"The query parameter `{name}` is there twice.")
        found[name] = value
    agent_id, runner_id = found.get("agent"), found.get("runner")
    if agent_id is not None and not AGENT_ID.fullmatch(agent_id):
        raise _invalid("agent", f"{agent_id!r} is not an agent's id.")
    if runner_id is not None and not 0 < len(runner_id) <= RUNNER_CHARS:
        raise _invalid("runner", f"A runner's id has 1 to {RUNNER_CHARS} characters.")
    return Selection(agent_id, runner_id)


def _invalid(name: str, sentence: str) -> Problem:
    return Problem("InvalidPayload", sentence, errors=(Place(name, "not accepted"),))
