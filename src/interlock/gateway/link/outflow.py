"""The outgoing side of a runner's link: control frames in order, acknowledgements coalesced, never blocking a lane
(D-1)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

import msgspec

from interlock.ports.signals import Signal
from interlock.protocol.codes import CloseCode
from interlock.protocol.frames import join
from interlock.protocol.limits import ACK_DELAY_MS, MIB

OUTFLOW_BYTES = 16 * MIB
"""Control frames that wait for a runner that does not read; beyond it the link is closed and the reattach sends
them."""

CLOSE_REASON_BYTES = 123
"""Capacity of a WebSocket's close frame (RFC 6455, 5.5.1); a longer sentence is cut."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LinkClosed(Exception):
    """Raised if the runner's WebSocket is closed; `code` is the close code that the runner sent, None if there is
    none."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__()
        self.code = code


class RunnerOutflow:
    """The only writer of a runner's WebSocket."""

    def __init__(self, send: Send, on_acks: Callable[[int], None] = lambda _count: None) -> None:
        self._on_acks = on_acks
        self._send = send
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._acks: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._closed = False
        self._shut_out = False
        self._taking: asyncio.Future[None] | None = None
        self._ack_number = 0
        self._welcome: bytes | None = None
        self._opened = False
        self.on_forget = Signal[[str]]()
        """Sent with the id of a session whose lane is evicted."""
        self.batch = False
        """Whether both sides offered batches: waiting frames are sent together (L-2)."""
        self._task = asyncio.create_task(self._run(), name="runner outflow")

    def send(self, raw: bytes) -> None:
        """Queue a control frame. One for a link that is being closed is dropped: the reattach sends it."""
        if self._closing is not None:
            return
        self._waiting.append(raw)
        self._bytes += len(raw)
        if self._bytes > OUTFLOW_BYTES:
            self.fail("the runner does not read its control frames")
        self._wake.set()

    def send_now(self, raw: bytes, *, batch: bool = False) -> None:
        """Queue the welcome: nothing is sent before it. With `batch` both sides offered to send waiting frames
        together."""
        self._welcome, self.batch = raw, batch
        self._opened = True
        self._wake.set()

    def ack(self, session_id: str, seq: int) -> None:
        """Acknowledge all frames up to `seq`, which are durable: in the next iteration of the loop, and at the latest
        after ACK_DELAY_MS."""
        self._acks[session_id] = seq
        self._wake.set()

    def forget(self, session_id: str) -> None:
        """Record that the session's lane is evicted."""
        self.on_forget(session_id)

    def fail(self, sentence: str, code: int = CloseCode.LEDGER) -> None:
        """Close the link so that the runner reconnects and resends."""
        if self._closing is None:
            self._closing = (code, _reason(sentence))
            self._wake.set()

    def shut_out(self, sentence: str, code: int = CloseCode.UNAUTHORIZED) -> None:
        """Close the link because its token is no longer accepted (L-3), or because a newer link replaced it: its
        further frames are ignored, and nothing waiting is sent."""
        self._waiting, self._bytes, self._acks = [], 0, {}
        self.fail(sentence, code)
        self._shut_out = True
        if self._taking is not None:
            self._taking.cancel()  # At once: a frame that has just arrived no longer counts.

    async def shut_out_in(self, taking: Coroutine[Any, Any, None]) -> tuple[int, str] | None:
        """Process frames until the link ends, which raises, or until its runner is shut out. Returns the code and
        reason that the link is closed with."""
        self._taking = asyncio.ensure_future(taking)
        try:
            if not self._shut_out:
                await asyncio.wait([self._taking])
            if not self._shut_out:
                await self._taking
            return self._closing
        finally:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)

    async def close(self, code: int, sentence: str) -> None:
        """Close with a code, after the waiting frames."""
        if self._closing is None:
            self._closing = (code, _reason(sentence))
        self._wake.set()
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._task), ACK_DELAY_MS * 20 / 1000)

    async def stop(self) -> None:
        """End the writer."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while not self._closed:
                await self._wake.wait()
                self._wake.clear()
                await self._flush()

    async def _flush(self) -> None:
        if not self._opened and self._closing is None:
            return
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        acks, self._acks = self._acks, {}
        if not self._opened:
            waiting, acks = [], {}  # Nothing is sent before the welcome, including the close (L-4).
        if self._welcome is not None:
            welcome, self._welcome = self._welcome, None
            await self._send({"type": "websocket.send", "text": welcome.decode()})
        if acks:
            self._on_acks(len(acks))
        waiting += [self._ack(session_id, seq) for session_id, seq in acks.items()]
        for message in join(waiting) if self.batch else waiting:
            await self._send({"type": "websocket.send", "text": message.decode()})
        if self._closing is not None and not self._waiting:
            code, reason = self._closing
            self._closed = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def _ack(self, session_id: str, seq: int) -> bytes:
        self._ack_number += 1
        return msgspec.json.encode(
            {"type": "x-interlock.ack", "message_id": f"ack-{self._ack_number}", "timestamp": "",
             "payload": {"session_id": session_id, "seq": seq}}
        )


def _reason(sentence: str) -> str:
    """Cut a sentence to the size of a close frame: 123 bytes, whatever the script."""
    return sentence.encode()[:CLOSE_REASON_BYTES].decode(errors="ignore")
