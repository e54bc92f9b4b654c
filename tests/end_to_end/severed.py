"""A stretch of network between runner and gateway that can be cut, and can go silent without closing."""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import struct
import threading
from collections.abc import Callable

READ_BYTES = 65_536
RST = struct.pack("ii", 1, 0)
"""Lingering for 0 s: closing sends RST instead of FIN, and what was not sent is thrown away."""


class Stretch:
    """Takes the runner's connections on a port of its own. One thread owns the sockets, for a socket that another
    thread still reads is not closed by closing it."""

    def __init__(self, gateway_port: int) -> None:
        self._gateway = ("127.0.0.1", gateway_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wake, self._woken = socket.socketpair()
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._sinks: dict[socket.socket, socket.socket] = {}
        self._silent: list[socket.socket] = []
        self._down = False
        self._closed = False
        self._refused = threading.Event()
        self.taken = 0
        """Connections that were taken."""
        for end in (self._listener, self._woken):
            self._selector.register(end, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address that the runner dials."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Reset every connection, on both sides; new ones are reset too until `mend`."""
        self._refused.clear()
        self._order(self._cut)

    def half_open(self) -> None:
        """Reset the runner's end alone: to the gateway the link is there, and silent."""
        self._order(self._half_open)

    def repair(self) -> None:
        """Let new connections through again."""
        self._down = False

    def await_refused(self, timeout_s: float) -> bool:
        """Wait until the runner has dialled in vain since the cut."""
        return self._refused.wait(timeout_s)

    def close(self) -> None:
        """End it all."""
        self._order(self._close)
        self._thread.join()
        for end in (self._wake, self._woken, self._selector):
            end.close()

    def _order(self, order: Callable[[], None]) -> None:
        done = threading.Event()
        self._orders.put((order, done))
        self._wake.send(b"!")
        done.wait()

    def _run(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select():
                end: socket.socket = key.fileobj  # type: ignore[assignment]
                if end is self._woken:
                    end.recv(1)
                    order, done = self._orders.get()
                    order()
                    done.set()
                    break  # What else was ready may be gone.
                if end is self._listener:
                    self._accept()
                elif end in self._sinks:
                    self._pass_on(end)

    def _accept(self) -> None:
        runner, _ = self._listener.accept()
        if self._down:
            reset(runner)
            self._refused.set()
            return
        try:
            gateway = socket.create_connection(self._gateway)
        except OSError:
            reset(runner)
            return
        self.taken += 1
        self._sinks |= {runner: gateway, gateway: runner}
        for end in (runner, gateway):
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        sink = self._sinks[source]
        try:
            data = source.recv(READ_BYTES)
            sink.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, sink):
                self._forget(end)
                end.close()

    def _forget(self, end: socket.socket) -> None:
        self._selector.unregister(end)
        del self._sinks[end]

    def _cut(self) -> None:
        self._down = True
        for end in list(self._sinks):
            self._forget(end)
            reset(end)

    def _half_open(self) -> None:
        for end in list(self._sinks):
            self._forget(end)
            if end.getsockname() == self._listener.getsockname():
                reset(end)
            else:
                self._silent.append(end)

    def _close(self) -> None:
        self._cut()
        self._closed = True
        for end in (self._listener, *self._silent):
            reset(end)


def reset(end: socket.socket) -> None:
    """Close with RST."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
    end.close()
