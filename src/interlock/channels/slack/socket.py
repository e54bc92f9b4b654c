"""The connection of Socket Mode: receives envelopes, and confirms each once its effects are durable (O-12).

It uses `websockets` instead of slack-sdk's client, which queues without a limit, and after a lost connection waits for
its next ping before it reconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from interlock.channels.slack.events import Envelope, decode_envelope

MAX_WAITING = 100
"""Envelopes that are received and not handled; above it the socket is not read, and Slack sends again later."""
MAX_ENVELOPE_BYTES = 1_048_576
PAUSE_S = 0.5
PAUSE_MAX_S = 30.0
BATCH = 50
CLOSE_S = 1.0
"""Slack leaves the TCP connection open after the close handshake; a longer wait would be a gap without a connection."""

log = structlog.get_logger("interlock.slack")


class SlackSocket:
    """Maintains one connection. `open_url` returns the address of a new one, which is valid once."""

    def __init__(self, open_url: Callable[[], Awaitable[str]]) -> None:
        self._open_url = open_url
        self._waiting: asyncio.Queue[Envelope] = asyncio.Queue(MAX_WAITING)
        self._connection: ClientConnection | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and reconnect whenever the connection is lost."""
        self._running = self._running or asyncio.create_task(self._run(), name="slack-socket")

    async def stop(self) -> None:
        """Close the connection."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def take(self) -> list[Envelope]:
        """Wait for an envelope, and return all that were received. Raises the errors of `open_url`."""
        found = [await self._next()]
        while len(found) < BATCH and not self._waiting.empty():
            found.append(self._waiting.get_nowait())
        return found

    async def confirm(self, envelope_id: str) -> None:
        """Confirm an envelope. If the connection is lost meanwhile Slack sends it again."""
        if self._connection is not None and envelope_id:
            with suppress(ConnectionClosed):
                await self._connection.send(msgspec.json.encode({"envelope_id": envelope_id}).decode())

    async def _next(self) -> Envelope:
        """Wait for an envelope, or for the end of the connection's task, which is an error."""
        running = self._running
        assert running is not None, "start comes first"
        waiting = asyncio.ensure_future(self._waiting.get())
        try:
            await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                running.result()
            return await waiting
        finally:
            waiting.cancel()

    async def _run(self) -> None:
        pause_s = PAUSE_S
        while True:
            url = await self._open_url()
            try:
                async with connect(url, max_size=MAX_ENVELOPE_BYTES, close_timeout=CLOSE_S) as connection:
                    self._connection = connection
                    if await self._read(connection):
                        pause_s = PAUSE_S
                        continue
            except (OSError, InvalidHandshake, InvalidURI, ConnectionClosed, TimeoutError) as error:
                log.warning("slack_disconnected", error=type(error).__name__, again_in_s=pause_s)
            finally:
                self._connection = None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _read(self, connection: ClientConnection) -> bool:
        """Queue envelopes until the connection ends; return True if Slack requests another connection."""
        async for raw in connection:
            try:
                envelope = decode_envelope(raw)
            except msgspec.MsgspecError:
                log.warning("slack_envelope_unreadable", size=len(raw))
                continue
            if envelope.type == "disconnect":
                return envelope.reason in ("warning", "refresh_requested")
            if envelope.type != "hello":
                await self._waiting.put(envelope)
        return False
