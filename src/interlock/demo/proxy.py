"""A TCP proxy between runner and gateway that reads the frames passing through, and can reset the connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from interlock.demo.sabotage import Passed, Tap
from interlock.demo.websocket import Splitter, WebSocketFrame, text_frame
from interlock.protocol.frames import split

READ_BYTES = 64 * 1024
HEAD_BYTES = 16 * 1024
"""Limit of an HTTP head; a longer one is not the runner's."""

Document = dict[str, Any]


class Proxy:
    """Accepts the runner's connections on a port of its own.

    `cut_at` is called with each frame of the runner; at the first for which it returns true, half of that frame is
    forwarded and both connections are reset. Until `restore`, each new connection is reset at once: the link is down.
    """

    def __init__(self, gateway_port: int, tap: Tap, cut_at: Callable[[Document], bool]) -> None:
        self._gateway_port = gateway_port
        self._tap = tap
        self._cut_at = cut_at
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._open: list[asyncio.StreamWriter] = []
        self._attachments = asyncio.Condition()
        self.down = False
        self.cut = asyncio.Event()
        self.attached = 0
        """Number of welcomes that passed."""
        self.history_frames = 0
        """Frames that passed inside `session.history`."""

    async def start(self) -> int:
        """Listen; return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def restore(self) -> None:
        """Allow connections again."""
        self.down = False

    async def until_attached(self, times: int) -> None:
        """Wait until a runner has been welcomed this often."""
        async with self._attachments:
            await self._attachments.wait_for(lambda: self.attached >= times)

    def _accept(self, runner: asyncio.StreamReader, to_runner: asyncio.StreamWriter) -> None:
        if self.down:
            _reset(to_runner)
            return
        task = asyncio.create_task(self._take(runner, to_runner))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _take(self, runner: asyncio.StreamReader, to_runner: asyncio.StreamWriter) -> None:
        try:
            await self._serve(runner, to_runner)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # One side has disconnected; that ends both.
        finally:
            to_runner.transport.abort()

    async def _serve(self, runner: asyncio.StreamReader, to_runner: asyncio.StreamWriter) -> None:
        gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self._gateway_port, limit=HEAD_BYTES)
        self._open = [to_runner, to_gateway]
        try:
            to_gateway.write(await runner.readuntil(b"\r\n\r\n"))
            to_runner.write(await gateway.readuntil(b"\r\n\r\n"))
            pumps = [asyncio.ensure_future(self._from_runner(runner, to_gateway, to_runner)),
                     asyncio.ensure_future(self._from_gateway(gateway, to_runner, to_gateway))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            to_gateway.transport.abort()

    async def _from_runner(self, source: asyncio.StreamReader, onward: asyncio.StreamWriter,
                           back: asyncio.StreamWriter) -> None:
        splitter = Splitter()
        while data := await source.read(READ_BYTES):
            for piece in _single(splitter.feed(data), masked=True):
                frame = _document(piece.text)
                if frame is None:
                    onward.write(piece.raw)
                    continue
                if not self.cut.is_set() and self._cut_at(frame):
                    onward.write(piece.raw[:len(piece.raw) // 2])
                    self._reset_both()
                    return
                if frame.get("type") == "session.history":
                    self.history_frames += len(frame["payload"]["frames"])
                passed = self._tap.from_runner(frame)
                _write(passed, piece.raw, onward, back, towards_gateway=True)
            await onward.drain()

    async def _from_gateway(self, source: asyncio.StreamReader, onward: asyncio.StreamWriter,
                            back: asyncio.StreamWriter) -> None:
        splitter = Splitter()
        while data := await source.read(READ_BYTES):
            for piece in _single(splitter.feed(data), masked=False):
                frame = _document(piece.text)
                if frame is None:
                    onward.write(piece.raw)
                    continue
                _write(self._tap.from_gateway(frame), piece.raw, onward, back, towards_gateway=False)
                if frame.get("type") == "x-interlock.welcome":
                    async with self._attachments:
                        self.attached += 1
                        self._attachments.notify_all()
            await onward.drain()

    def _reset_both(self) -> None:
        self.down = True
        for writer in self._open:
            _reset(writer)
        self.cut.set()


def _single(pieces: Iterable[WebSocketFrame], *, masked: bool) -> Iterator[WebSocketFrame]:
    """Yield one frame per piece: a message with several, as JSON lines, becomes several messages (L-2)."""
    for piece in pieces:
        lines = split(piece.text) if piece.text is not None else []
        if len(lines) < 2:
            yield piece
            continue
        for line in lines:
            yield WebSocketFrame(text_frame(line, os.urandom(4) if masked else None), line)


def _write(passed: Passed | None, raw: bytes, onward: asyncio.StreamWriter, back: asyncio.StreamWriter,
           *, towards_gateway: bool) -> None:
    """Forward the tap's result for a frame; None means the frame unchanged."""
    if passed is None:
        onward.write(raw)
        return
    for frame in passed.onward:
        onward.write(text_frame(msgspec.json.encode(frame), os.urandom(4) if towards_gateway else None))
    for frame in passed.back:
        back.write(text_frame(msgspec.json.encode(frame), None if towards_gateway else os.urandom(4)))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN: lingering for 0 s discards unsent data."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _document(text: bytes | None) -> Document | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
