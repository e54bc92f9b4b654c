"""A network between runner and gateway that cuts, goes half open, delays, duplicates and reorders whole messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading
from collections import Counter
from typing import Literal

from interlock.demo.websocket import Splitter, WebSocketFrame, text_frame

READ_BYTES = 64 * 1024
SPARED = 4
"""Messages of each direction that pass unharmed on a new link: hello, welcome and the repair itself."""
HELD_S = 0.05
"""The longest wait of a message for another to overtake it, and the average of a delay."""
Mischief = Literal["cut", "half-open", "delay", "duplicate", "reorder"]
CHANCES: tuple[tuple[Mischief, float], ...] = (
    ("delay", 0.05), ("duplicate", 0.03), ("reorder", 0.006), ("cut", 0.002), ("half-open", 0.001))
"""How likely each is at each message."""


class FaultyLink:
    """Takes the runner's connections on a port of its own, in a thread of its own."""

    def __init__(self, gateway_port: int, seed: int) -> None:
        self._gateway_port = gateway_port
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._silent: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.calm = False
        self.done: Counter[str] = Counter()
        """How often each mischief was done; "links" counts connections."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    @property
    def url(self) -> str:
        """The address that the runner dials."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """End it all."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        ready.set()
        self._loop.run_forever()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        for writer in self._silent:
            writer.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _accept(self, runner: asyncio.StreamReader, to_runner: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._link(runner, to_runner))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, runner: asyncio.StreamReader, to_runner: asyncio.StreamWriter) -> None:
        self.done["links"] += 1
        try:
            gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self._gateway_port)
        except OSError:
            _reset(to_runner)
            return
        ends = (to_runner, to_gateway)
        try:
            to_gateway.write(await runner.readuntil(b"\r\n\r\n"))
            to_runner.write(await gateway.readuntil(b"\r\n\r\n"))
            pumps = [self._loop.create_task(self._pump(runner, to_gateway, ends, masked=True)),
                     self._loop.create_task(self._pump(gateway, to_runner, ends, masked=False))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for end in ends:
                if end not in self._silent:
                    end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, onward: asyncio.StreamWriter,
                    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter], *, masked: bool) -> None:
        splitter, seen, held = Splitter(), 0, list[bytes]()
        while True:
            try:
                async with asyncio.timeout(HELD_S if held else None):
                    data = await source.read(READ_BYTES)
            except TimeoutError:
                onward.write(held.pop())  # Nothing came to overtake it.
                continue
            if not data:
                return
            for piece in splitter.feed(data):
                seen += 1
                mischief = self._choose(piece) if seen > SPARED else None
                match mischief:
                    case "cut":
                        onward.write(piece.raw[: len(piece.raw) // 2])
                        for end in ends:
                            _reset(end)
                        return
                    case "half-open":
                        self._silent.append(ends[1])  # The gateway's end stays, and is silent.
                        _reset(ends[0])
                        return
                    case "reorder" if not held:
                        held.append(piece.raw)
                        continue
                    case "delay":
                        await asyncio.sleep(self._draw.random() * HELD_S * 2)
                    case _:
                        pass
                onward.write(piece.raw)
                if mischief == "duplicate" and piece.text is not None:
                    onward.write(text_frame(piece.text, os.urandom(4) if masked else None))
                if held:
                    onward.write(held.pop())
            with contextlib.suppress(OSError):
                await onward.drain()

    def _choose(self, piece: WebSocketFrame) -> Mischief | None:
        """Draw what is done to a message; pings and closes are left alone."""
        if piece.text is None or self.calm:
            return None
        drawn = self._draw.random()
        for mischief, chance in CHANCES:
            if drawn < chance:
                self.done[mischief] += 1
                return mischief
            drawn -= chance
        return None


def _reset(end: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.transport.abort()
