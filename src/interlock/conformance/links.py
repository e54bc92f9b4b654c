"""Links for conversations: one that dials as a runner, and a listener that waits for one as a gateway."""

from __future__ import annotations

import asyncio
import http
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.limits import MAX_MESSAGE_BYTES

DIALS_IN_S = 40.0
"""Maximum time until a runner dials again (L-5: at most 30 s between two attempts)."""
REACHED_S = 10.0
"""Limit within which a gateway answers a dial."""
CLOSE_S = 1.0
LINKS_WAITING = 16
"""Maximum number of a runner's links that wait to be used; further ones are dropped."""

Socket = ClientConnection | ServerConnection


class NoLink(Exception):
    """The other side could not be reached, or did not connect. The text is one sentence."""


class DialRefused(Exception):
    """A dial was answered with an HTTP status instead of a link."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the link was refused with HTTP {status}")
        self.status = status


class LinkSource(Protocol):
    """Provides links."""

    async def link(self, token: str | None, subprotocol: str | None) -> Socket:
        """Return a new link. Raises NoLink, and DialRefused when dialling."""
        ...


class Dialling:
    """We are the runner: each link is a new dial."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    async def link(self, token: str | None, subprotocol: str | None) -> Socket:
        """Dial with the runner's token, or with another; with our subprotocol, or with another."""
        try:
            return await connect(
                self._url, subprotocols=[Subprotocol(subprotocol or DPS_VERSION)], compression=None,
                additional_headers={"Authorization": f"Bearer {token or self._token}"}, max_size=MAX_MESSAGE_BYTES,
                open_timeout=REACHED_S, close_timeout=CLOSE_S, proxy=None)
        except InvalidStatus as refused:
            raise DialRefused(refused.response.status_code) from None
        except (OSError, TimeoutError, WebSocketException) as error:
            raise NoLink(f"{self._url} cannot be reached: {error}") from None


class Listening:
    """We are the gateway: a link is the runner's next connection."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._accepted: asyncio.Queue[ServerConnection] = asyncio.Queue(LINKS_WAITING)
        self.port = 0

    async def link(self, token: str | None, subprotocol: str | None) -> Socket:
        """Wait for the runner, which chooses token and subprotocol itself: both arguments must be None."""
        assert token is None
        assert subprotocol is None
        try:
            return await asyncio.wait_for(self._accepted.get(), DIALS_IN_S)
        except TimeoutError:
            raise NoLink(f"no runner dialled in within {DIALS_IN_S:.0f} s") from None

    @asynccontextmanager
    async def open(self, host: str, port: int) -> AsyncGenerator[Listening]:
        """Listen until the block ends. Raises OSError if the address cannot be used."""
        server: Server
        async with serve(self._serve, host, port, subprotocols=[Subprotocol(DPS_VERSION)], compression=None,
                         max_size=MAX_MESSAGE_BYTES, process_request=self._check, close_timeout=CLOSE_S) as server:
            self.port = int(next(iter(server.sockets)).getsockname()[1])
            yield self

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        authorization = request.headers.get("Authorization", "")
        if self._token is not None and authorization != f"Bearer {self._token}":
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "the runner's token is not the one expected\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        try:
            self._accepted.put_nowait(connection)
        except asyncio.QueueFull:
            return
        await connection.wait_closed()


class FrameLink:
    """A link whose frames are read as they arrive. A message may contain several, one per line (L-2)."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        """Receives the other side's close code; None if it just disconnected."""
        self._reading = asyncio.create_task(self._read(), name="conformance link")

    async def send(self, raw: bytes) -> None:
        """Send one frame. A frame that cannot be sent any more is lost, which a later expectation shows."""
        try:
            await self._socket.send(raw, text=True)
        except ConnectionClosed:
            return

    async def next(self, within_s: float) -> bytes | None:
        """Return the next frame; None if the link has ended. Raises TimeoutError."""
        raw = await asyncio.wait_for(self._frames.get(), within_s)
        if raw is None:
            self._frames.put_nowait(None)
        return raw

    async def cut(self) -> None:
        """Break the link without a close frame."""
        self._reading.cancel()
        self._socket.transport.abort()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.recv(decode=False)
                for raw in message.splitlines():
                    if raw.strip():
                        self._frames.put_nowait(raw)
        except ConnectionClosed as closed:
            self.closed.set_result(closed.rcvd.code if closed.rcvd else None)
        finally:
            self._frames.put_nowait(None)
