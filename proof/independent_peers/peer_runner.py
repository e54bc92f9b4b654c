"""A RAWP Local Client, written from the text alone, with one agent that does what a play requests."""

from __future__ import annotations

import asyncio
import copy
import uuid
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from proof.independent_peers import profile
from proof.independent_peers.profile import RECEIVE_S, Broken, Frame, Link, Numbers, Relay

USAGE: Frame = {
    "token_usage": {"input_tokens": 7, "output_tokens": 5},
    "cost_usage": {"limit": -1, "used": 0, "unit": "USD"},
    "message_usage": {"limit": -1, "used": 1, "unit": "COUNT"},
    "context_window": {},
    "time_to_reset": "2030-01-01T00:00:00Z",
}
"""The example of 7.3.1 with each optional field left out."""


class LocalClient:
    """One runner, with one session at a time."""

    def __init__(self, url: str, token: str, runner_id: str, agent_id: str, relay: Relay, adapter_type: str,
                 features: Frame) -> None:
        self._url = url.replace("http", "ws", 1) + profile.PATH
        self._token = token
        self._runner_id = runner_id
        self._relay = relay
        self.agent_id = agent_id
        self._adapter_type = adapter_type
        self._features = {"adapter_type": adapter_type, "permission": "asks", **features}
        self._numbers = Numbers()
        self._link: Link | None = None
        self._waiting: list[Frame] = []
        self.buffered: list[Frame] = []
        """What was sent while the link was down: the frames of the next `session.history`."""
        self.session_id = ""
        self._turn_id = ""
        self._synced = ""
        self.welcomed: Frame = {}

    async def dial(self) -> None:
        """Open a link: hello, then welcome."""
        socket = await connect(self._url, subprotocols=[Subprotocol(profile.VERSION)], compression=None, proxy=None,
                               additional_headers={"Authorization": f"Bearer {self._token}"}, max_size=None)
        self._link = link = Link(socket, self._numbers, self._relay.to_peer)
        known = [{"session_id": self.session_id, "last_seq_sent": self._numbers.sent.get(self.session_id, 0),
                  "control_seq": self._numbers.received.get(self.session_id, 0),
                  **({"state": "running", "turn_id": self._turn_id} if self._turn_id else {"state": "idle"})}]
        await link.send(profile.hello(self._runner_id, profile.offer(self.agent_id, self._adapter_type),
                                      known if self.session_id else []))
        self.welcomed = await self.receive("x-interlock.welcome")

    async def cut(self) -> None:
        """Lose the link, when all that was sent is acknowledged."""
        assert self._link is not None
        await self._numbers.all_confirmed(self.session_id)
        await self._link.cut()
        self._link = None

    def pause(self) -> None:
        """Read nothing more of what comes, as a client that is busy, until `resume`."""
        assert self._link is not None
        self._link.reads.clear()

    def resume(self) -> None:
        """Continue to read."""
        assert self._link is not None
        self._link.reads.set()

    async def close(self) -> None:
        """Leave."""
        if self._link is not None:
            await self._link.close()

    async def send(self, kind: str, payload: Any, /, **metadata: Any) -> Frame:
        """Send a frame of the session; while the link is down it goes to the buffer."""
        kind, payload = self._relay.to_ours(kind, payload)
        seq = None if kind in profile.UNNUMBERED else self._numbers.next(self.session_id)
        return await self.send_frame(profile.made(kind, payload, self.session_id, seq, **metadata))

    def number(self) -> int:
        """Take the next number, for a frame that is made by hand."""
        return self._numbers.next(self.session_id)

    async def send_frame(self, frame: Frame) -> Frame:
        """Send a frame that is made by hand."""
        if self._link is None:
            self.buffered.append(frame)
        else:
            await self._link.send(frame)
            self._synced = frame["message_id"]
        return frame

    async def receive(self, *kinds: str, within_s: float = RECEIVE_S) -> Frame:
        """The next frame of one of these types; others wait. Raises Broken."""
        assert self._link is not None
        for frame in self._waiting:
            if frame["type"] in kinds:
                self._waiting.remove(frame)
                return frame
        try:
            async with asyncio.timeout(within_s):
                while (frame := await self._link.arrived.get()) is not None:
                    if frame["type"] in kinds:
                        return frame
                    self._waiting.append(frame)
        except TimeoutError:
            raise Broken(f"the master sent no {' or '.join(kinds)}") from None
        raise Broken(f"the master closed the link instead of sending {' or '.join(kinds)}")

    def unread(self, kind: str) -> list[Frame]:
        """Received frames of a type that were not read."""
        assert self._link is not None
        while not self._link.arrived.empty():
            if (frame := self._link.arrived.get_nowait()) is not None:
                self._waiting.append(frame)
        return [frame for frame in self._waiting if frame["type"] == kind]

    async def nothing(self, kind: str, for_s: float) -> None:
        """Raise Broken if a frame of the type comes within the time."""
        try:
            frame = await self.receive(kind, within_s=for_s)
        except Broken:
            return
        raise Broken(f"the master sent {kind}: {frame['payload']}")

    # --- frames of a client by the text ---
    async def opened(self) -> Frame:
        """Wait for the session to be opened and answer with the capabilities (17.4); returns the prompt."""
        self.session_id = (await self.receive("control.session.open"))["session_id"]
        await self.send("session.capabilities", {
            "dps_version": profile.VERSION, "features": self._features,
            "agent": {"agent_id": self.agent_id, "name": "Peer"}})
        return await self.receive("control.prompt.request")

    async def begin(self, index: float = 0, turn_id: str | None = None, *, own: bool = False, **more: Any) -> str:
        """`session.turn.start` (7.5.1); the text has no field for the prompt. A turn of the agent's `own`
        has none, which only the profile can express."""
        self._turn_id = turn_id = turn_id or str(uuid.uuid4())
        start = {"turn_id": turn_id, "turn_index": index, **more}
        await self.send("session.turn.start", start, **({"prompt_id": ""} if own else {}))
        return turn_id

    async def begun(self, index: float = 0) -> str:
        """A session that is opened, a prompt that comes, and its turn."""
        await self.opened()
        return await self.begin(index)

    async def prompted(self, index: float) -> str:
        """Another prompt, and its turn."""
        await self.receive("control.prompt.request")
        return await self.begin(index)

    async def send_text(self, turn_id: str, text: str) -> None:
        """A block of text, whole."""
        await self.send("agent.text.done", profile.text_done(turn_id, text))

    async def end(self, turn_id: str, stop_reason: str = "end_turn", usage: Frame | None = None, **more: Any) -> None:
        """`session.turn.end` (7.5.2), and the usage that must accompany it (7.3.1)."""
        self._turn_id = ""
        await self.send("session.turn.end", {"turn_id": turn_id, "stop_reason": stop_reason, **more})
        await self.send("session.usage", USAGE if usage is None else usage)

    async def recover(self, status: Frame, keep: int | None = None, *, holes: bool = False) -> None:
        """Dial again and send the history first (7.1.1): the last `keep` of what was buffered, or all of it.

        The text knows no numbers: what is lost leaves a hole in them (`holes`), or only what is kept is numbered.
        """
        frames = self.buffered if keep is None else self.buffered[len(self.buffered) - keep:]
        lost = len(self.buffered) - len(frames)
        frames = [copy.deepcopy(frame) for frame in frames]
        if not holes:
            for frame in frames:
                frame["seq"] -= lost
            self._numbers.sent[self.session_id] -= lost
        self.buffered = []
        await self.dial()
        await self.send("session.history", {
            "frames": frames, "buffer_status": status, "last_sync_timestamp": "2025-09-06T10:00:00Z",
            "last_message_id": self._synced})
