"""uvicorn's connections, extended so that a response can abort its own and limit its buffer (S-4)."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from interlock.gateway.rest.answers import encode, problem_document
from interlock.protocol.limits import KIB
from interlock.protocol.problems import Problem

VIEWER_SEND_BYTES = 128 * KIB
"""Kernel send buffer of a viewer's connection. By default it grows to megabytes, and a viewer that reads nothing is
detected only once they are full. A viewer 100 ms away is still sent a megabyte a second."""


MAX_HEAD_BYTES = 64 * KIB
"""Size of a request's target and headers together, which are read before any authentication."""
READ_BYTES = 256 * KIB
"""Maximum bytes of one read."""
MAX_PIPELINED = 16
"""Requests of a connection that wait for the response to an earlier one; a connection with more is closed. One read
may hold thousands, each of which takes a hundred times its bytes."""
MAX_FRAGMENTS = 1_024
"""Fragments of a WebSocket message; one more closes it. Empty ones count as well, which no limit of bytes covers."""

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of zero: the kernel's buffer is also dropped, and the other side sees it at once."""


def _ways(transport: Any) -> dict[str, Any]:
    """Return what a response may do with its connection. `abort` ends it at once: uvicorn closes one by writing its
    buffer first, which never ends for a viewer that reads nothing. `bound` limits the kernel's buffer to
    VIEWER_SEND_BYTES."""

    def choose(option: int, value: int | bytes) -> None:
        with suppress(OSError, ValueError):  # The connection is over already: uvloop says "negative file descriptor".
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, value)

    def abort() -> None:
        choose(socket.SO_LINGER, RESET)
        transport.abort()

    return {"abort": abort, "bound": lambda: choose(socket.SO_SNDBUF, VIEWER_SEND_BYTES)}


class HeadTooLarge(ValueError):
    """Raised if the head of a request, or what follows its body, exceeds the limit."""


class TooManyPipelined(ValueError):
    """Raised if more requests wait for an earlier response than MAX_PIPELINED."""


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection that a response can abort and bound (S-4). Its requests have heads of a bounded size, and
    unreadable ones are refused in the form of every refusal (F-1)."""

    _head = 0
    """Bytes of this request's target and headers so far."""
    _unread = 0
    """Bytes since the parser's last callback: a header that does not end."""
    _running: Any = None
    """The request whose response is under way, or was the last: `cycle` is the newest one, which may wait for it."""

    def connection_made(self, transport: Any) -> None:
        """Start a connection. Its state is part of the scope of each of its requests, and of the WebSocket that it may
        become."""
        super().connection_made(transport)
        self.app_state = self.app_state | _ways(transport)

    def on_message_begin(self) -> None:
        """Create the scope of a request."""
        super().on_message_begin()
        self._head = self._unread = 0

    def on_url(self, url: bytes) -> None:
        """Process a piece of the target. The parser forwards exceptions, and the request is refused."""
        self._unread = 0
        self._head += len(url)
        if self._head > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Process a header, of the head or after a chunked body."""
        self._unread = 0
        self._head += len(name) + len(value)
        if self._head > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start a request, or have it wait for an earlier response."""
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINED:
            raise TooManyPipelined

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def handle_websocket_upgrade(self) -> None:
        """Pass the connection to a WebSocket, unless a response is under way on it."""
        if self._is_answering():
            self.send_400_response("")
            return
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request under way. uvicorn only ends the newest one, which may not have been started: a stream
        before it would stay open."""
        self.pipeline.clear()
        super().connection_lost(exc)
        if self._is_answering():
            self._running.disconnected = True
            self._running.message_event.set()

    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def on_body(self, body: bytes) -> None:
        """Process a piece of the body, whose size its reader limits."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unread = 0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD_BYTES + READ_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request, and close."""
        large = max(self._head, self._unread) > MAX_HEAD_BYTES
        self._refuse(_TOO_LARGE if large else _TOO_MANY if len(self.pipeline) > MAX_PIPELINED else _NO_REQUEST)

    def _refuse(self, refusal: bytes) -> None:
        """Send a refusal, unless a response is under way, and close."""
        if not (self._is_answering() and self._running.response_started):
            self.transport.write(refusal)
        if self._is_answering():
            self._running.disconnected = True  # A later response would follow this one.
        self.transport.close()


def refusal(status: bytes, problem: Problem) -> bytes:
    """Return a complete response to a request that could not be parsed."""
    body = encode(problem_document(problem, ""))
    return (b"HTTP/1.1 " + status + b"\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)) + body


_NO_REQUEST = refusal(b"400 Bad Request", Problem("InvalidPayload", "This is not a request of HTTP/1.1."))
_TOO_MANY = refusal(b"400 Bad Request", Problem(
    "InvalidPayload", f"More than {MAX_PIPELINED} requests of this connection wait for the response to an earlier one. "
                      "Wait for responses, or open further connections."))
_TOO_LARGE = refusal(b"400 Bad Request", Problem(
    "InvalidPayload", f"The request's target and headers are longer than {MAX_HEAD_BYTES} bytes."))


class SocketConnection(WebSocketsSansIOProtocol):
    """The same for a WebSocket. What it keeps for a peer that sends much and reads nothing is bounded."""

    _late_pongs = b""
    """The newest pongs that wait until the peer reads: older ones need not be sent (RFC 6455, 5.5.3)."""

    def handle_ping(self) -> None:
        """Answer a ping, once the peer reads."""
        pongs = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pongs)
        else:
            self._late_pongs = pongs

    def resume_writing(self) -> None:
        """Continue to send."""
        super().resume_writing()
        pongs, self._late_pongs = self._late_pongs, b""
        if pongs and not self.transport.is_closing():
            self.transport.write(pongs)

    def handle_cont(self, event: Frame) -> None:
        """Process a further fragment of a message."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"a message has at most {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()


HEAD_TIMEOUT_S = 10.0
"""From the start of a connection, or the first byte of its next request, to the end of the request's head."""
BODY_TIMEOUT_S = 120.0
"""From the head to the end of the body: 8 MiB at 70 kB a second."""


class SenderTimeouts(NamedTuple):
    """Time limits of a sender; tests use others."""

    head_s: float = HEAD_TIMEOUT_S
    body_s: float = BODY_TIMEOUT_S


NORMAL_TIMEOUTS = SenderTimeouts()


def protocol_class(timeouts: SenderTimeouts = NORMAL_TIMEOUTS) -> type[HttpConnection]:
    """Return a protocol class with these limits: uvicorn creates one instance per connection, without arguments."""

    class PatientProtocol(HttpConnection):
        """A protocol that ends a connection whose request does not arrive in time: with 408 if no response was sent
        yet. A timer runs for what has not arrived at the end of a piece of data; a request that arrived at once needs
        none."""

        _clock: asyncio.TimerHandle | None = None
        _awaited: Literal["", "head", "body"] = ""
        """The part of a request that has not arrived completely."""
        _timed: Literal["", "head", "body", "over"] = ""
        """The part that the timer runs for; `over` if that has arrived."""

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
            self._awaited = "head"  # The first request's timer runs since the connection was made.

        def on_headers_complete(self) -> None:
            self._awaited = "body"
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._awaited = ""
            if self._clock is not None:  # What follows in the same piece of data has its own timer.
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
            if self._timed == "body" and not self.pipeline and not self._is_answering():
                self.transport.close()  # It was answered before its end.
            else:
                self._refuse(_TOO_SLOW)

    return PatientProtocol


_TOO_SLOW = refusal(b"408 Request Timeout", Problem("RequestTimeout", "The request did not arrive in time."))
