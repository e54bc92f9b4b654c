"""Many readers of one stream in one process that costs little; the key is read from standard input.

`python -m proof.workload.stream_readers PORT PATH VIEWERS`

Once a second it writes a line: the number of events by delay, `{"<ms>": count}`. Each event has the time at which its
agent sent it. It uses only sockets and one pattern, since it shares the machine with what it measures.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from collections import Counter

TICK = re.compile(rb"at (\d+) ms")
READ_BYTES = 1 << 18
JOIN_S = 0.004
"""Readers come one after another, so soon."""


def request(path: str, key: str) -> bytes:
    """Ask for a stream as server-sent events; `key` is the header's whole value."""
    return (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\nAccept: text/event-stream\r\n\r\n"
            ).encode()


class Reader:
    """One viewer: what it has of an event that is not whole yet."""

    def __init__(self, port: int, asks: bytes, buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(asks)
        self._rest = b""

    def ticks(self) -> list[int] | None:
        """Read the available events: the time of each in ms; None once the gateway has ended it."""
        data = self.socket.recv(READ_BYTES)
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        return list(map(int, TICK.findall(whole + end))) if data else None


def main() -> None:
    """Read until this process or all streams are ended."""
    port, path, viewers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    asks = request(path, sys.stdin.readline().strip())
    readers: dict[int, Reader] = {}
    ready = select.epoll()
    shown: Counter[int] = Counter()
    written_at = join_at = time.monotonic()
    while readers or len(readers) < viewers:
        now = time.monotonic()
        if len(readers) < viewers and now >= join_at:
            one = Reader(port, asks)
            readers[one.socket.fileno()] = one
            ready.register(one.socket, select.EPOLLIN)
            written_at = join_at = now + JOIN_S
        for number, _ in ready.poll(JOIN_S):
            ticks = readers[number].ticks()
            if ticks is None:
                sys.exit("a stream was ended")
            at = time.time_ns() // 1_000_000
            shown.update([at - tick for tick in ticks])
        if len(readers) == viewers and time.monotonic() >= written_at + 1:
            written_at += 1
            print(json.dumps(shown), flush=True)
            shown.clear()


if __name__ == "__main__":
    main()
