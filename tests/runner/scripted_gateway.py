"""A gateway on a real socket that does what a test specifies; and the sending half of a runner."""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.outbox import Outbox
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.limits import MAX_MESSAGE_BYTES
from interlock.runner.link.link import GatewayConnector, LinkIntervals, LinkState
from interlock.runner.link.outflow import Outflow
from ports.outbox_words import AT, SESSION, new_id

PATIENCE_S = 20.0
"""A test that waits longer for an event has failed."""
TOKEN = "a-runner-token"
QUICK = LinkIntervals(ack_delay_s=0.01, reconnect_min_ms=1, reconnect_max_ms=2)


class Counting:
    """Randomness that never repeats and is the same in each run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1 << 64)

    def __call__(self, count: int, /) -> bytes:
        return next(self._numbers).to_bytes(16, "big")[-count:].rjust(count, b"\0")


class Peer:
    """The gateway's end of one link."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def receive(self) -> Frame:
        """Next frame from the runner, checked as a gateway checks it."""
        raw = await asyncio.wait_for(self.socket.recv(decode=False), PATIENCE_S)
        assert len(raw) <= MAX_MESSAGE_BYTES
        return decode(raw, Direction.C)

    async def expect(self, *types: str) -> list[Frame]:
        """The next frames, which are of these types; acks are passed over unless they are asked for."""
        frames: list[Frame] = []
        for frame_type in types:
            frame = await self.receive()
            while frame.type != frame_type and frame.type == "x-interlock.ack":
                frame = await self.receive()
            assert frame.type == frame_type
            frames.append(frame)
        return frames

    async def welcome(self, *, gateway_id: str = "g1", **last_durable_seqs: int) -> Frame:
        """Wait for the hello and answer it; `SESSION` is written `s`."""
        (hello,) = await self.expect("x-interlock.hello")
        sessions = [p.WelcomeSession(session_id=SESSION, last_durable_seq=seq) for seq in last_durable_seqs.values()]
        await self.send("x-interlock.welcome", p.Welcome(version=DPS_VERSION, link_id="l", gateway_id=gateway_id,
                                                         limits={}, sessions=sessions))
        return hello

    async def send(self, frame_type: str, payload: Any, *, seq: int | None = None, message_id: str = "",
                   session_id: str | None = None) -> None:
        frame = Frame(type=frame_type, payload=payload, message_id=message_id or new_id(), timestamp=AT, seq=seq,
                      session_id=session_id or (SESSION if seq else None))
        await self.socket.send(msgspec.json.encode(frame), text=True)

    async def ack(self, seq: int) -> None:
        await self.send("x-interlock.ack", p.Ack(session_id=SESSION, seq=seq))

    async def cancel_turn(self, seq: int, message_id: str = "", session_id: str = SESSION) -> None:
        await self.send("control.turn.cancel", p.TurnCancel(reason="user"), seq=seq, message_id=message_id,
                        session_id=session_id)

    async def close(self, code: int, reason: str = "") -> None:
        await self.socket.close(code, reason)

    def cut(self) -> None:
        """Break the TCP connection without a word."""
        self.socket.transport.abort()

    async def closed(self) -> int | None:
        await asyncio.wait_for(self.socket.wait_closed(), PATIENCE_S)
        return self.socket.close_code


class Gateway:
    """Takes links and hands each to the test as a Peer. With `status` it refuses them instead, by `body`."""

    def __init__(self) -> None:
        self.status: http.HTTPStatus | None = None
        self.body = "no\n"
        self.requests: list[Request] = []
        self._peers: asyncio.Queue[Peer] = asyncio.Queue()
        self._server: Server | None = None
        self.url = ""

    async def start(self) -> None:
        self._server = await serve(self._serve, "127.0.0.1", 0, subprotocols=[Subprotocol(DPS_VERSION)],
                                   process_request=self._check, compression=None, max_size=MAX_MESSAGE_BYTES,
                                   ping_interval=None, close_timeout=1)
        port = next(iter(self._server.sockets)).getsockname()[1]
        self.url = f"ws://127.0.0.1:{port}/rawp"

    async def peer(self) -> Peer:
        """The next link."""
        return await asyncio.wait_for(self._peers.get(), PATIENCE_S)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        return socket.respond(self.status, self.body) if self.status else None

    async def _serve(self, socket: ServerConnection) -> None:
        self._peers.put_nowait(Peer(socket))
        await socket.wait_closed()


class Runner:
    """Outbox, outflow and link of a runner with one session, SESSION."""

    def __init__(self, url: str, outbox: Outbox, pace: LinkIntervals, outbox_bytes: int) -> None:
        self.outbox = outbox
        self.clock = ManualClock()
        entropy = Counting()
        self.outflow = Outflow(outbox, clock=self.clock, entropy=entropy, outbox_bytes=outbox_bytes)
        self.controls: asyncio.Queue[tuple[Frame, bytes]] = asyncio.Queue()
        self.states: asyncio.Queue[LinkState] = asyncio.Queue()
        self.hold = asyncio.Event()
        self.hold.set()
        self.failure: Exception | None = None
        self.features: list[str] = []
        self.link = GatewayConnector(url=url, token=TOKEN, outbox=outbox, objects=MemoryObjects(), outflow=self.outflow,
                                     hello=self._hello, control=self._control, live_agents=self._live_agents,
                                     clock=self.clock, entropy=entropy, on_state=self.states.put_nowait, pace=pace,
                                     look=self._look)
        self.running: asyncio.Task[None] | None = None

    async def _hello(self, gateway_id: str) -> p.Hello:
        sessions = [p.HelloSession(session_id=row.session_id, last_seq_sent=row.last_seq, control_seq=row.control_seq,
                                   state="idle") for row in await self.outbox.sessions(gateway_id)]
        return p.Hello(versions=[DPS_VERSION], runner_id="r", boot_id="b", agents=[], sessions=sessions,
                       features=self.features)

    async def _control(self, frame: Frame, raw: bytes, gateway_id: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.controls.put_nowait((frame, raw))
        await self.hold.wait()

    async def _look(self, asked: p.WorkspaceLook) -> p.WorkspaceChanges:
        await self.hold.wait()
        return p.WorkspaceChanges(request_id=asked.request_id, session_id=asked.session_id, branch="work")

    def _live_agents(self) -> list[p.LiveAgent]:
        return [p.LiveAgent(session_id=SESSION, agent_id="shell", state="running")]

    async def state(self, kind: str) -> LinkState:
        """Wait until the link reports this state."""
        while True:
            state = await asyncio.wait_for(self.states.get(), PATIENCE_S)
            if state.kind == kind:
                return state

    async def control(self) -> Frame:
        return (await asyncio.wait_for(self.controls.get(), PATIENCE_S))[0]

    async def kept(self) -> list[int]:
        """Numbers of the frames in the outbox."""
        return [stored.seq for stored in await self.outbox.frames(SESSION, 0, 1 << 30)]


@contextlib.asynccontextmanager
async def conversation(*, pace: LinkIntervals = QUICK, outbox: Outbox | None = None, limit_bytes: int = 1 << 26,
                       dial: bool = True, through: Callable[[str], str] = str,
                       features: Sequence[str] = ()) -> AsyncIterator[tuple[Gateway, Runner]]:
    """A gateway, and a runner that dials it, or the URL that `through` makes of the gateway's."""
    gateway = Gateway()
    await gateway.start()
    outbox = outbox or MemoryOutbox(limit_bytes=limit_bytes)
    await outbox.open_session(SESSION, 1_700_000_000_000, b"")
    runner = Runner(through(gateway.url), outbox, pace, limit_bytes)
    runner.features = list(features)
    flushing = asyncio.create_task(runner.outflow.run())
    runner.running = asyncio.create_task(runner.link.run()) if dial else None
    try:
        yield gateway, runner
    finally:
        tasks = [task for task in (runner.running, flushing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.stop()
        await outbox.close()


def inner(history: Frame) -> list[dict[str, Any]]:
    """The envelopes in a `session.history`."""
    return [json.loads(bytes(raw)) for raw in history.payload.frames]
