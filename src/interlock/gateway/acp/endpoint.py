"""`/acp`: the door of `interlock acp` over a WebSocket, for a client that can start no process (O-7).

The client authenticates as for any WebSocket of the gateway, by its key or by a ticket, and names an agent and a runner
in the query: `/acp?agent=ID&runner=ID`. What it may do is what its key may do over REST, since the door is a client of
the REST API with that very credential.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import parse_qsl

import structlog
from starlette.types import Receive, Scope, Send

from interlock.doors.acp.door import AcpDoor
from interlock.doors.acp.surface import Surface
from interlock.gateway.acp.internal_transport import internal_client
from interlock.gateway.acp.web_socket import WebSocketPipes
from interlock.gateway.rest.app import RestApp
from interlock.gateway.rest.socket import STALLED, UNAUTHORIZED
from interlock.gateway.rest.streams import FAREWELL_S, abort, bound
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.problems import Place, Problem

PATHS = frozenset({"/acp", "/v1/acp"})
REPORT_CHARS = 4_000
"""What is logged of one report of the door: parts of it are the client's."""
RUNNER_CHARS = 256

log = structlog.get_logger("interlock.gateway")


def _report(line: str) -> None:
    log.warning("acp_door", report=line[:REPORT_CHARS])


GATEWAY = Surface(auth_methods=(), choice="in the URL (`/acp?agent=ID`)", report=_report, is_local=False)
"""No method of authentication: the credential of the connection has been checked when the door opens."""


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
            await receive()  # websocket.connect
            await send({"type": "websocket.accept"})
            bound(scope)
            pipes = WebSocketPipes(receive, send)
            door = AcpDoor(pipes, lambda: internal_client(self._rest, scope), *chosen, on_exit="detach",
                           surface=GATEWAY)
            serving = asyncio.create_task(door.run(), name="acp door")
            ends = [asyncio.create_task(event.wait()) for event in (pipes.over, opening.lost)]
            try:
                await asyncio.wait((serving, *ends), return_when=asyncio.FIRST_COMPLETED)
                if opening.lost.is_set():
                    await _close(send, UNAUTHORIZED, "the credential is accepted no more")
                elif pipes.code == STALLED and await abort(scope):
                    log.info("viewer_stalled", path=scope["path"])  # A close would not get through to it.
                elif pipes.code is not None:
                    await _close(send, pipes.code, pipes.reason)
            finally:
                for task in (serving, *ends):
                    task.cancel()
                await asyncio.gather(serving, *ends, return_exceptions=True)


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


async def _close(send: Send, code: int, reason: str) -> None:
    try:
        async with asyncio.timeout(FAREWELL_S):
            await send({"type": "websocket.close", "code": code, "reason": reason})
    except (TimeoutError, OSError):
        return  # The client has left, or reads nothing: the connection's end is all that it gets.
