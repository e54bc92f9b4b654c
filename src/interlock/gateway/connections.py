"""uvicorn's connections, with ways for an answer to end its own at once and to bound what waits in it (S-4)."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from interlock.gateway.rest.answers import encode, problem_document
from interlock.protocol.limits import KIB
from interlock.protocol.problems import Problem

VIEWER_SEND_BYTES = 128 * KIB
"""Send buffer of the kernel for a viewer. By default it grows to megabytes, and a viewer that reads nothing is noticed
only once they are full. A viewer 100 ms away is still sent a megabyte a second."""


MAX_HEAD_BYTES = 64 * KIB
"""Of a request's target and headers together: no one's credential was looked at yet."""
READ_BYTES = 256 * KIB
"""Maximum bytes of one read."""

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for no time: what waits in the kernel is dropped too, and the other side sees it at once."""


def _ways(transport: Any) -> dict[str, Any]:
    """What an answer may do with its connection. `abort` ends it at once: uvicorn closes one by writing first what
    waits, and to a viewer that reads nothing that never ends. `bound` has the kernel keep VIEWER_SEND_BYTES at most."""

    def choose(option: int, value: int | bytes) -> None:
        with suppress(OSError, ValueError):  # The connection is over already: uvloop says "negative file descriptor".
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, value)

    def abort() -> None:
        choose(socket.SO_LINGER, RESET)
        transport.abort()

    return {"abort": abort, "bound": lambda: choose(socket.SO_SNDBUF, VIEWER_SEND_BYTES)}


class HeadTooLarge(ValueError):
    """The head of a request, or what follows its body, is longer than is read."""


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection that an answer can end and bound (S-4), whose requests have heads of a bounded size, and are
    refused in the form of every refusal where they cannot be read (F-1)."""

    _head = 0
    """Bytes of this request's target and headers so far."""
    _unread = 0
    """Bytes that came since the parser last reported anything: one header that does not end."""

    def on_message_begin(self) -> None:
        """Make the scope of a request."""
        super().on_message_begin()
        self._head = self._unread = 0
        cast("dict[str, Any]", self.scope)["state"].update(_ways(self.transport))

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target. The parser passes on what is raised here, and the request is refused."""
        self._unread = 0
        self._head += len(url)
        if self._head > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, of the head or behind a body in chunks."""
        self._unread = 0
        self._head += len(name) + len(value)
        if self._head > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body: how long one may be is for who reads it."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unread = 0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD_BYTES + READ_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request, and close."""
        cycle: Any = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            large = max(self._head, self._unread) > MAX_HEAD_BYTES
            self.transport.write(_TOO_LARGE if large else _NO_REQUEST)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # What would still be answered would stand behind our own answer.
        self.transport.close()


def refusal(status: bytes, problem: Problem) -> bytes:
    """Write a whole answer to a request that never came to be one."""
    body = encode(problem_document(problem, ""))
    return (b"HTTP/1.1 " + status + b"\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)) + body


_NO_REQUEST = refusal(b"400 Bad Request", Problem("InvalidPayload", "This is not a request of HTTP/1.1."))
_TOO_LARGE = refusal(b"400 Bad Request", Problem(
    "InvalidPayload", f"The request's target and headers are longer than {MAX_HEAD_BYTES} bytes."))


class SocketConnection(WebSocketsSansIOProtocol):
    """The same of a WebSocket."""

    def handle_connect(self, event: Request) -> None:
        """Make the scope, and have the application asked."""
        super().handle_connect(event)
        cast("dict[str, Any]", self.scope)["state"].update(_ways(self.transport))


HEAD_TIMEOUT_S = 10.0
"""From a connection's first moment, or the first byte of its next request, to the end of the request's head."""
BODY_TIMEOUT_S = 120.0
"""From the head to the end of the body: 8 MiB at 70 kB a second."""


class SenderTimeouts(NamedTuple):
    """How long a sender may take; others than these only in tests."""

    head_s: float = HEAD_TIMEOUT_S
    body_s: float = BODY_TIMEOUT_S


NORMAL_TIMEOUTS = SenderTimeouts()


def protocol_class(timeouts: SenderTimeouts = NORMAL_TIMEOUTS) -> type[HttpConnection]:
    """Make uvicorn's protocol with these limits: it makes one for each connection, and passes nothing of ours."""

    class PatientProtocol(HttpConnection):
        """Ends a connection whose request does not arrive in time: with 408 where nothing was answered yet. A clock
        runs for what has not arrived at the end of a piece of data; a request that came as a whole needs none."""

        _clock: asyncio.TimerHandle | None = None
        _awaited: Literal["", "head", "body"] = ""
        """What of a request has not arrived as a whole."""
        _timed: Literal["", "head", "body", "over"] = ""
        """What the clock is for; `over` if that has arrived."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._awaited = "head"
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._awaited = ""
            self._arm()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._awaited != self._timed:
                self._arm()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._awaited = "head"  # The first request's clock runs since the connection was made.

        def on_headers_complete(self) -> None:
            self._awaited = "body"
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._awaited = ""
            if self._clock is not None:  # What follows in the same piece of data has a clock of its own.
                self._timed = "over"
            super().on_message_complete()

        def handle_websocket_upgrade(self) -> None:
            self._awaited = ""
            self._arm()
            super().handle_websocket_upgrade()

        def _arm(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None
            self._timed = self._awaited
            if self._awaited:
                after_s = timeouts.head_s if self._awaited == "head" else timeouts.body_s
                self._clock = self.loop.call_later(after_s, self._time_out)

        def _time_out(self) -> None:
            self._clock = None
            if self.transport.is_closing():
                return
            cycle: Any = self.cycle
            answered = bool(cycle and cycle.response_started)
            if not answered or (self._timed != "body" and cycle.response_complete):
                self.transport.write(_TOO_SLOW)
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True  # What would still be answered would stand behind our own answer.
            self.transport.close()

    return PatientProtocol


_TOO_SLOW = refusal(b"408 Request Timeout", Problem("RequestTimeout", "The request did not arrive in time."))
