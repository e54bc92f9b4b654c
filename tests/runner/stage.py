"""A runner's sessions on a stage: the in-memory outbox, the real outflow, real agents, and a gateway that is a list."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.agent import AgentSpec
from interlock.ports.outbox import StoreControl, StoredFrame
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode, encode
from interlock.protocol.limits import OUTBOX_BYTES
from interlock.protocol.records import ControlRecord
from interlock.runner.agent_catalog import Offered, Offering
from interlock.runner.link.outflow import Outflow
from interlock.runner.link.uplink import Offer, TransientDelta
from interlock.runner.process.process import AgentProcess
from interlock.runner.session.session_box import NO_BOX, Boxing
from interlock.runner.session.session_context import Surroundings
from interlock.runner.session.sessions import RunnerSessions
from interlock.runner.session.uploads import shelve
from interlock.runner.turn.interactions import LivePresence, Waits
from interlock.runner.turn.turn import SessionTimeouts
from interlock.session.turn import TurnMachine

MISBEHAVING = Path(__file__).parent.parent / "agents" / "misbehaving.py"
PATIENCE_S = 30.0
NOW_MS = 1_790_000_000_000
PATIENT, USUAL = Waits(), SessionTimeouts()
_numbers = itertools.count(1)


def misbehaving(*words: str, **fields: Any) -> AgentSpec:
    """The misbehaving agent as a configured one."""
    return AgentSpec(adapter="acp", command=sys.executable, args=["-I", "-S", str(MISBEHAVING), *words],
                     **{"asking_modes": ["default", "plan"], **fields})


def program(code: str, *arguments: str) -> AgentSpec:
    """A Python program under `exec`; it finds the prompt as its last argument."""
    return AgentSpec(adapter="exec", command=sys.executable, args=["-I", "-S", "-c", code, *arguments])


class Stage:
    """A session with a scripted gateway: `send` sends its frames, `received` has the runner's, in order."""

    def __init__(self, workspace: Path, agents: dict[str, AgentSpec], outbox: MemoryOutbox, objects: MemoryObjects,
                 waits: Waits, timeouts: SessionTimeouts, outbox_bytes: int, boxing: Boxing = NO_BOX) -> None:
        self.workspace = workspace
        self.outbox = outbox
        self.objects = objects
        self.received: list[Frame] = []
        self.presence = LivePresence(live=True)
        self.machine = TurnMachine()
        self._changed = asyncio.Condition()
        self._control_seq = 0
        self._taken = 0
        self._openings = 0
        self._sent = ""
        self.session_id = f"00000000-0000-4000-8000-{os.getpid():06d}{next(_numbers):06d}"
        self.outflow = Outflow(outbox, clock=ManualClock(NOW_MS), entropy=secrets.token_bytes,
                               outbox_bytes=outbox_bytes)
        self.outflow.attach(self)
        self.sessions = RunnerSessions(
            Surroundings(
                flow=self.outflow, objects=self.objects, clock=ManualClock(NOW_MS), entropy=secrets.token_bytes,
                presence=self.presence, spawn=AgentProcess.start,
                offered=Offered(Offering(agents, [str(workspace)])), runner_id="stage",
                environment=os.environ, waits=waits, timeouts=timeouts, boxing=boxing,
            ),
            outbox,
        )

    # --- the gateway's ear ---
    def offer(self, offers: Sequence[Offer]) -> None:
        for offer in offers:
            if isinstance(offer, StoredFrame | TransientDelta):
                frame = decode(offer.raw, Direction.C)
                if isinstance(offer, StoredFrame):
                    self.machine.apply(frame)
                else:
                    self.machine.check(frame)
                self.received.append(frame)
        asyncio.get_running_loop().create_task(self._notify())

    def forget(self, session_id: str) -> None:
        pass

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def next(self, *kinds: str) -> Frame:
        """The next frame of one of these types that was not taken yet; those before it are passed over."""
        return await self.next_within(PATIENCE_S, *kinds)

    async def next_within(self, seconds: float, *kinds: str) -> Frame:
        """The same, or TimeoutError after this time."""
        async with asyncio.timeout(seconds), self._changed:
            while True:
                while self._taken < len(self.received):
                    frame = self.received[self._taken]
                    self._taken += 1
                    if frame.type in kinds:
                        return frame
                if self._over():
                    pytest.fail(f"the session is over and sent no {' or '.join(kinds)}: {self.received[-1].payload}")
                await self._changed.wait()

    def _over(self) -> bool:
        """True when no frame can follow: what was sent last was an opening that has ended, or found no open session."""
        if not self.received:
            return False
        last = self.received[-1]
        if last.type == "session.closed":
            return self._sent == "control.session.open" and self._openings == len(self.all("session.closed"))
        return (last.type == "session.error" and last.payload.error_code == Code.SESSION_NOT_FOUND
                and last.metadata.get("in_reply_to") == f"m-{self._control_seq}")

    def all(self, *kinds: str) -> list[Frame]:
        return [frame for frame in self.received if frame.type in kinds]

    def durable(self) -> list[str]:
        """Types of the durable frames in order, but for state changes."""
        return [f.type for f in self.received if f.seq is not None and f.type != "agent.state.changed"]

    def text(self) -> str:
        return "".join(frame.payload.text for frame in self.all("agent.text.done"))

    # --- the gateway's hand ---
    async def store(self, kind: str, payload: p.Payload, metadata: dict[str, Any] | None = None) -> Frame:
        """Store a control frame as the link does, without acting on it."""
        self._openings += kind == "control.session.open"
        self._sent = kind
        self._control_seq += 1
        frame = Frame(type=kind, payload=payload, message_id=f"m-{self._control_seq}", session_id=self.session_id,
                      seq=self._control_seq, timestamp="2026-11-21T00:00:00.000Z", metadata=metadata or {})
        frame = decode(encode(frame), Direction.M)
        if isinstance(frame.payload, p.FileTransfer):
            frame, _ = await shelve(self.objects, frame, encode(frame))
        record = ControlRecord(session_id=self.session_id, seq=self._control_seq, message_id=frame.message_id,
                               body=encode(frame))
        await self.outbox.write([StoreControl(record, NOW_MS)])
        return frame

    async def send(self, kind: str, payload: p.Payload, metadata: dict[str, Any] | None = None) -> Frame:
        frame = await self.store(kind, payload, metadata)
        async with asyncio.timeout(PATIENCE_S):
            await self.sessions.control(frame, encode(frame))
        return frame

    async def open(self, agent_id: str, workspace: str | None = None) -> Frame:
        payload = p.SessionOpen(session_id=self.session_id, agent_id=agent_id, workspace_access="rw",
                                workspace=str(self.workspace) if workspace is None else workspace)
        return await self.send("control.session.open", payload)

    async def prompt(self, text: str, **fields: Any) -> Frame:
        payload = p.PromptRequest(prompt_id=f"p-{self._control_seq + 1}", input_type="text", origin="user", text=text,
                                  **fields)
        return await self.send("control.prompt.request", payload)

    async def cancel(self) -> Frame:
        return await self.send("control.turn.cancel", p.TurnCancel(reason="a person asked"))

    async def answer(self, asked: Frame, decision: Any, **fields: Any) -> Frame:
        payload = p.InteractionResponse(interaction_id=asked.payload.interaction_id, decision=decision, by="ada",
                                        **fields)
        return await self.send("control.interaction.response", payload)

    async def held(self) -> None:
        """Wait until the agent is held back by a full buffer, or its turn has ended (D-3)."""
        async with asyncio.timeout(PATIENCE_S):
            while not (self.outflow.holding(self.session_id) or self.all("session.usage")):
                async with self._changed:
                    await self._changed.wait()
        await self.outflow.flushed()

    async def turn(self, text: str) -> Frame:
        """Send a prompt and wait for its usage; returns the turn's end."""
        await self.prompt(text)
        end = await self.next("session.turn.end")
        await self.next("session.usage")
        return end


@asynccontextmanager
async def stage(workspace: Path, agents: dict[str, AgentSpec] | None = None, *, outbox: MemoryOutbox | None = None,
                waits: Waits = PATIENT, timeouts: SessionTimeouts = USUAL, machine: TurnMachine | None = None,
                outbox_bytes: int = OUTBOX_BYTES, objects: MemoryObjects | None = None,
                boxing: Boxing = NO_BOX) -> AsyncIterator[Stage]:
    """A stage whose agents are gone when the test is."""
    made = Stage(workspace, agents or {"bad": misbehaving()}, outbox or MemoryOutbox(), objects or MemoryObjects(),
                 waits, timeouts, outbox_bytes, boxing)
    made.machine = machine or made.machine
    flowing = asyncio.create_task(made.outflow.run())
    try:
        await made.sessions.recover()
        yield made
        async with asyncio.timeout(PATIENCE_S):
            await made.sessions.close_all("the test is over")
    finally:
        flowing.cancel()
        await asyncio.gather(flowing, return_exceptions=True)


def types(frames: Sequence[Frame]) -> list[str]:
    return [frame.type for frame in frames]


def raw_input(frame: Frame) -> Any:
    return msgspec.json.decode(frame.payload.input)
