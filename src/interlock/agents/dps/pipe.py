"""Frames as JSON lines on an agent's standard input and output: envelopes, refusals and limits."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from typing import Any

import msgspec

from interlock.ports.process import Process
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame, Wire
from interlock.protocol.frames import (
    FRAMES,
    Class,
    Direction,
    InvalidFrame,
    decode_wire,
    encode,
    frame_class,
    understand,
)

MAX_WAITING = 256
"""Frames that wait for an agent to read them. Above it, refusals are counted and not sent; other frames wait."""
RECENT_IDS = 1_024
"""message_ids that are remembered, so that a repeated frame is applied once."""
NOT_TO_BE_SENT = frozenset({"session.history"})
"""Frames of the runner's own direction that an agent must not send; `x-interlock.` ones as well."""


class Pipe:
    """Both directions of one agent. `write` runs in its own task, so that an agent that does not read its input does
    not block the reading of its output."""

    def __init__(self, process: Process, session_id: str) -> None:
        self._process = process
        self._session_id = session_id
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self._recent: deque[str] = deque(maxlen=RECENT_IDS)
        self.refused = 0
        """Lines that were refused, whether the refusal was sent or not."""

    async def write(self) -> None:
        """Write queued frames until the agent no longer reads, then discard them: nothing may wait for it."""
        while True:
            line = await self._waiting.get()
            try:
                await self._process.write(line)
            except (BrokenPipeError, ConnectionResetError):
                break
        while True:
            await self._waiting.get()

    async def send(self, kind: str, payload: p.Payload, metadata: dict[str, Any] | None = None) -> str:
        """Send a frame; return its message_id. Waits while too many wait already."""
        frame = self._frame(kind, payload, metadata)
        await self._waiting.put(encode(frame) + b"\n")
        return frame.message_id

    def refuse(self, message_id: str, code: str, sentence: str) -> None:
        """Count a refused frame of the agent, and send it the reason (E-1): never fatal."""
        self.refused += 1
        error = p.SessionError(error_code=code, message=sentence[:1_000], fatal=False)
        frame = self._frame("session.error", error, {"in_reply_to": message_id} if message_id else None)
        if not self._waiting.full():
            self._waiting.put_nowait(encode(frame) + b"\n")

    def _frame(self, kind: str, payload: p.Payload, metadata: dict[str, Any] | None) -> Frame:
        return Frame(
            type=kind, payload=payload, message_id=str(uuid.uuid4()), session_id=self._session_id,
            timestamp=iso(time.time_ns() // 1_000_000), metadata=metadata or {},
        )

    def read(self, line: bytes) -> Frame | None:
        """Parse one line; None for a blank one and a repeated frame. Raises InvalidFrame (E-1)."""
        if not line.strip():
            return None
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise InvalidFrame("$", f"not UTF-8: {error.reason}") from None
        wire = decode_wire(line)
        self._check(wire)
        if wire.message_id and wire.message_id in self._recent:
            return None
        frame = understand(self._completed(wire), Direction.C)
        if wire.message_id:
            self._recent.append(wire.message_id)
        return frame

    def _check(self, wire: Wire) -> None:
        if wire.seq is not None:
            raise InvalidFrame("$.seq", "is set by the runner; leave it out", wire)
        if wire.session_id not in (None, self._session_id):
            raise InvalidFrame("$.session_id", "is not the session that this process was started for", wire)
        if not wire.type or wire.type in NOT_TO_BE_SENT or wire.type.startswith("x-interlock."):
            raise InvalidFrame("$.type", f"{wire.type or 'an empty type'} is not an agent's to send", wire)
        if len(wire.message_id) > 512:
            raise InvalidFrame("$.message_id", "is longer than 512 characters")
        if wire.type not in FRAMES and len(wire.type) > 256:
            raise InvalidFrame("$.type", "is longer than 256 characters", wire)

    def _completed(self, wire: Wire) -> Wire:
        """Return the envelope with the members that only the link needs, so that one table checks both."""
        durable = frame_class(wire.type) is Class.DURABLE
        return msgspec.structs.replace(
            wire, message_id=wire.message_id or "-", session_id=self._session_id, seq=1 if durable else None
        )


def sent_id(frame: Frame) -> str:
    """Return the message_id that the agent sent, "" if it sent none."""
    return "" if frame.message_id == "-" else frame.message_id


def id_of(wire: Wire | None) -> str:
    """Return the same of a frame that was refused."""
    return "" if wire is None or wire.message_id == "-" else wire.message_id
