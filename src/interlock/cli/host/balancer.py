"""One address before several gateways of this machine: each connection goes to a live one (C-4).

For trying a cluster and for its tests; in production use a load balancer.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

LOOK_S = 0.5
"""Interval of probes of each gateway."""
PROBE_TIMEOUT_S = 1.0
"""Timeout of a probe: a slower gateway is considered dead until it answers again; its connections are closed, new ones
go elsewhere."""
CHUNK_BYTES = 65_536
BACKLOG = 512
LINGER_S = 2.0
"""Seconds for which a client's input is still read after the gateway has closed."""
ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class _Behind:
    """A gateway, and its connections."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = True
        self.ends: set[socket.socket] = set()

    async def ask(self, *, uses_tls: bool) -> None:
        """Probe it; if it does not answer, its connections are closed."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    if not uses_tls:
                        writer.write(ASKED)
                        await writer.drain()
                        await reader.readexactly(4)
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.answers = False
            self.cut()
            return
        self.answers = True

    def cut(self) -> None:
        """Close every connection to it; forwarding tasks see that as an end."""
        for end in self.ends:
            _reset(end)


class Balancer:
    """Listens on a port of loopback until it is stopped."""

    def __init__(self, ports: Sequence[int], *, uses_tls: bool) -> None:
        self._behind = [_Behind(port) for port in ports]
        self._uses_tls = uses_tls
        self._next = 0
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int) -> int:
        """Listen; 0 selects a free port. Returns the port. Raises OSError."""
        self._listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._tasks = {asyncio.create_task(self._look(), name="balancer"),
                       asyncio.create_task(self._accept(self._listener), name="balancer")}
        return int(self._listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting, and close the connections."""
        for behind in self._behind:
            behind.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                here, _ = await loop.sock_accept(listener)
            except OSError:  # Out of descriptors: ending connections release some.
                await asyncio.sleep(LOOK_S)
                continue
            here.setblocking(False)
            task = asyncio.create_task(self._serve(here), name="balancer")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        while True:
            await asyncio.gather(*(behind.ask(uses_tls=self._uses_tls) for behind in self._behind))
            await asyncio.sleep(LOOK_S)

    async def _serve(self, here: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with here:
            for behind in self._in_turn():
                there = socket.socket()
                there.setblocking(False)
                with there:
                    try:
                        await loop.sock_connect(there, ("127.0.0.1", behind.port))
                    except OSError:
                        continue
                    behind.ends |= {here, there}
                    try:
                        await asyncio.gather(_pass_on_and_drain(here, there), _pass_on(there, here))
                    finally:
                        behind.ends -= {here, there}
                    return

    def _in_turn(self) -> list[_Behind]:
        """Return the gateways in round-robin order, those that failed their last probe at the end: they may only be
        slow."""
        self._next += 1
        at = self._next % len(self._behind)
        turned = self._behind[at:] + self._behind[:at]
        return sorted(turned, key=lambda one: not one.answers)


async def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Forward bytes until their end, and then the end. These are bare sockets, since buffered data of a reset
    connection can still be read from it, and may be the gateway's last output."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while chunk := await loop.sock_recv(source, CHUNK_BYTES):
            await loop.sock_sendall(target, chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _pass_on_and_drain(source: socket.socket, target: socket.socket) -> None:
    """Drain the client after the gateway stopped reading: closing with unread input would reset the connection and lose
    a response that the client has not read yet."""
    await _pass_on(source, target)
    loop = asyncio.get_running_loop()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await loop.sock_recv(source, CHUNK_BYTES):
                pass


def _reset(end: socket.socket) -> None:
    """Reset a connection, so that both sides, and a reader of it here, notice at once."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
