"""A WebSocket as the pipes of a JSON-RPC connection: one message in each text frame (O-7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Receive, Send

from interlock.gateway.rest.socket import BAD_REQUEST, STALLED
from interlock.gateway.rest.streams import SEND_STALL_S
from interlock.protocol.limits import MAX_MESSAGE_BYTES

TOO_LONG = 1009
"""Close code: a message is longer than MAX_MESSAGE_BYTES."""


class WebSocketPipes:
    """An accepted WebSocket. `over` is set once the connection cannot continue; `code` is then the close code to send,
    None if the client has left."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._writing = asyncio.Lock()
        self.over = asyncio.Event()
        self.code: int | None = None
        self.reason = ""

    async def write(self, data: bytes) -> None:
        """Write complete lines, each as a message. Raises BrokenPipeError if the client has left, or has read nothing
        for SEND_STALL_S."""
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
        """Yield the client's messages, until it leaves or sends an invalid one."""
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
