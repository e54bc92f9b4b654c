"""A WebSocket over a blocking socket, as lean as it can be: the driver must not be what is measured (RFC 6455).

Messages are masked with zero, which the protocol allows and which leaves the bytes as they are.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
from collections.abc import Callable, Iterator

TEXT = 0x81
CLOSE_OPCODE = 0x8
PING_OPCODE = 0x9
PONG = 0x8A
NO_MASK = b"\0\0\0\0"
SMALL = 126
MEDIUM = 65_536
RECEIVE_BYTES = 256 * 1024


def connect(port: int, path: str, headers: dict[str, str]) -> tuple[socket.socket, Messages]:
    """Open a WebSocket on loopback. Raises ConnectionError with the server's answer if it is refused."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
             *(f"{name}: {value}" for name, value in headers.items())]
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    answer, rest = read_head(sock)
    if b" 101 " not in answer.split(b"\r\n", 1)[0]:
        raise ConnectionError(f"{path}: {(answer + rest)[:400].decode(errors='replace')}")
    return sock, Messages(rest)


def read_head(sock: socket.socket) -> tuple[bytes, bytes]:
    """Read an HTTP answer's head; return it and the bytes after it. Raises ConnectionError."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65_536)
        if not part:
            raise ConnectionError(f"closed in the middle of an answer: {data[:400]!r}")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def message(text: bytes) -> bytes:
    """Write one text message as the dialling side sends it."""
    size = len(text)
    if size < SMALL:
        head = bytes((TEXT, 0x80 | size))
    elif size < MEDIUM:
        head = bytes((TEXT, 0x80 | SMALL)) + size.to_bytes(2, "big")
    else:
        head = bytes((TEXT, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + NO_MASK + text


class Messages:
    """Cuts what comes from the server into messages."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data
        self.pongs = b""
        """Answers to the server's pings, to be sent between two messages."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give each whole message. Raises ConnectionError when the server closes."""
        if not data:
            raise ConnectionError("the server closed the connection")
        data = self._data + data
        at = 0
        while (end := _end(data, at)) is not None:
            start, stop = end
            opcode = data[at] & 0x0F
            if opcode == CLOSE_OPCODE:
                raise ConnectionError(f"the server closed: {data[start + 2:stop].decode(errors='replace')}")
            if opcode == PING_OPCODE:
                self.pongs += bytes((PONG, 0x80 | (stop - start))) + NO_MASK + data[start:stop]
            else:
                yield data[start:stop]
            at = stop
        self._data = data[at:]


def tend(sock: socket.socket, messages: Messages, take: Callable[[bytes], object]) -> None:
    """Read what has come without waiting, and answer the pings: between rounds, so that the server does not hang up."""
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        take(sock.recv(RECEIVE_BYTES))
    sock.setblocking(True)
    sock.sendall(messages.pongs)
    messages.pongs = b""


def _end(data: bytes, at: int) -> tuple[int, int] | None:
    """(start, stop) of the payload of the message at `at`; None while it is not whole."""
    if len(data) < at + 2:
        return None
    size = data[at + 1] & 0x7F
    start = at + 2
    if size >= SMALL:
        width = 2 if size == SMALL else 8
        if len(data) < start + width:
            return None
        size = int.from_bytes(data[start:start + width], "big")
        start += width
    return (start, start + size) if len(data) >= start + size else None
