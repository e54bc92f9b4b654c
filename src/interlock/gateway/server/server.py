"""The gateway's only listener: the API and the runners' endpoint behind one request guard, and its start and stop."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.config import GatewaySection
from interlock.gateway.a2a import BASE as A2A_BASE
from interlock.gateway.a2a.endpoint import A2AEndpoint
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.acp.endpoint import PATHS as ACP_PATHS
from interlock.gateway.acp.endpoint import AcpEndpoint
from interlock.gateway.mcp.endpoint import PATHS as MCP_PATHS
from interlock.gateway.mcp.endpoint import McpEndpoint
from interlock.gateway.rest import socket as socket_streams
from interlock.gateway.rest.answers import encode, problem_answer, problem_document
from interlock.gateway.rest.app import RestApp
from interlock.gateway.rest.request.request_guard import Peers, RequestGuard, headers_of
from interlock.gateway.rest.service import Front
from interlock.gateway.server.connections import NORMAL_TIMEOUTS, SenderTimeouts, SocketConnection, protocol_class
from interlock.gateway.server.transport import BindRefused
from interlock.protocol.limits import MAX_MESSAGE_BYTES, PING_INTERVAL_S, PING_TIMEOUT_S
from interlock.protocol.problems import Problem

RAWP_PATH = "/rawp"
STOP_GRACE_S = 5
"""How long open responses may take to end after their streams were ended."""
CLOSE_TURNS = 16
"""Iterations of the loop between the end of the streams and that of the connections. A stream takes about five to send
its end, however many there are; one that has to wait for its reader is closed without."""
UNREAD_TIMEOUT_MS = 120_000
"""A connection whose peer reads and acknowledges nothing for this long is dropped by the kernel, also if the response
is complete: without it a client that reads nothing would keep it for ever."""
WS_QUEUE = 64
BACKLOG = 512
REST = "rest"
"""The name of the door that serves every other request."""


class Door(NamedTuple):
    """The paths of a door, and the types of the connections that it serves there (`http`, `websocket`)."""

    paths: frozenset[str]
    scope_types: tuple[str, ...]


DOORS: Mapping[str, Door] = {
    "stream": Door(socket_streams.PATHS, ("websocket",)),
    "acp": Door(ACP_PATHS, ("websocket",)),
    "runner": Door(frozenset({RAWP_PATH}), ("websocket", "http")),
    "mcp": Door(MCP_PATHS, ("http",)),
    "a2a": Door(frozenset({A2A_BASE}), ("http",)),
}
"""Everything that the listener serves besides REST, by name. A2A's paths begin with its base."""
_BY_PATH = {(scope_type, path): name for name, door in DOORS.items() for scope_type in door.scope_types
            for path in door.paths}


def build_app(front: Front, config: GatewaySection, rawp: ASGIApp, rest: RestApp | None = None,
              pushes: TaskPushes | None = None) -> ASGIApp:
    """Put the request guard before everything; `/rawp` stays a raw callable, all else is the API: `rest`, if the caller
    has created it already; `pushes` notifies clients of A2A."""
    guard = RequestGuard(config)
    peers = Peers(config)
    rest = rest or RestApp(front)
    served: dict[str, ASGIApp] = {
        REST: rest, "stream": rest.socket, "runner": rawp, "acp": AcpEndpoint(rest),
        "mcp": McpEndpoint(rest, guard.is_secure, front.desk.viewers.on_close),
        "a2a": A2AEndpoint(rest, guard.is_secure, pushes)}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        try:
            source = peers.source(scope)
            guard.check(headers_of(scope))
            # Behind a proxy every request comes from the same port; only the address distinguishes them.
            scope["client"] = (source, 0) if source else None
            await served[_door(scope["type"], scope["path"])](scope, receive, send)
        except Problem as problem:  # The guard's, or of a door that has not answered yet.
            front.metrics.refused(problem.code)
            await _refuse(problem, scope, receive, send)

    return app


def _door(scope_type: str, path: str) -> str:
    """Return the name of the door that serves a request. Raises Problem NotFound for a WebSocket without one."""
    if (found := _BY_PATH.get((scope_type, path))) is not None:
        return found
    if scope_type == "websocket":
        raise Problem("NotFound", f"There is no WebSocket at {path}.")
    return "a2a" if path.startswith(A2A_BASE) else REST


async def _lifespan(receive: Receive, send: Send) -> None:
    """Do nothing: the composition root starts and stops everything."""
    while (await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await problem_answer(problem, scope["path"])(scope, receive, send)
        return
    await receive()
    body = encode(problem_document(problem, scope["path"]))
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": problem.kind.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def listen(host: str, port: int, *, public: bool = False, unread_ms: int = UNREAD_TIMEOUT_MS) -> socket.socket:
    """Bind a loopback address, or with `public` any; port 0 selects a free one. Raises BindRefused.

    A public address without TLS would send keys unencrypted (L-2), so it is refused before anything is bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise BindRefused(f"{host!r} is not an address of this machine; set `gateway.host` to 127.0.0.1.") from None
    family, kind, protocol, _, address = found[0]
    if not public and not all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found):
        raise BindRefused(f"{host} is reachable from other machines, and keys would travel in clear; "
                          "give it a certificate (`gateway.tls_cert`, `gateway.tls_key`), or listen on 127.0.0.1, or "
                          "name the TLS proxy in front (`gateway.behind_proxy`, `gateway.trusted_proxies`).")
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; its connections inherit it.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise BindRefused(f"{host}:{port} cannot be listened on: {error.strerror}; is a gateway running already? "
                          "Choose another port with --port, or set `gateway.port`.") from None
    listener.setblocking(False)
    return listener


def port_of(listener: socket.socket) -> int:
    """Return the port that was bound."""
    return cast("tuple[Any, ...]", listener.getsockname())[1]


class GatewayServer(uvicorn.Server):
    """A uvicorn server that ends the streams before it waits for open responses."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then stop as uvicorn does, within STOP_GRACE_S. uvicorn closes WebSockets at once, so each
        stream first gets its iterations to send its last message."""
        self._on_stop()
        for _ in range(CLOSE_TURNS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)


class Pings(NamedTuple):
    """How a silent link is detected (L-5); tests use other values."""

    interval_s: float = PING_INTERVAL_S
    timeout_s: float = PING_TIMEOUT_S


NORMAL_PINGS = Pings()


def make_server(app: ASGIApp, on_stop: Callable[[], None], tls: ssl.SSLContext | None = None,
                pings: Pings = NORMAL_PINGS, timeouts: SenderTimeouts = NORMAL_TIMEOUTS) -> GatewayServer:
    """Set up uvicorn with the settings that measured best: uvloop, httptools, sans-I/O WebSocket, no compression.

    One ping is under way at a time: it is sent every `pings.interval_s` and must be answered within its timeout, which
    is two intervals, so a dead link is detected when two pings would have been missed (L-5). Setting `should_exit` of
    the server stops it.
    """
    config = uvicorn.Config(
        cast("Any", app), loop="auto", http=protocol_class(timeouts), ws=SocketConnection,
        ws_max_size=MAX_MESSAGE_BYTES, ws_max_queue=WS_QUEUE, ws_ping_interval=pings.interval_s,
        ws_ping_timeout=pings.timeout_s,
        ws_per_message_deflate=False, lifespan="off", log_config=None, access_log=False, server_header=False,
        date_header=True, proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        timeout_graceful_shutdown=STOP_GRACE_S, backlog=BACKLOG,
    )
    return GatewayServer(config, on_stop)


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    on_stop: Callable[[], None],
    ready: Callable[[int], None] = lambda _port: None,
    stopping: asyncio.Event | None = None,
    tls: ssl.SSLContext | None = None,
    public: bool = False,
) -> None:
    """Listen until SIGINT or SIGTERM, or until `stopping` is set. `on_stop` ends the streams (`Viewers.close`); `ready`
    is called with the port as soon as connections are accepted. Raises BindRefused."""
    listener = listen(host, port, public=public)
    server = make_server(app, on_stop, tls)
    watching = asyncio.ensure_future(_stop_when(stopping, server)) if stopping is not None else None
    # The socket listens already: new connections wait in its backlog until the loop accepts them.
    ready(port_of(listener))
    try:
        await server.serve([listener])
    finally:
        if watching is not None:
            watching.cancel()
        listener.close()


async def _stop_when(stopping: asyncio.Event, server: GatewayServer) -> None:
    await stopping.wait()
    server.should_exit = True
