"""`python -m proof.faults.slow_link_process LISTENING SERVER`: a network between gateways and a server.

Everything takes half a round trip each way. It listens on a Unix socket if the server does (PostgreSQL), else on
loopback TCP (NATS), and prints its port. Each line on standard input is a command: `rtt S`, `stall S`, `cut`; each is
answered by a line once it is in force. The end of input ends it.

It is a separate process with a higher priority: a network does not wait for its users.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

CHUNK = 65_536
CHUNKS_UNDER_WAY = 512
"""Pieces of one direction of one connection that are on their way; a sender waits for room for another."""


class Link:
    """Leads from `listening` to `server`: paths of Unix sockets, or ports on loopback. Port 0 is one that is free."""

    def __init__(self, listening: Path | int, server: Path | int) -> None:
        self.port = 0
        self._rtt_s = 0.0
        self._listening = listening
        self._server = server
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    async def start(self) -> None:
        """Listen."""
        if isinstance(self._listening, Path):
            self._listener = await asyncio.start_unix_server(self._serve, self._listening)
            self._listening.chmod(0o777)
        else:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self._listening)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, break every connection and wait until each is let go."""
        self._listener.close()
        self._flows.set()
        self._cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def obey(self, order: str, seconds: float) -> None:
        """Carry out one order."""
        match order:
            case "rtt":
                self._rtt_s = seconds
            case "stall":
                self._flows.clear()
                await asyncio.sleep(seconds)
                self._flows.set()
            case "cut":
                self._cut()
            case _:
                raise ValueError(f"there is no order {order!r}")

    def _cut(self) -> None:
        for one in self._open:
            one.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "it is served in one"
        self._serving.add(task)
        ends = [writer]
        try:
            with suppress(OSError):
                there = await self._connect()
                ends.append(there[1])
                self._open.update(ends)
                await asyncio.gather(self._carry(reader, there[1]), self._carry(there[0], writer))
        finally:
            for one in ends:
                one.transport.abort()
                self._open.discard(one)
            self._serving.discard(task)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.sleep(self._rtt_s)  # A TCP connection takes one round trip before its first byte.
        if isinstance(self._server, Path):
            return await asyncio.open_unix_connection(self._server)
        return await asyncio.open_connection("127.0.0.1", self._server)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)
        delivering = asyncio.create_task(self._deliver(under_way, writer))
        data = b"."
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            await under_way.put((asyncio.get_running_loop().time() + self._rtt_s / 2, data))
        await delivering

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        data = b"."
        while data:
            at_s, data = await under_way.get()
            await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
            await self._flows.wait()
            with suppress(OSError):  # What arrives for a connection that broke is lost.
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


def _end(text: str) -> Path | int:
    return int(text) if text.isdecimal() else Path(text)


async def _run(listening: str, server: str) -> None:
    link = Link(_end(listening), _end(server))
    await link.start()
    print(link.port, flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        order, _, seconds = line.decode().strip().partition(" ")
        await link.obey(order, float(seconds or 0))
        print(order, flush=True)
    await link.stop()


def main() -> None:
    """Run it until the end of input."""
    os.setsid()
    with suppress(OSError):  # Root alone may; others have a network that competes for the processor.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    asyncio.run(_run(sys.argv[1], sys.argv[2]))


if __name__ == "__main__":
    main()
