"""Limits of this machine, which no gateway on it can exceed. `python -m benchmarks limits`."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness import websocket
from benchmarks.harness.driver import Prepared, Round, drive
from benchmarks.harness.processes import listening
from benchmarks.harness.report import Limits

MESSAGE_BYTES = 400
"""What a frame with some 120 bytes of text takes."""
MESSAGES_A_SECOND = 50_000
SYNC_BYTES = 4_096
"""Written before each fdatasync: a page, as a write-ahead log appends it."""
FAN_OUT = 5
"""Sends for each receive on blocking sockets: an acknowledgement and four viewers."""


def fdatasyncs(folder: Path, seconds: float) -> float:
    """Count how often a second an appended page is on disk."""
    page, count = os.urandom(SYNC_BYTES), 0
    path = folder / "fdatasync.bin"
    with path.open("wb", buffering=0) as file:
        end = (start := time.perf_counter()) + seconds
        while (now := time.perf_counter()) < end:
            file.write(page)
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count / (now - start)


class Echo:
    """The bare ASGI echo, from the side that dials."""

    def __init__(self, port: int) -> None:
        self._sock, self._messages = websocket.connect(port, "/", {})

    def round(self, prepared: Prepared) -> Round:
        """Have every message given back."""
        came = 0

        def confirm(data: bytes) -> int:
            nonlocal came
            for _ in self._messages.feed(data):
                came += 1
            return came

        self.tend()
        return drive(self._sock, prepared, confirm)

    def tend(self) -> None:
        """Keep the connection alive between rounds."""
        websocket.tend(self._sock, self._messages, lambda data: list(self._messages.feed(data)))

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


class SyncEcho:
    """The echo that has each message on disk first, from the side that dials."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def delays(self, messages: list[bytes]) -> list[float]:
        """Delay of each answer in seconds, with one message in flight."""
        return one_in_flight(self._sock, messages, bool)

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


def one_in_flight(sock: socket.socket, messages: list[bytes], answered: Callable[[bytes], bool]) -> list[float]:
    """Send each message after the answer to the one before it; gives each answer's delay in seconds."""
    delays: list[float] = []
    for message in messages:
        start = time.perf_counter()
        sock.sendall(message)
        while not answered(sock.recv(websocket.RECEIVE_BYTES)):
            pass
        delays.append(time.perf_counter() - start)
    return delays


def blocking_sockets(size: int, seconds: float) -> float:
    """Messages of `size` bytes per second that one thread receives and sends FAN_OUT times on loopback."""
    incoming, source = socket.socketpair()
    outgoing = [socket.socketpair() for _ in range(FAN_OUT)]
    stop = threading.Event()
    threads = [threading.Thread(target=_drain, args=(far,)) for _, far in outgoing]
    threads.append(threading.Thread(target=_fill, args=(source, b"." * size, stop)))
    for thread in threads:
        thread.start()
    count, end = 0, (start := time.perf_counter()) + seconds
    while (now := time.perf_counter()) < end:
        data = incoming.recv(size)
        for near, _ in outgoing:
            near.sendall(data)
        count += 1
    stop.set()
    incoming.close()
    for near, _ in outgoing:
        near.close()
    for thread in threads:
        thread.join()
    for sock in (source, *(far for _, far in outgoing)):
        sock.close()
    return count / (now - start)


def _fill(sock: socket.socket, data: bytes, stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            sock.sendall(data)
    except OSError:
        return


def _drain(sock: socket.socket) -> None:
    while sock.recv(websocket.RECEIVE_BYTES):
        pass


def quantile(delays: Sequence[float], share: float) -> float:
    """Give the delay that `share` of all do not pass."""
    return sorted(delays)[min(len(delays) - 1, int(len(delays) * share))]


def run(seconds: float) -> Limits:
    """Measure for about `seconds` seconds. Starts two processes on loopback, and ends them."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name, contextlib.ExitStack() as stack:
        folder, share = Path(name), seconds / 4
        echo = Echo(stack.enter_context(listening("benchmarks.harness.echo_process")).port)
        stack.callback(echo.close)
        sync_echo = SyncEcho(
            stack.enter_context(listening("benchmarks.harness.sync_echo_process", str(folder / "sync_echo.bin"))).port)
        stack.callback(sync_echo.close)
        message = websocket.message(b"." * MESSAGE_BYTES)
        count = max(1_000, int(share * MESSAGES_A_SECOND))
        sockets = blocking_sockets(MESSAGE_BYTES, share)
        echoed = count / echo.round(Prepared.of([message] * count)).seconds
        syncs = fdatasyncs(folder, share)
        delays = sync_echo.delays([message] * max(20, int(syncs * share / 2)))
        return Limits(message_bytes=MESSAGE_BYTES, blocking_sockets_per_s=sockets, echo_per_s=echoed,
                      fdatasync_per_s=syncs, sync_echo_p50_ms=quantile(delays, 0.5) * 1_000,
                      sync_echo_p99_ms=quantile(delays, 0.99) * 1_000)
