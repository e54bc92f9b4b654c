"""The RAWP endpoint: a raw ASGI callable that joins a runner's WebSocket to the lanes (L-2, L-4, E-3, D-1).

It decodes, routes and counts; what a frame means is decided in the lane.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import msgspec
import structlog

from interlock.command.policy import Policy
from interlock.engine.bridge.frames import refuse, refuse_wire, take_frame
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.links import FULL, attach, close_for_gap, confirm, detach, tell_loss, vouch
from interlock.engine.engine import Engine
from interlock.engine.jobs import Job
from interlock.engine.lanes import LaneShell
from interlock.engine.presence import Present
from interlock.gateway.ending import Closing, next_message, refused
from interlock.gateway.inflow import Gap, Inflow
from interlock.gateway.outflow import LinkClosed, RunnerOutflow
from interlock.gateway.upgrade import not_a_websocket, refuse_upgrade
from interlock.protocol import payloads as p
from interlock.protocol.batches import BATCH, split
from interlock.protocol.clock import iso
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION, Frame, Wire
from interlock.protocol.frames import Class, Direction, InvalidFrame, decode_wire, encode, frame_class, understand
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import (
    ACK_DELAY_MS,
    ACK_FRAMES,
    HEARTBEAT_INTERVAL_MS,
    LARGEST_SEQ,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
    OPENING_TIMEOUT_MS,
)
from interlock.protocol.records import RunnerRecord
from interlock.protocol.refusals import LinkRefusal, reason

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = structlog.get_logger()

LIMITS_TOLD = {
    "max_frame_bytes": MAX_FRAME_BYTES, "max_message_bytes": MAX_MESSAGE_BYTES, "ack_frames": ACK_FRAMES,
    "ack_delay_ms": ACK_DELAY_MS, "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
}

LOSSES = {"RING": FULL, "DROP": FULL, "NONE": "this session is not buffered"}
"""Why frames were lost, by the policy that was applied (D-3)."""

POISON_FRAMES = 256
"""Frames remembered at which a lane broke; they are refused when they come again."""


class RawpEndpoint:
    """`GET /rawp`, upgraded."""

    def __init__(self, engine: Engine, gateway_id: str, entropy: Callable[[int], bytes]) -> None:
        self._engine = engine
        self._gateway_id = gateway_id
        self._entropy = entropy
        self._open: set[RunnerOutflow] = set()
        self._links: dict[str, RunnerOutflow] = {}
        """The newest link of each runner."""
        self._gaps: set[tuple[str, int]] = set()
        self._poison: deque[tuple[str, int]] = deque(maxlen=POISON_FRAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one runner until its link ends."""
        if scope["type"] != "websocket":
            await not_a_websocket(send)
            return
        runner = await self._authenticate(scope)
        await receive()
        if runner is None:
            await refuse_upgrade(send, LinkRefusal(Code.UNAUTHORIZED, "the token is missing or not known here"))
            return
        if DPS_VERSION not in scope.get("subprotocols", ()):
            await refuse_upgrade(send, LinkRefusal(Code.VERSION_UNSUPPORTED, f"this gateway speaks {DPS_VERSION}"))
            return
        await send({"type": "websocket.accept", "subprotocol": DPS_VERSION})
        outflow = RunnerOutflow(send)
        self._open.add(outflow)
        try:
            await self._serve(runner, receive, outflow)
        except Closing as closing:
            log.info("link closed", runner_id=runner.runner_id, code=closing.code, reason=closing.sentence)
            await outflow.close(closing.code, closing.sentence)
        except LinkClosed:
            pass
        finally:
            self._open.discard(outflow)
            await outflow.stop()

    def end(self) -> None:
        """Close every link, so that runners reconnect as soon as a gateway listens again."""
        for outflow in list(self._open):
            outflow.fail("the gateway is stopping")

    def shut_out(self, runner_id: str, sentence: str) -> None:
        """Close the live link of a runner whose token is accepted no more: nothing it says from now on counts (L-3)."""
        outflow = self._links.get(runner_id)
        if outflow is not None:
            outflow.shut_out(reason(LinkRefusal(Code.UNAUTHORIZED, sentence)))

    async def _authenticate(self, scope: Scope) -> RunnerRecord | None:
        headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        record = await self._engine.ledger.runner_by_token(hashlib.sha256(token.strip().encode()).hexdigest())
        return record if record is not None and not record.revoked else None

    async def _serve(self, runner: RunnerRecord, receive: Receive, outflow: RunnerOutflow) -> None:
        hello = await self._hello(receive)
        if hello.runner_id != runner.runner_id:
            raise refused(Code.UNAUTHORIZED, f"the token is runner {runner.runner_id}'s, not {hello.runner_id}'s")
        if DPS_VERSION not in hello.versions:
            raise refused(Code.VERSION_UNSUPPORTED, f"this gateway speaks {DPS_VERSION}, the runner {hello.versions}")
        clock = self._engine.clock
        older = self._links.get(runner.runner_id)
        if older is not None:
            # At once, and for good: a link that was held up somewhere must not go on beside the one that took its
            # place. It has a code of its own, or two runners with one token would chase each other from link to link.
            older.shut_out("the same runner opened a newer link", CloseCode.REPLACED)
        self._links[runner.runner_id] = outflow
        present = self._engine.presence.arrive(runner, hello, clock.now_ms())
        inflow = Inflow(self._gaps)
        try:
            await self._welcome(hello, present, inflow, outflow)
            log.info("runner attached", runner_id=runner.runner_id, sessions=len(hello.sessions))
            # A token that was revoked or changed since it was looked at must not slip through (L-3).
            current = await self._engine.ledger.runner_by_token(runner.token_sha256)
            if current is None or current.revoked:
                raise refused(Code.UNAUTHORIZED, "the runner's token is no longer accepted")
            await self._engine.seen(runner.runner_id)
            taking = self._take_all(runner.runner_id, receive, inflow, batches=outflow.batch)
            if (ended := await outflow.shut_out_in(taking)) is not None:
                raise Closing(*ended)
        finally:
            if self._links.get(runner.runner_id) is outflow:
                del self._links[runner.runner_id]
            self._engine.presence.detach(runner.runner_id, outflow, clock.now_ms())
            self._detach_lanes(outflow)
            log.info("runner detached", runner_id=runner.runner_id)
            await self._engine.seen(runner.runner_id)

    async def _hello(self, receive: Receive) -> p.Hello:
        try:
            async with asyncio.timeout(OPENING_TIMEOUT_MS / 1000):
                raw = await next_message(receive)
        except TimeoutError:
            raise Closing(CloseCode.OPENING, "hello did not come in time") from None
        try:
            frame = understand(decode_wire(raw), Direction.C)
        except InvalidFrame as error:
            raise Closing(CloseCode.OPENING, f"hello cannot be read: {error}"[:120]) from None
        if not isinstance(frame.payload, p.Hello):
            raise Closing(CloseCode.OPENING, f"{frame.type} came before hello")
        if any(max(known.last_seq_sent, known.control_seq) > LARGEST_SEQ for known in frame.payload.sessions):
            raise Closing(CloseCode.OPENING, "hello cannot be read: a seq is too large")
        return frame.payload

    async def _welcome(self, hello: p.Hello, present: Present, inflow: Inflow, outflow: RunnerOutflow) -> None:
        """Answer hello; then every lane of the runner is attached and its unconfirmed control frames go out again.

        Only then is the runner present to others: a lane that decided in between would send past its older frames.
        """
        listed = {session.session_id: session for session in hello.sessions}
        records = {r.session_id: r for r in await self._engine.ledger.runner_sessions(hello.runner_id)}
        durable: list[p.WelcomeSession] = []
        for session_id in listed.keys() | records.keys():
            shell = await self._engine.lanes.lane(session_id)
            if shell is not None and shell.lane.state.runner_id != hello.runner_id:
                continue  # Another runner's: it is neither told of nor given to this one.
            seq: int = await shell.call(lambda lane: lane.state.last_seq) if shell is not None else 0
            inflow.expect(session_id, seq + 1)
            if session_id in listed:
                durable.append(p.WelcomeSession(session_id=session_id, last_durable_seq=seq))
        outflow.batch = BATCH in hello.features
        outflow.send_now(self._link_frame("x-interlock.welcome", p.Welcome(
            version=DPS_VERSION, link_id=uuid4(self._entropy(16)), gateway_id=self._gateway_id, limits=LIMITS_TOLD,
            sessions=durable, features=[BATCH])))
        for session_id in listed.keys() | records.keys():
            await self._attach_lane(session_id, present, listed.get(session_id), outflow)
        present.link = outflow
        for shell in self._engine.lanes.live():
            if shell.lane.state.runner_id == hello.runner_id and shell.link is not outflow:
                session_id = shell.lane.state.session_id
                await self._attach_lane(session_id, present, listed.get(session_id), outflow)

    async def _attach_lane(
        self, session_id: str, present: Present, session: p.HelloSession | None, outflow: RunnerOutflow
    ) -> None:
        shell = await self._engine.lanes.lane(session_id)
        runner_id = present.record.runner_id
        if shell is None or shell.link is outflow or shell.lane.state.runner_id != runner_id:
            return
        if self._links.get(runner_id) is not outflow:
            return  # A newer link was opened while this one was still being attached.
        offer = present.offer(shell.lane.state.agent_id)
        control_seq = session.control_seq if session is not None else 0
        await shell.attach(outflow, lambda lane: attach(lane, control_seq, offer, known=session is not None))

    def _link_frame(self, kind: str, payload: p.Payload) -> bytes:
        at = self._engine.clock.now_ms()
        return encode(Frame(type=kind, payload=payload, message_id=uuid4(self._entropy(16)), timestamp=iso(at)))

    def _detach_lanes(self, outflow: RunnerOutflow) -> None:
        for shell in self._engine.lanes.live():
            if shell.link is outflow:
                shell.link = None
                shell.push(Job(detach))

    async def _take_all(self, runner_id: str, receive: Receive, inflow: Inflow, *, batches: bool) -> None:
        while True:
            message = await next_message(receive)
            for raw in split(message) if batches else (message,):
                while not await self._took(runner_id, raw, inflow):
                    pass

    async def _took(self, runner_id: str, raw: bytes, inflow: Inflow) -> bool:
        """Take a message; False where a gap was given up before it, so that it is to be taken again (E-3)."""
        try:
            await self._take_raw(runner_id, raw, inflow)
        except Gap as gap:
            if not gap.again:
                raise Closing(CloseCode.GAP, str(gap)) from None
            await self._push(runner_id, gap.session_id, partial(close_for_gap, missing=(gap.expected, gap.got - 1)))
            # What comes now is the session's end, which must be heard though frames before it are missing.
            inflow.expect(gap.session_id, gap.got)
            return False
        return True

    async def _take_raw(self, runner_id: str, raw: bytes, inflow: Inflow, *, nested: bool = False) -> None:
        try:
            wire = decode_wire(raw)
        except InvalidFrame as error:
            if error.wire is None:
                raise Closing(1003, f"not a frame: {error}"[:120]) from None
            await self._take_invalid(runner_id, error.wire, raw, error, inflow)
            return
        if nested and wire.type == "session.history":
            raise Closing(1003, "a history inside a history")
        await self._take(runner_id, wire, raw, inflow)

    async def _take(self, runner_id: str, wire: Wire, raw: bytes, inflow: Inflow) -> None:
        try:
            frame = understand(wire, Direction.C)
        except InvalidFrame as error:
            await self._take_invalid(runner_id, wire, raw, error, inflow)
            return
        if frame.seq is not None:
            await self._take_durable(runner_id, frame, raw, frame.seq, inflow)
            return
        match frame.payload:
            case p.Heartbeat():
                self._heartbeat(runner_id, frame.payload)
            case p.Ack():
                seq = frame.payload.seq
                await self._push(runner_id, frame.payload.session_id, lambda lane: confirm(lane, seq))
            case p.History():
                await self._take_history(runner_id, wire, frame, inflow)
            case p.RefusedControl():
                log.info("control refused", runner_id=runner_id, code=frame.payload.error_code)
            case _:
                await self._push(runner_id, frame.session_id or "", lambda lane: lane.transient(frame, raw), len(raw))

    async def _take_history(self, runner_id: str, wire: Wire, frame: Frame, inflow: Inflow) -> None:
        """A history's frames are applied as if they had come live; loss is told (D-2, D-4)."""
        history: p.History = frame.payload
        session_id = wire.session_id or ""
        try:
            ranges = msgspec.convert(frame.metadata.get("lost_ranges", []), list[tuple[int, int]])
        except msgspec.ValidationError as error:
            raise Closing(1003, f"metadata.lost_ranges: {error}"[:120]) from None
        if any(last > LARGEST_SEQ for _, last in ranges):
            raise Closing(1003, "metadata.lost_ranges: a number is too large")
        inflow.lose(session_id, ranges)
        why = LOSSES[history.buffer_status.policy_applied]
        await self._push(runner_id, session_id, lambda lane: tell_loss(lane, ranges, why))
        for inner in history.frames:
            await self._take_raw(runner_id, bytes(inner), inflow, nested=True)

    async def _take_durable(self, runner_id: str, frame: Frame, raw: bytes, seq: int, inflow: Inflow) -> None:
        session_id = frame.session_id or ""
        after = inflow.reached(session_id)
        if not inflow.next(session_id, seq):
            return
        policy = self._engine.policy
        shell = self._engine.lanes.peek(session_id) or await self._engine.lanes.lane(session_id)
        if shell is None or shell.lane.state.runner_id != runner_id:
            log.warning("frame of a session that is not this runner's", runner_id=runner_id, session_id=session_id)
            return
        recent = shell.recent

        def decide(lane: Lane) -> None:
            if not _continues(shell, after):
                return
            if (session_id, seq) in self._poison:
                refuse(lane, raw, frame.message_id, Code.INTERNAL, "the gateway failed at this frame")
                lane.state.last_seq = seq
                return
            try:
                _durable(lane, frame, raw, recent.seen(frame.message_id), policy)
            except Exception:
                # The lane breaks and the runner sends again: the frame must not break it for ever.
                self._poison.append((session_id, seq))
                raise

        shell.push(Job(decide, size_bytes=len(raw)))
        if shell.full:
            await shell.room()

    async def _take_invalid(
        self, runner_id: str, wire: Wire, raw: bytes, error: InvalidFrame, inflow: Inflow
    ) -> None:
        """A frame that its type does not allow is refused with its place; the link stays up (E-1)."""
        session_id = wire.session_id
        if session_id is None:
            log.warning("frame refused", runner_id=runner_id, type=wire.type, reason=str(error))
            return
        if frame_class(wire.type) is not Class.DURABLE:
            # A number on a frame that has none must not use up that of a durable frame.
            wire = msgspec.structs.replace(wire, seq=None)
        after = inflow.reached(session_id)
        if wire.seq is not None and not inflow.next(session_id, wire.seq):
            return
        sentence = f"{wire.type}: {error}"
        shell = await self._engine.lanes.lane(session_id)
        if shell is None or shell.lane.state.runner_id != runner_id:
            return

        def decide(lane: Lane) -> None:
            if wire.seq is None or _continues(shell, after):
                refuse_wire(lane, wire, raw, error.code, sentence)

        shell.push(Job(decide, size_bytes=len(raw)))
        await shell.room()

    async def _push(
        self, runner_id: str, session_id: str, decide: Callable[[Lane], Any], size_bytes: int = 0
    ) -> None:
        shell = await self._engine.lanes.lane(session_id)
        if shell is not None and shell.lane.state.runner_id == runner_id:
            shell.push(Job(decide, size_bytes=size_bytes))
            await shell.room()

    def _heartbeat(self, runner_id: str, heartbeat: p.Heartbeat) -> None:
        self._engine.presence.vouch(runner_id, heartbeat, self._engine.clock.now_ms())
        vouched = {agent.session_id for agent in heartbeat.agents}
        for shell in self._engine.lanes.live():
            state = shell.lane.state
            if state.runner_id == runner_id and state.active is not None:
                shell.push(Job(partial(vouch, vouched=state.session_id in vouched)))


def _continues(shell: LaneShell, after: int) -> bool:
    """Whether the lane stands where the link believes it to stand. An older link of the same runner may have given it
    more (then this frame is there), a failed commit has left it with less (then this link is closed, and it comes
    again)."""
    at = shell.lane.state.last_seq
    if at < after and shell.link is not None:
        shell.link.fail("frames before this one did not become durable")
    return at == after


def _durable(lane: Lane, frame: Frame, raw: bytes, repeated: bool, policy: Policy) -> None:
    if repeated:
        lane.state.last_seq = frame.seq or lane.state.last_seq
        lane.out.writes.append(lane.snapshot())  # Its number is used up, and acknowledged only once that is durable.
        return
    take_frame(lane, frame, raw, policy)
