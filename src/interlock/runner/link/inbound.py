"""Frames from the gateway: stored before they are acted on, delivered once and in order (D-7)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from structlog.contextvars import bind_contextvars

from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.outbox import Outbox, StoreControl
from interlock.protocol.clock import iso
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame, Wire
from interlock.protocol.frames import Class, Direction, InvalidFrame, decode_wire, frame_class, understand
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import LARGEST_SEQ
from interlock.protocol.payloads import FileTransfer, SessionError
from interlock.protocol.records import ControlRecord
from interlock.runner.link.outflow import Outflow
from interlock.runner.session.uploads import shelve

CONTROLS_WAITING = 256
"""Control frames of one session that may wait; one more closes the link, and the gateway sends it again later."""

Control = Callable[[Frame, bytes, str], Awaitable[None]]
"""Acts on a stored frame, its bytes, and the id of the gateway that sent it."""


class ControlGap(Exception):
    """A gap before a control frame's seq (E-3): the link closes with 4409, and the reattach repairs it."""


class _Repeated(Exception):
    """The same gap a second time (E-3): the session is closed, not the link."""


class Overrun(Exception):
    """More than CONTROLS_WAITING control frames wait in a session."""


class StoredControl(NamedTuple):
    """The session's control frames up to `seq` are durable."""

    session_id: str
    seq: int


class Inbound:
    """Accepts frames from every link to one gateway, one link after another; outlives the links, so that each stored
    frame is delivered.

    `join` comes before the first frame: the numbers of control frames are per gateway (D-7).
    """

    def __init__(self, outbox: Outbox, objects: Objects, outflow: Outflow, clock: Clock, entropy: Entropy,
                 control: Control) -> None:
        self._outbox = outbox
        self._objects = objects
        self._outflow = outflow
        self._clock = clock
        self._entropy = entropy
        self._control = control
        self._gateway_id = ""
        self._to_store: list[tuple[StoreControl, Frame]] = []
        """Frames of the current message: stored together, then delivered."""
        self._reached: dict[str, int] = {}
        """The last seq in `_to_store`, for each session."""
        self._storing: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, deque[tuple[Frame, bytes]]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._gaps: dict[str, tuple[int, int]] = {}
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Receives the exception of a control frame: the runner cannot continue with a frame half acted on."""

    def join(self, gateway_id: str) -> None:
        """Accept frames of this gateway from now on."""
        self._gateway_id = gateway_id

    async def take(self, raws: Iterable[bytes]) -> list[StoredControl | Frame | str]:
        """Store the durable frames of one message. For each frame, return what is to be acknowledged, a link frame
        itself, or the sentence for one refused without being stored. Raises ControlGap and Overrun; frames before the
        faulty one are stored all the same."""
        await asyncio.gather(*self._storing)  # Of an earlier link.
        try:
            return [await self._one(raw) for raw in raws]
        finally:
            await self._store()

    async def _one(self, raw: bytes) -> StoredControl | Frame | str:
        broken: InvalidFrame | None = None
        try:
            wire = decode_wire(raw)
        except InvalidFrame as error:
            if error.wire is None:
                return f"The gateway sent something that is not a frame: {error}."
            broken, wire = error, error.wire
        try:
            return await (self._take(wire, raw) if broken is None else self._refuse(wire, raw, broken))
        except _Repeated as repeated:
            await self._store()
            return await self._give_up(wire, str(repeated))

    async def _take(self, wire: Wire, raw: bytes) -> StoredControl | Frame | str:
        try:
            frame = understand(wire, Direction.M)
        except InvalidFrame as error:
            return await self._refuse(wire, raw, error)
        if frame.seq is None or frame.session_id is None:
            return frame
        stored = StoredControl(frame.session_id, frame.seq)
        if await self._is_next(stored):
            if self._waits(stored.session_id) >= CONTROLS_WAITING:
                raise Overrun(f"More than {CONTROLS_WAITING} control frames wait in session {stored.session_id}.")
            if isinstance(frame.payload, FileTransfer):
                frame, raw = await shelve(self._objects, frame, raw)
            self._to_store.append((self._record(wire, raw, stored), frame))
            self._reached[stored.session_id] = stored.seq
        return stored

    async def _store(self) -> None:
        """Write the collected frames in one transaction, which is one fsync, and only then deliver them (D-7). A link
        that breaks meanwhile interrupts neither: a stored frame is not sent again, so it would never be delivered."""
        taken, self._to_store = self._to_store, []
        self._reached.clear()
        if taken:
            storing = asyncio.create_task(self._write_and_give(taken), name="store control frames")
            self._storing.add(storing)
            storing.add_done_callback(self._storing.discard)
            await asyncio.shield(storing)

    async def _write_and_give(self, taken: list[tuple[StoreControl, Frame]]) -> None:
        try:
            await self._outbox.write([store for store, _ in taken])
        except Exception as error:
            if not self.failed.done():
                self.failed.set_exception(error)  # The link that sent the frames may be gone.
            raise
        for store, frame in taken:
            self._give(frame, store.record.body, store.record.session_id)

    def _waits(self, session_id: str) -> int:
        coming = sum(store.record.session_id == session_id for store, _ in self._to_store)
        return coming + len(self._waiting.get(session_id, ()))

    async def close(self) -> None:
        """Stop delivering frames; stored ones stay."""
        await asyncio.gather(*self._storing, return_exceptions=True)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self.failed.done() and not self.failed.cancelled():
            self.failed.exception()
        self.failed.cancel()

    async def _is_next(self, frame: StoredControl) -> bool:
        """Return whether the frame continues its session; False if it is stored already. Raises ControlGap."""
        row = await self._outbox.session(frame.session_id, self._gateway_id)
        have = self._reached.get(frame.session_id)
        if have is None:
            if row is None or (row.control_seq == 0 and row.controller not in ("", self._gateway_id)):
                # A runner that never knew the session, or lost its outbox, continues at the gateway's number (D-6).
                self._gaps.pop(frame.session_id, None)
                return True
            have = row.control_seq
        if frame.seq <= have:
            return False
        if frame.seq == have + 1:
            self._gaps.pop(frame.session_id, None)
            return True
        gap = (have, frame.seq)
        if self._gaps.get(frame.session_id) == gap:
            raise _Repeated(f"Control frame {frame.seq} came after {have} once more: the gateway has lost what lies "
                            "between, so the session is closed.")
        self._gaps[frame.session_id] = gap
        raise ControlGap(f"Control frame {frame.seq} of session {frame.session_id} came after {have}.")

    async def _refuse(self, wire: Wire, raw: bytes, error: InvalidFrame) -> StoredControl | str:
        """Answer an invalid frame with `session.error` (E-1). A numbered one counts as stored (D-7)."""
        sentence = f"The gateway sent an invalid {wire.type}: {error}."
        durable = frame_class(wire.type) is Class.DURABLE and wire.seq is not None and 0 < wire.seq <= LARGEST_SEQ
        if not wire.session_id:
            return sentence
        report = self._error(wire, sentence)
        if not durable or wire.seq is None:
            await self._store()
            if await self._outbox.session(wire.session_id) is not None:
                await self._outflow.emit(report)
            return sentence
        stored = StoredControl(wire.session_id, wire.seq)
        if await self._is_next(stored):
            await self._store()
            await self._outflow.emit(self._record(wire, raw, stored), report)
            await self._outflow.flushed()
        return stored

    async def _give_up(self, wire: Wire, sentence: str) -> str:
        """Close the session whose control frames cannot be completed (E-3), if it is on this runner."""
        session_id = wire.session_id or ""
        row = await self._outbox.session(session_id)
        if row is not None and row.controller in ("", self._gateway_id):  # An observer's gap does not end the session.
            report = self._error(wire, sentence, Code.INTERNAL, fatal=True)
            await self._outflow.emit(report)
            # The same error, as if sent by the gateway, ends the agent (T-5), after the frames that wait.
            self._give(report, b"", session_id)
        return sentence

    def _record(self, wire: Wire, raw: bytes, stored: StoredControl) -> StoreControl:
        return StoreControl(ControlRecord(session_id=stored.session_id, seq=stored.seq, message_id=wire.message_id,
                                          body=raw), self._clock.now_ms(), self._gateway_id)

    def _error(self, wire: Wire, sentence: str, code: Code = Code.INVALID_FRAME, *, fatal: bool = False) -> Frame:
        return Frame(
            type="session.error",
            message_id=uuid4(self._entropy(16)),
            session_id=wire.session_id,
            timestamp=iso(self._clock.now_ms()),
            metadata={"in_reply_to": wire.message_id} if wire.message_id else {},
            payload=SessionError(error_code=code, message=sentence, fatal=fatal),
        )

    def _give(self, frame: Frame, raw: bytes, session_id: str) -> None:
        """Queue a stored frame for its session; one worker per session keeps the order."""
        waiting = self._waiting.get(session_id)
        if waiting is not None:
            waiting.append((frame, raw))
            return
        self._waiting[session_id] = deque([(frame, raw)])
        worker = asyncio.create_task(self._work(session_id), name=f"control {session_id}")
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, session_id: str) -> None:
        waiting = self._waiting[session_id]
        try:
            while waiting:
                frame, raw = waiting[0]
                # Every log line of this frame, even of a whole turn, names the session and the frame.
                bind_contextvars(session_id=session_id, message_id=frame.message_id, seq=frame.seq)
                await self._control(frame, raw, self._gateway_id)
                waiting.popleft()
        except Exception as error:  # noqa: BLE001 - handed to `failed`, which ends the link's run
            if not self.failed.done():
                self.failed.set_exception(error)
        finally:
            del self._waiting[session_id]
