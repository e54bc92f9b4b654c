"""A network between gateways and a server: everything takes half a round trip each way, and a proof makes it worse.

It listens on a Unix socket where the server does (PostgreSQL), else on loopback TCP (NATS), in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

CHUNK = 65_536
CHUNKS_UNDER_WAY = 512
"""Pieces of one direction of one connection that are on their way; a sender waits for room for another."""


class SlowLink:
    """Leads from `listening` to `server`: paths of Unix sockets, or ports on loopback. Port 0 is one that is free."""

    def __init__(self, listening: Path | int, server: Path | int) -> None:
        self.port = 0
        self.rtt_s = 0.0
        """A round trip, on top of what the machine takes; may be changed at any time."""
        self._listening = listening
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self._do(self._start())

    def stop(self) -> None:
        """Break every connection and listen no more."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> None:
        """Break every connection at once."""
        self._loop.call_soon_threadsafe(self._cut)

    def stall(self, seconds: float) -> None:
        """Let nothing through for a while, in either direction; it arrives afterwards."""
        self._do(self._stall(seconds))

    def _run(self) -> None:
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    def _do(self, doing: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(60)

    async def _start(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()
        if isinstance(self._listening, Path):
            self._listener = await asyncio.start_unix_server(self._serve, self._listening)
            self._listening.chmod(0o777)
        else:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self._listening)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._listener.close()
        self._flows.set()
        while self._serving:  # One that is connecting just now is cut in the next round.
            self._cut()
            await asyncio.wait(self._serving, timeout=0.1)

    def _cut(self) -> None:
        for one in self._open:
            one.transport.abort()

    async def _stall(self, seconds: float) -> None:
        self._flows.clear()
        await asyncio.sleep(seconds)
        self._flows.set()

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
        await asyncio.sleep(self.rtt_s)  # A TCP connection takes one round trip before its first byte.
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
            await under_way.put((self._loop.time() + self.rtt_s / 2, data))
        await delivering

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        data = b"."
        while data:
            at_s, data = await under_way.get()
            await asyncio.sleep(max(0.0, at_s - self._loop.time()))
            await self._flows.wait()
            with suppress(OSError):  # What arrives for a connection that broke is lost.
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
