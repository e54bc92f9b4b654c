"""The profile: definitions that the published text leaves open, and that a peer needs to connect to Interlock.

How a link is opened (hello, welcome), how frames are numbered and acknowledged, how a session is opened and closed, and
the payloads of frames that the text names without showing them. From docs/reference/protocol.md; nothing is imported.
Frames carry no envelope field beyond those that are required: `type` and `payload` (the text), `message_id`,
`session_id` and, on durable frames, `seq`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

Frame = dict[str, Any]
Tap = Callable[[Frame], Iterable[Frame]]


class Relay(Protocol):
    """The relay between the two sides: the outcome of a frame on its way to the peer, or of one of the peer's."""

    def to_peer(self, frame: Frame) -> Iterable[Frame]: ...

    def to_ours(self, kind: str, payload: Any) -> tuple[str, Any]: ...


PATH = "/rawp"
VERSION = "rawp-dps-1.0"
RECEIVE_S = 30.0
"""A frame that has not come within this counts as not sent."""
UNNUMBERED = frozenset({"session.history", "agent.text.delta", "agent.thinking.delta", "tool.invoke.stream",
                        "x-interlock.hello", "x-interlock.welcome", "x-interlock.ack", "x-interlock.heartbeat",
                        "x-interlock.control.refused"})
DONE_AT = "2030-01-01T00:00:00.000Z"


class Broken(Exception):
    """The other side violated the text; one sentence."""


class Link:
    """One WebSocket. Frames that come are read into `inbox` in their order; what is numbered is acknowledged."""

    def __init__(self, socket: ClientConnection | ServerConnection, numbers: Numbers, tap: Tap) -> None:
        self._socket = socket
        self._numbers = numbers
        self._tap = tap
        self.reads = asyncio.Event()
        self.reads.set()
        self.arrived: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def send(self, frame: Frame) -> None:
        """Send one frame, as JSON with its keys in any order. A link that has ended loses it."""
        try:
            await self._socket.send(write(frame))
        except ConnectionClosed:
            return

    async def cut(self) -> None:
        """Break the link without a closing handshake."""
        self._reading.cancel()
        self._socket.transport.abort()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.wait_closed()

    async def close(self) -> None:
        """Close the link in order."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.recv(decode=False)
                await self.reads.wait()
                for line in message.splitlines():
                    if line.strip():
                        await self._take(json.loads(line))
        except ConnectionClosed:
            return
        finally:
            self.arrived.put_nowait(None)

    async def _take(self, frame: Frame) -> None:
        if frame["type"] == "x-interlock.ack":
            self._numbers.confirm(frame["payload"])
            return
        for each in self._tap(frame):
            self.arrived.put_nowait(each)
        inner = frame["payload"]["frames"] if frame["type"] == "session.history" else [frame]
        for each in inner:
            if self._numbers.came(each):
                await self.send(made("x-interlock.ack", {"session_id": each["session_id"], "seq": each["seq"]}))


class Numbers:
    """The numbers of a peer's sessions, in both directions."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}
        self._changed = asyncio.Event()

    def next(self, session_id: str) -> int:
        """The number of the next frame."""
        self.sent[session_id] = self.sent.get(session_id, 0) + 1
        return self.sent[session_id]

    def confirm(self, ack: Frame) -> None:
        """Note an acknowledgement."""
        self._confirmed[ack["session_id"]] = ack["seq"]
        self._changed.set()

    async def all_confirmed(self, session_id: str) -> None:
        """Wait until all that was sent is acknowledged. Raises Broken."""
        try:
            async with asyncio.timeout(RECEIVE_S):
                while self._confirmed.get(session_id, 0) < self.sent.get(session_id, 0):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise Broken(f"{self.sent[session_id]} frames were sent, {self._confirmed.get(session_id, 0)} are "
                         "acknowledged") from None

    def came(self, frame: Frame) -> bool:
        """Note a frame that came; whether it has a number to acknowledge."""
        session_id, seq = frame.get("session_id"), frame.get("seq")
        if session_id is None or seq is None:
            return False
        self.received[session_id] = max(self.received.get(session_id, 0), seq)
        return True


def honest(frame: Frame) -> Iterable[Frame]:
    """A relay that changes nothing."""
    return (frame,)


def made(kind: str, payload: Any, session_id: str | None = None, seq: int | None = None, /, **metadata: Any) -> Frame:
    """A frame with the fields that are required, and no others."""
    frame: Frame = {"payload": payload, "message_id": str(uuid.uuid4()), "type": kind}
    if session_id is not None:
        frame["session_id"] = session_id
    if seq is not None:
        frame["seq"] = seq
    return {**frame, "metadata": metadata} if metadata else frame


def write(frame: Frame) -> str:
    """JSON with `payload` before `type`: the text gives no order of keys."""
    return json.dumps(frame, ensure_ascii=False)


def hello(runner_id: str, agent: Frame, sessions: list[Frame]) -> Frame:
    """The first frame of a Local Client."""
    return made("x-interlock.hello", {
        "versions": [VERSION], "runner_id": runner_id, "boot_id": str(uuid.uuid4()), "agents": [agent], "roots": ["/"],
        "sessions": sessions})


def offer(agent_id: str, adapter_type: str, permission: str = "asks") -> Frame:
    """One agent in a hello. `adapter_type` is the text's (17.1)."""
    return {"agent_id": agent_id, "adapter": "peer", "adapter_type": adapter_type, "permission": permission,
            "context_owner": "agent"}


def welcome(gateway_id: str, sessions: list[Frame]) -> Frame:
    """The first frame of a Master."""
    return made("x-interlock.welcome", {
        "version": VERSION, "link_id": str(uuid.uuid4()), "gateway_id": gateway_id, "limits": {}, "sessions": sessions})


def opening(session_id: str, agent_id: str, workspace: str, policy: str | None) -> Frame:
    """Payload of `control.session.open`."""
    wanted = {"session_id": session_id, "agent_id": agent_id, "workspace": workspace, "workspace_access": "rw"}
    return wanted if policy is None else {**wanted, "buffer_policy": policy}


def prompt(prompt_id: str, text: str) -> Frame:
    """Payload of `control.prompt.request`."""
    return {"prompt_id": prompt_id, "input_type": "text", "text": text, "origin": "user"}


def text_done(turn_id: str, text: str) -> Frame:
    """Payload of `agent.text.done`."""
    return {"turn_id": turn_id, "block_id": str(uuid.uuid4()), "text": text}


def question(interaction_id: str, tool_name: str | None) -> Frame:
    """Payload of `agent.interaction.request`; `interaction_type` and `context.tool_name` are the text's (17.3.1)."""
    context: Frame = {"input": {"command": "ls"}}
    return {"interaction_id": interaction_id, "interaction_type": "PERMISSION", "title": "May it run?",
            "context": context if tool_name is None else {"tool_name": tool_name, **context},
            "options": [{"option_id": "y", "label": "Yes", "kind": "allow_once"},
                        {"option_id": "n", "label": "No", "kind": "reject_once"}]}


def decision(interaction_id: str, decided: str, option_id: str | None) -> Frame:
    """Payload of `control.interaction.response`."""
    payload = {"interaction_id": interaction_id, "decision": decided, "by": "a person"}
    return payload if option_id is None else {**payload, "option_id": option_id}
