"""A gateway's end of the link, and a runner on a raw WebSocket that sends what a test specifies."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import msgspec

from engine.conversation import Table
from interlock.gateway.link.rawp import RawpEndpoint
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import Direction, decode

PATIENCE_S = 20.0
"""A test that waits longer for an event has failed."""
TOKEN = "a-runner-token"


class Runner:
    """A runner that sends what a test wants, at the ASGI end of a WebSocket."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.incoming.put_nowait({"type": "websocket.connect"})
        self._ids = 0

    async def next(self) -> MutableMapping[str, Any]:
        return await asyncio.wait_for(self.sent.get(), PATIENCE_S)

    async def frame(self, frame_type: str) -> Frame:
        """The next frame of this type; others are passed over."""
        while True:
            message = await self.next()
            assert message["type"] == "websocket.send", message
            frame = decode(message["text"].encode(), Direction.M)
            if frame.type == frame_type:
                return frame

    async def closed(self) -> tuple[int, str]:
        """The code and reason of the close; frames before it are passed over."""
        while (message := await self.next())["type"] != "websocket.close":
            pass
        return message["code"], message["reason"]

    async def acked(self, seq: int) -> None:
        """All up to `seq` is acknowledged."""
        while (await self.frame("x-interlock.ack")).payload.seq < seq:
            pass

    def text(self, text: str) -> None:
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})

    def send(self, frame_type: str, payload: Any, **fields: Any) -> None:
        self._ids += 1
        frame = {"type": frame_type, "payload": msgspec.to_builtins(payload), "message_id": f"r{id(self)}-{self._ids}",
                 "timestamp": "", **fields}
        self.text(json.dumps({key: value for key, value in frame.items() if value is not None}))

    def hello(self, *sessions: p.HelloSession, **changes: Any) -> None:
        offer = p.AgentOffer(agent_id="shell", adapter="acp", adapter_type="process", permission="asks",
                             context_owner="agent")
        hello = p.Hello(versions=[DPS_VERSION], runner_id="local", boot_id="b", agents=[offer],
                        sessions=list(sessions), roots=["/w"])
        self.send("x-interlock.hello", msgspec.structs.replace(hello, **changes))


class Server(Table):
    """The engine's table with a real endpoint before it, and no one attached yet."""

    gateway_id = "g1"

    def begin(self) -> None:
        super().begin()
        self.engine.presence.detach("local", self.wire, 0)
        self.endpoint = RawpEndpoint(self.engine, self.entropy)

    async def pair(self) -> None:
        record = msgspec.structs.replace(self.record, token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest())
        await self.ledger.commit(WriteBatch([Put(record)]))

    @contextlib.asynccontextmanager
    async def link(self, token: str = TOKEN, subprotocol: str = DPS_VERSION) -> AsyncIterator[Runner]:
        runner = Runner()
        scope = {"type": "websocket", "subprotocols": [subprotocol],
                 "headers": [(b"authorization", f"Bearer {token}".encode())]}
        serving = asyncio.create_task(self.endpoint(scope, runner.incoming.get, self._into(runner)))
        try:
            yield runner
            runner.incoming.put_nowait({"type": "websocket.disconnect"})
            await asyncio.wait_for(serving, PATIENCE_S)
        finally:
            serving.cancel()

    @contextlib.asynccontextmanager
    async def attached(self, *sessions: p.HelloSession, **changes: Any) -> AsyncIterator[Runner]:
        """A link on which hello and welcome were exchanged."""
        async with self.link() as runner:
            assert (await runner.next())["type"] == "websocket.accept"
            runner.hello(*sessions, **changes)
            await runner.frame("x-interlock.welcome")
            yield runner

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Runner, str, str]]:
        """An attached runner with an open session, a prompt in it: (runner, session id, command id)."""
        async with self.attached() as runner:
            command = await self.execute()
            session_id = command.target.session_id
            await runner.frame("control.prompt.request")
            runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
            await runner.frame("session.capabilities")
            yield runner, session_id, command.id

    async def kinds(self, session_id: str) -> list[str]:
        """Types of the durable frames of the runner, and "refused" for what was refused."""
        events = await self.ledger.events("default", f"s/{session_id}", 0, 100)
        return [json.loads(event.body)["type"] if event.kind == "C" else "refused"
                for event in events if event.kind in ("C", "refused")]

    @staticmethod
    def _into(runner: Runner) -> Any:
        async def send(message: MutableMapping[str, Any]) -> None:
            runner.sent.put_nowait(message)

        return send


CAPABILITIES = p.Capabilities(dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": "asks"})


def warning(text: str = "careful") -> p.AgentError:
    return p.AgentError(severity="warning", error_code="X", message=text)
