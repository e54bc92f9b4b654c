"""A RAWP Master, written from the text alone: it waits for a runner, and opens sessions that plays command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from proof.independent_peers import profile
from proof.independent_peers.profile import RECEIVE_S, Broken, Frame, Link, Numbers, Relay


class Master:
    """One gateway for one runner. A runner that dials again is welcomed again."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._link: Link | None = None
        self._attached = asyncio.Event()
        self._sessions: dict[str, Session] = {}
        self._unconfirmed: dict[str, list[Frame]] = {}
        self.hello: Frame = {}
        self._id = str(uuid.uuid4())
        self._stopping = False

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncGenerator[int]:
        """Listen on loopback for as long as the block lasts; gives the port."""
        async with serve(self._serve, "127.0.0.1", 0, subprotocols=[Subprotocol(profile.VERSION)], compression=None,
                         max_size=None) as server:
            yield int(next(iter(server.sockets)).getsockname()[1])
            self._stopping = True
            if self._link is not None:
                await self._link.close()

    async def attached(self) -> None:
        """Wait for the runner. Raises Broken."""
        try:
            await asyncio.wait_for(self._attached.wait(), RECEIVE_S)
        except TimeoutError:
            raise Broken("the runner did not dial") from None

    async def cut(self) -> None:
        """Lose the link; the runner is to dial again."""
        await self.attached()
        assert self._link is not None
        self._attached.clear()
        await self._link.cut()

    def session(self, agent_id: str, workspace: str, relay: Relay, policy: str | None = None) -> Session:
        """A new session, not opened yet."""
        session = Session(self, str(uuid.uuid4()), agent_id, workspace, relay, policy)
        self._sessions[session.session_id] = session
        return session

    async def send(self, session_id: str, kind: str, payload: Any, **extra: Any) -> Frame:
        """Send a control frame; what a lost link did not bring is sent again behind the next hello."""
        frame = {**profile.made(kind, payload, session_id, self._numbers.next(session_id)), **extra}
        self._unconfirmed.setdefault(session_id, []).append(frame)
        if self._attached.is_set() and self._link is not None:
            await self._link.send(frame)
        return frame

    async def _serve(self, socket: ServerConnection) -> None:
        if self._stopping:
            return
        try:
            hello = json.loads(await socket.recv(decode=False))
        except ConnectionClosed:
            return
        self.hello = hello["payload"]
        known = {one["session_id"]: one["control_seq"] for one in self.hello["sessions"]}
        await socket.send(profile.write(profile.welcome(self._id, [
            {"session_id": name, "last_durable_seq": self._numbers.received.get(name, 0)} for name in known])))
        self._link = link = Link(socket, self._numbers, profile.honest)
        for name, frames in self._unconfirmed.items():
            for frame in frames:
                if frame["seq"] > known.get(name, 0):
                    await link.send(frame)
        for session in self._sessions.values():
            session.first = None
        self._attached.set()
        while (frame := await link.arrived.get()) is not None:
            session = self._sessions.get(frame.get("session_id", ""))
            if session is not None:
                session.take(frame)


class Session:
    """What a Master does with one session."""

    def __init__(self, master: Master, session_id: str, agent_id: str, workspace: str, relay: Relay,
                 policy: str | None) -> None:
        self._master = master
        self.session_id = session_id
        self._opening = profile.opening(session_id, agent_id, workspace, policy)
        self._relay = relay
        self._arrived: asyncio.Queue[Frame] = asyncio.Queue()
        self.seen: list[Frame] = []
        """Each frame once, in order, those of a history too."""
        self._read = 0
        self.histories: list[Frame] = []
        self.first: str | None = None
        """Type of the first frame of this session on the present link."""
        self._ids: set[str] = set()
        self.features: Frame = {}

    def take(self, frame: Frame) -> None:
        """Note a frame that came."""
        for each in self._relay.to_peer(frame):
            self.first = self.first or each["type"]
            if each["type"] != "session.history":
                self._note(each)
                continue
            self.histories.append(each)
            for inner in each["payload"]["frames"]:
                for passed in self._relay.to_peer(inner):
                    self._note(passed)

    def _note(self, frame: Frame) -> None:
        if frame["message_id"] not in self._ids:
            self._ids.add(frame["message_id"])
            self._arrived.put_nowait(frame)

    async def send(self, kind: str, payload: Any, **extra: Any) -> Frame:
        """Send a control frame of this session."""
        return await self._master.send(self.session_id, *self._relay.to_ours(kind, payload), **extra)

    async def receive(self, *kinds: str, within_s: float = RECEIVE_S, where: Callable[[Frame], bool] = bool) -> Frame:
        """The next frame of these types; those before it are passed over, and stay in `seen`. Raises Broken."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    while self._read >= len(self.seen):
                        self.seen.append(await self._arrived.get())
                    frame = self.seen[self._read]
                    self._read += 1
                    if frame["type"] in kinds and where(frame):
                        return frame
        except TimeoutError:
            came = [frame["type"] for frame in self.seen[-8:]]
            raise Broken(f"the runner sent no {' or '.join(kinds)}; the last that came: {came}") from None

    def of(self, *kinds: str) -> list[Frame]:
        """What was read so far of these types."""
        return [frame for frame in self.seen if frame["type"] in kinds]

    # --- behaviour of a Master by the text ---
    async def open(self) -> Frame:
        """Open the session; returns the features of `session.capabilities` (17.4). Raises Broken."""
        answer = await self.request_open()
        if answer["type"] == "session.error":
            raise Broken(f"the agent did not open: {answer['payload']}")
        self.features = answer["payload"]["features"]
        return self.features

    async def request_open(self) -> Frame:
        """Ask for the session; returns `session.capabilities`, or the `session.error` that came instead."""
        await self.send("control.session.open", self._opening)
        return await self.receive("session.capabilities", "session.error")

    async def prompt(self, text: str) -> Frame:
        """`control.prompt.request`."""
        return await self.send("control.prompt.request", profile.prompt(str(uuid.uuid4()), text))

    async def close(self) -> Frame:
        """End the session (RAWP 5.2); returns the clean-up frame (17.2.3)."""
        await self.send("control.session.close", {"reason": "the play is over"})
        return await self.receive("session.closed")
