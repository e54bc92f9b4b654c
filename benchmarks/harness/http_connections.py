"""HTTP requests over many connections from one loop over sockets, cheap enough that the server is what is measured."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

RECEIVE_BYTES = 256 * 1024
STALL_MS = 30_000
"""A round without an answer for this time has lost something."""


class Driven(NamedTuple):
    """The figures of one round of requests. `answers` has the bodies if requested."""

    requests: int
    seconds: float
    cpu_s: float
    answers: list[bytes]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds


class Connections:
    """This many connections to a port of loopback, each with one request under way at a time."""

    def __init__(self, port: int, count: int) -> None:
        self._socks = dict[int, socket.socket]()
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socks[sock.fileno()] = sock

    def drive(self, make: Callable[[], bytes | None], seconds: float = float("inf"), *, keep: bool = False) -> Driven:
        """Send the requests of `make` until it returns None or the seconds have passed; every answer must be a 202.
        Raises RuntimeError with any other answer."""
        poll, count, answers = select.poll(), 0, list[bytes]()
        begin, cpu = time.perf_counter(), time.process_time()
        end, under_way = begin + seconds, 0
        for number, sock in self._socks.items():
            poll.register(number, select.POLLIN)
            if (first := make()) is None:
                break
            sock.sendall(first)
            under_way += 1
        while under_way:
            ready = poll.poll(STALL_MS)
            if not ready:
                raise RuntimeError(f"{under_way} requests were not answered within {STALL_MS / 1000:.0f} s.")
            for number, _ in ready:
                sock = self._socks[number]
                answer = _whole(sock)
                count += 1
                if keep:
                    answers.append(answer)
                following = make() if time.perf_counter() < end else None
                if following is None:
                    under_way -= 1
                else:
                    sock.sendall(following)
        return Driven(count, time.perf_counter() - begin, time.process_time() - cpu, answers)

    def close(self) -> None:
        """Hang up."""
        for sock in self._socks.values():
            sock.close()


def _whole(sock: socket.socket) -> bytes:
    """Read one answer to its end and return its body."""
    data = sock.recv(RECEIVE_BYTES)
    while (at := data.find(b"\r\n\r\n")) < 0:
        more = sock.recv(RECEIVE_BYTES)
        if not more:
            raise RuntimeError("The server hung up.")
        data += more
    if not data.startswith(b"HTTP/1.1 202 "):
        raise RuntimeError(data.decode())
    size = int(data[:at].lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) + at + 4
    while len(data) < size:
        data += sock.recv(RECEIVE_BYTES)
    return data[at + 4:]
