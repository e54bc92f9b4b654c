"""One link from its welcome to its end: tasks that send, receive, catch up, acknowledge and report live agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, cast

from websockets.asyncio.client import ClientConnection

from interlock.ports.clock import Clock, Entropy
from interlock.ports.outbox import Outbox
from interlock.ports.outbox import StoredFrame as StoredFrame
from interlock.protocol.clock import iso
from interlock.protocol.codes import CloseCode
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode, split
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import ACK_FRAMES, MAX_MESSAGE_BYTES
from interlock.protocol.payloads import (
    Ack,
    LiveAgent,
    Payload,
    RefusedControl,
    RunnerHeartbeat,
    Welcome,
    WorkspaceChanges,
    WorkspaceLook,
)
from interlock.runner.link.history import encode_part, merged_deltas, plan_history
from interlock.runner.link.inbound import ControlGap, Inbound, Overrun, StoredControl
from interlock.runner.link.outflow import Outflow
from interlock.runner.link.send_queue import Sending, SessionQueue

PAGE_BYTES = MAX_MESSAGE_BYTES
"""Approximate size of the pages in which the outbox is read."""

TRY_AGAIN_LATER = 1013
"""Close code for a gateway that sends faster than the runner acts (RFC 6455 registry)."""


LOOKS_WAITING = 16
"""Workspace looks that may wait for one gateway; one more is answered at once, with an error."""

Look = Callable[[WorkspaceLook], Awaitable[WorkspaceChanges]]
"""Reads the changes in a session's workspace (J-4); problems of the workspace are in the result, not raised."""


async def no_look(look: WorkspaceLook) -> WorkspaceChanges:
    """Answer a look for a runner that does not offer it."""
    return WorkspaceChanges(request_id=look.request_id, session_id=look.session_id,
                            why_not="This runner does not look at workspaces.")


class LinkBroken(Exception):
    """The link must be closed and reopened; `code` is the close code that the gateway receives."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class LinkSession:
    """Drives one link. `run` never returns: it raises LinkBroken, ConnectionClosed, or the error of a task."""

    def __init__(self, socket: ClientConnection, *, gateway_id: str, outbox: Outbox, outflow: Outflow, inbound: Inbound,
                 live_agents: Callable[[], list[LiveAgent]], clock: Clock, entropy: Entropy, heartbeat_s: float,
                 ack_delay_s: float, note: Callable[[str], None], batch: bool = False, look: Look = no_look) -> None:
        self._socket = socket
        self._gateway_id = gateway_id
        self._outbox = outbox
        self._outflow = outflow
        self._inbound = inbound
        self._live_agents = live_agents
        self._clock = clock
        self._entropy = entropy
        self._heartbeat_s = heartbeat_s
        self._ack_delay_s = ack_delay_s
        self._note = note
        self._batch = batch
        self._look = look
        self._looks: set[asyncio.Task[None]] = set()
        self._to_send = asyncio.Event()
        self._to_read = asyncio.Event()
        self._sending = Sending(self._wake)
        self._acks_out: dict[str, int] = {}
        self._acks_waiting = 0
        self._ack_due, self._acks_full = asyncio.Event(), asyncio.Event()
        self._acks_in: dict[str, int] = {}
        self._confirmed: dict[str, list[str]] = {}
        self._acked = asyncio.Event()
        self._peaks: dict[str, int] = {}

    async def run(self, welcome: Welcome, session_ids: list[str]) -> None:
        """Attach after the welcome: each session of the hello sends its history first (D-2), then goes live."""
        durable = {session.session_id: session.last_durable_seq for session in welcome.sessions}
        for session_id in session_ids:
            after = durable.get(session_id, 0)
            row = await self._outbox.session(session_id, self._gateway_id)
            if row is not None:
                self._peaks[session_id] = row.bytes_peak  # Before the acknowledgement lowers it (D-2).
                await self._outbox.ack(session_id, after, "", self._clock.now_ms(), self._gateway_id)
                self._outflow.acked(session_id)
                self._sending.expect(session_id, after)
        self._outflow.attach(self._sending, self._gateway_id)
        try:
            await first(self._send(), self._receive(), self._read_outbox(), self._acknowledge(), self._trim(),
                        self._heartbeat())
        finally:
            self._outflow.detach(self._gateway_id)
            for look in self._looks:
                look.cancel()
            await asyncio.gather(*self._looks, return_exceptions=True)

    def _wake(self) -> None:
        self._to_send.set()
        self._to_read.set()

    # --- to the gateway ---
    async def _send(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            while (raw := self._sending.pop_all() if self._batch else self._sending.pop()) is not None:
                await self._socket.send(raw, text=True)
            self._to_read.set()

    async def _read_outbox(self) -> None:
        """Read sessions that are behind from the outbox until they are live, one after another."""
        while True:
            await self._to_read.wait()
            self._to_read.clear()
            while self._sending.roomy and (session_id := self._sending.behind()) is not None:
                await self._catch_up(session_id, self._sending.lanes[session_id])

    async def _catch_up(self, session_id: str, lane: SessionQueue) -> None:
        """Read a session's frames; the last page while the outflow is locked, so that no frame is missing or repeated
        between this page and the next offer."""
        if lane.seq is None:
            row = await self._outbox.session(session_id, self._gateway_id)
            lane.reach(row.acked_seq if row else 0)
        after, frames = lane.seq or 0, list[StoredFrame]()
        while True:
            page = await self._outbox.frames(session_id, frames[-1].seq if frames else after, PAGE_BYTES)
            frames += page
            if sum(len(frame.raw) for frame in page) < PAGE_BYTES // 2:
                break
            if not lane.needs_history:
                # One page at a time: the next is read once the socket has accepted this one.
                self._push_frames(lane, frames)
                return
        async with self._outflow.still:
            while page := await self._outbox.frames(session_id, frames[-1].seq if frames else after, PAGE_BYTES):
                frames += page
            await self._join(session_id, lane, frames)

    async def _join(self, session_id: str, lane: SessionQueue, frames: list[StoredFrame]) -> None:
        row = await self._outbox.session(session_id, self._gateway_id)
        if row is None:
            return
        now = iso(self._clock.now_ms())
        deltas = merged_deltas(await self._outbox.pieces(session_id), self._outflow.template, lane.ends, self._new_id,
                               now)
        if lane.needs_history:
            row = row._replace(bytes_peak=max(row.bytes_peak, self._peaks.pop(session_id, 0)))
            plan = plan_history(row, lane.seq or 0, frames, [delta.raw for delta in deltas])
            for number, part in enumerate(plan.parts):
                self._sending.push(lambda number=number: encode_part(plan, number, self._new_id(), now),
                                   sum(map(len, part.frames)))
        else:
            self._push_frames(lane, frames)
            for delta in deltas:
                self._sending.push(delta.raw)
        self._sending.go_live(lane, max(row.last_seq, lane.seq or 0), deltas)

    def _push_frames(self, lane: SessionQueue, frames: list[StoredFrame]) -> None:
        """Queue frames as live ones. Raises LinkBroken for a gap: frames were evicted, and only a history reports
        that."""
        for frame in frames:
            if frame.seq != (lane.seq or 0) + 1:
                raise LinkBroken(1001, f"Frames of session {frame.session_id} were lost before {frame.seq}; "
                                   "a new link reports them as lost.")
            lane.reach(frame.seq)
            self._sending.push(frame.raw)

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            self._sending.urge(self._link_frame("x-interlock.heartbeat", RunnerHeartbeat(
                agents=self._live_agents(), outbox_bytes=self._outflow.kept_bytes)))
            self._outflow.recount()

    # --- from the gateway ---
    async def _receive(self) -> None:
        while True:
            message = await self._socket.recv(decode=False)
            await self._take(split(message) if self._batch else (message,))

    async def _take(self, raws: Iterable[bytes]) -> None:
        """Accept one message's frames: they become durable together (D-7)."""
        try:
            came = await self._inbound.take(raws)
        except ControlGap as gap:
            raise LinkBroken(CloseCode.GAP, str(gap)) from None
        except Overrun as overrun:
            raise LinkBroken(TRY_AGAIN_LATER, str(overrun)) from None
        for taken in came:
            match taken:
                case StoredControl():
                    self._owe_ack(taken)
                case str():
                    self._note(taken)
                case Frame(type="x-interlock.ack"):
                    self._take_ack(cast("Ack", taken.payload))
                case Frame(payload=WorkspaceLook() as request):
                    self._begin_look(request)
                case Frame():
                    self._note(f"The gateway sent {taken.type} out of order; it was ignored.")

    def _begin_look(self, request: WorkspaceLook) -> None:
        """Read the workspace in a task of its own, and send the answer."""
        if len(self._looks) >= LOOKS_WAITING:
            self._answer_look(WorkspaceChanges(
                request_id=request.request_id, session_id=request.session_id,
                why_not=f"The runner is reading {LOOKS_WAITING} workspaces already; try again in a moment."))
            return

        async def look() -> None:
            self._answer_look(await self._look(request))

        task = asyncio.create_task(look(), name="workspace look")
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    def _answer_look(self, changes: WorkspaceChanges) -> None:
        self._sending.urge(self._link_frame("x-interlock.workspace.changes", changes))

    def refused(self, session_id: str, refusal: RefusedControl) -> None:
        """Report that a control frame of this gateway was stored and refused; hello repeats it until acknowledged."""
        self._sending.urge(encode(Frame(
            type="x-interlock.control.refused", payload=refusal, message_id=self._new_id(), session_id=session_id,
            timestamp=iso(self._clock.now_ms()))))

    def _take_ack(self, ack: Ack) -> None:
        if ack.refused:
            self._confirmed.setdefault(ack.session_id, []).extend(ack.refused)
            self._acked.set()
        seq = min(ack.seq, self._sending.sent_seq(ack.session_id))
        if seq > self._acks_in.get(ack.session_id, 0):
            self._acks_in[ack.session_id] = seq
            self._acked.set()

    async def _trim(self) -> None:
        """Trim the outbox; acks that arrive during a write are handled together."""
        while True:
            await self._acked.wait()
            self._acked.clear()
            acks, self._acks_in = self._acks_in, {}
            confirmed, self._confirmed = self._confirmed, {}
            for session_id, seq in acks.items():
                await self._outbox.ack(session_id, seq, "", self._clock.now_ms(), self._gateway_id)
                self._outflow.acked(session_id)
            for session_id, message_ids in confirmed.items():
                if await self._outbox.session(session_id) is not None:
                    await self._outbox.confirm(session_id, self._gateway_id, message_ids)

    def _owe_ack(self, stored: StoredControl) -> None:
        self._acks_out[stored.session_id] = max(stored.seq, self._acks_out.get(stored.session_id, 0))
        self._acks_waiting += 1
        self._ack_due.set()
        if self._acks_waiting >= ACK_FRAMES:
            self._acks_full.set()

    async def _acknowledge(self) -> None:
        """Acknowledge control frames after ACK_FRAMES frames or the delay, whichever is first (D-1, D-7)."""
        while True:
            await self._ack_due.wait()
            try:
                async with asyncio.timeout(self._ack_delay_s):
                    await self._acks_full.wait()
            except TimeoutError:
                pass
            acks, self._acks_out, self._acks_waiting = self._acks_out, {}, 0
            self._ack_due.clear()
            self._acks_full.clear()
            for session_id, seq in acks.items():
                self._sending.urge(self._link_frame("x-interlock.ack", Ack(session_id=session_id, seq=seq)))

    def _new_id(self) -> str:
        return uuid4(self._entropy(16))

    def _link_frame(self, frame_type: str, payload: Payload) -> bytes:
        return encode(Frame(type=frame_type, payload=payload, message_id=self._new_id(),
                            timestamp=iso(self._clock.now_ms())))


async def first(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines concurrently until the first ends or fails; cancel the others and wait for them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
