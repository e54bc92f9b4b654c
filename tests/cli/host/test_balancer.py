"""One address before several gateways: a connection goes to one that answers (C-4)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import anyio
import pytest

from interlock.cli.host import balancer as balancing
from interlock.cli.host.balancer import Balancer

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


class Behind:
    """A gateway that sends its name. Stopped as by SIGSTOP, it accepts connections and sends nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.awake = asyncio.Event()
        self.awake.set()
        self.server: asyncio.Server | None = None

    async def listen(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readline():
                await self.awake.wait()
                writer.write(f"HTTP {self.name}\n".encode())
        except ConnectionError:
            pass
        finally:
            writer.close()


async def asked(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"who\n")
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.decode().strip()


async def test_each_connection_goes_to_the_next_gateway_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "LOOK_S", 0.01)
    monkeypatch.setattr(balancing, "PROBE_TIMEOUT_S", 0.2)
    gateways = [Behind(name) for name in "abc"]
    ports = [await gateway.listen() for gateway in gateways]
    balancer = Balancer(ports, uses_tls=False)
    port = await balancer.start(0)
    try:
        assert {await asked(port) for _ in range(3)} == {"HTTP a", "HTTP b", "HTTP c"}
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"who\n")
        held = (await reader.readline()).decode()[5]
        stopped = next(gateway for gateway in gateways if gateway.name == held)
        stopped.awake.clear()
        with anyio.fail_after(10):
            with suppress(ConnectionError):
                assert await reader.read() == b"", "it is cut, one way or the other"
            writer.close()
            seen = {await asked(port) for _ in range(6)}
        assert seen == {f"HTTP {gateway.name}" for gateway in gateways if gateway is not stopped}
        stopped.awake.set()
        gone = next(gateway for gateway in gateways if gateway is not stopped)
        assert gone.server is not None
        gone.server.close()
        with anyio.fail_after(10):
            while f"HTTP {stopped.name}" not in {await asked(port) for _ in range(3)}:
                pass
        assert f"HTTP {gone.name}" not in {await asked(port) for _ in range(6)}
    finally:
        await balancer.stop()
        for gateway in gateways:
            assert gateway.server is not None
            gateway.server.close()
            gateway.awake.set()


async def test_the_last_bytes_of_a_closing_gateway_reach_a_client_that_still_sends() -> None:
    def bye(taken: socket.socket) -> None:
        taken.recv(1)
        taken.sendall(b"too large\n")
        taken.close()  # Most of the sent bytes are unread, so the system resets the connection.

    with socket.create_server(("127.0.0.1", 0)) as gateway:
        balancer = Balancer([gateway.getsockname()[1]], uses_tls=False)
        port = await balancer.start(0)
        try:
            for _ in range(20):
                serving = asyncio.ensure_future(asyncio.to_thread(lambda: bye(_after_hello(gateway))))
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"x" * 1_000_000)
                with anyio.fail_after(10):
                    assert await reader.readline() == b"too large\n"
                    await serving
                writer.close()
        finally:
            await balancer.stop()


def _after_hello(gateway: socket.socket) -> socket.socket:
    """Accept the next connection that is not a health check. A check is answered: without an answer the balancer takes
    the gateway for dead, and cuts the connection that the test is about."""
    while True:
        taken, _ = gateway.accept()
        if taken.recv(1, socket.MSG_PEEK) == b"x":
            return taken
        taken.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        taken.close()
