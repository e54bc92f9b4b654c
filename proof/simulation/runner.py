"""A runner as the link sees it: it keeps frames until they are acknowledged, and sends them again after a reconnect.

Its agents run on a script drawn from the seed: text, sometimes a tool that asks first, sometimes a turn that continues
until it is cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import split
from proof.simulation.gateway import Gateway

AGENT = "sim"
STAMP = "2027-01-15T08:00:00.000Z"
QUOTA = {"limit": -1, "used": 0, "unit": "USD"}
AGAIN_S = (0.2, 2.0)
"""Before a link that ended is opened again."""
WELCOME_S = 8.0
"""A gateway that has not welcomed by then is left for another."""
BEAT_S = 15.0
STEP_S = (0.05, 1.5)
"""Between two things that an agent does."""


class RunnerSession:
    """One session as its runner has it."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.seq = 0
        self.control_seq = 0
        self.outbox: deque[tuple[int, str]] = deque()
        self.turns = 0
        self.turn_id: str | None = None
        self.prompt_id: str | None = None
        self.waits: dict[str, str] = {}
        """interaction → invocation."""
        self.ends: asyncio.TimerHandle | None = None
        self.open = False
        self.message_ids: list[str] = []
        """The message_id of each numbered frame, in order; "" for one that was sent before."""
        self.last_frame = ""
        """The last frame that had a number of its own."""
        self.confirmed = 0
        """Up to which seq the gateways have acknowledged."""

    def stop(self) -> None:
        """Do what was planned no more."""
        if self.ends is not None:
            self.ends.cancel()
            self.ends = None


def _turn_id(session: RunnerSession) -> str:
    """A UUID v4 (RAWP-DPS 7.5.1) that every run with the same seed repeats."""
    digest = hashlib.sha256(f"{session.session_id}/{session.turns}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


class Runner:
    """One runner, from its start to the end of the simulation."""

    def __init__(self, runner_id: str, token: str, choose: Callable[[], Gateway], draw: random.Random,
                 tenant: str) -> None:
        self.runner_id = runner_id
        self.tenant = tenant
        self.gateway: Gateway | None = None
        self.token = token
        self.sessions: dict[str, RunnerSession] = {}
        self.tools_run: list[tuple[str, str]] = []
        """(session, interaction) of each granted tool that ran."""
        self.started: dict[str, int] = {}
        """How often each command's turn was started."""
        self.attached = False
        self.links = 0
        self._choose = choose
        self._draw = draw
        self._outgoing: asyncio.Queue[Any] | None = None
        self._gone = asyncio.Event()
        self._welcomed = asyncio.Event()
        self._ids = 0
        self._boots = 1
        self._down = False

    async def run(self) -> None:
        """Be attached somewhere, for good."""
        while True:
            if not self._down:
                await self._attach()
            await asyncio.sleep(self._draw.uniform(*AGAIN_S))

    def cut(self) -> None:
        """The network between is gone: neither side is notified at once."""
        self._end_link()

    async def die(self) -> None:
        """As by kill -9, and its agents with it; then it starts again, closes their open turns (D-6), and repeats
        its last frame. A runner that is down cannot die again."""
        if self._down:
            return
        self._down = True
        self._end_link()
        for session in self.sessions.values():
            session.stop()
        await asyncio.sleep(self._draw.uniform(0.2, 5.0))
        for session in self.sessions.values():
            self._close_after_restart(session)
            self._repeat_last(session)
        self._boots += 1
        self._down = False

    def _close_after_restart(self, session: RunnerSession) -> None:
        if session.turn_id is not None:
            for interaction, invocation in session.waits.items():
                self._emit(session, "tool.invoke.result", {
                    "invocation_id": invocation, "status": "cancelled", "output_type": "text", "output": "",
                    "duration_ms": 1})
                self._emit(session, "x-interlock.interaction.resolved", {
                    "interaction_id": interaction, "outcome": "void", "decided_at": STAMP})
            self._emit(session, "agent.error", {"severity": "fatal", "error_code": "RUNNER_RESTARTED",
                                                "message": "the runner was started again", "turn_id": session.turn_id})
            self._finish(session, "error")
        if session.open:
            session.open = False
            self._emit(session, "session.closed", {"reason": "the runner was started again"})

    def _repeat_last(self, session: RunnerSession) -> None:
        """Number a frame a second time, as an outbox does that was put back after it was sent (section 2)."""
        if session.last_frame:
            session.seq += 1
            raw = msgspec.json.encode({**msgspec.json.decode(session.last_frame), "seq": session.seq}).decode()
            session.outbox.append((session.seq, raw))
            session.message_ids.append("")

    def lost(self, gateway: Gateway) -> None:
        """A gateway no longer answers; without effect if the runner has left it."""
        if self.gateway is gateway:
            self._end_link()

    async def _attach(self) -> None:
        gateway = self.gateway = self._choose()
        outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self._gone, self._welcomed = gone, welcomed = asyncio.Event(), asyncio.Event()
        self._outgoing = outgoing
        self.links += 1
        outgoing.put_nowait({"type": "websocket.connect"})
        serving = gateway.link(self.token, outgoing, lambda message: self._receive(outgoing, message))
        serving.add_done_callback(lambda _: gone.set())
        listed = [{"session_id": session.session_id, "last_seq_sent": session.seq, "control_seq": session.control_seq,
                   "state": "running" if session.turn_id else "idle", "turn_id": session.turn_id,
                   "prompt_id": session.prompt_id} for session in self.sessions.values()
                  if session.open or session.outbox]
        offer = {"agent_id": AGENT, "adapter": "sim", "adapter_type": "process", "permission": "asks",
                 "context_owner": "agent"}
        self._put("x-interlock.hello", {
            "versions": [DPS_VERSION], "runner_id": self.runner_id, "boot_id": f"boot-{self._boots}",
            "agents": [offer], "sessions": listed, "roots": ["/"], "link_number": self.links})
        try:
            async with asyncio.timeout(WELCOME_S):
                await welcomed.wait()
            while not gone.is_set() and gateway.alive:
                try:
                    async with asyncio.timeout(BEAT_S):
                        await gone.wait()
                except TimeoutError:
                    self._beat()
        except TimeoutError:
            pass
        finally:
            if self._outgoing is outgoing:
                self._end_link()

    def _end_link(self) -> None:
        outgoing, self._outgoing, self.attached = self._outgoing, None, False
        if outgoing is not None:
            outgoing.put_nowait({"type": "websocket.disconnect"})
        self._gone.set()

    def _beat(self) -> None:
        self._put("x-interlock.heartbeat", {"agents": [
            {"session_id": session.session_id, "agent_id": AGENT, "state": "running" if session.turn_id else "idle",
             "turn_id": session.turn_id} for session in self.sessions.values() if session.open]})

    # --- received frames ---
    def _receive(self, outgoing: Any, message: Any) -> None:
        if outgoing is not self._outgoing:
            return
        if message["type"] == "websocket.close":
            self._end_link()
        elif message["type"] == "websocket.send":
            for raw in split(message["text"].encode()):
                self._take(msgspec.json.decode(raw))

    def _take(self, frame: dict[str, Any]) -> None:
        kind: str = frame["type"]
        payload: dict[str, Any] = frame.get("payload") or {}
        if kind == "x-interlock.welcome":
            self._resume({one["session_id"]: one["last_durable_seq"] for one in payload["sessions"]})
        elif kind == "x-interlock.ack":
            self._acked(payload["session_id"], payload["seq"])
        elif frame.get("seq") is not None and frame.get("session_id"):
            self._controlled(frame["session_id"], frame["seq"], kind, payload, frame)

    def _resume(self, durable: dict[str, int]) -> None:
        for session_id, seq in durable.items():
            self._acked(session_id, seq)
        for session in self.sessions.values():
            for _, raw in session.outbox:
                self._send(raw)
        self.attached = True
        self._welcomed.set()

    def _acked(self, session_id: str, seq: int) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.confirmed = max(session.confirmed, seq)
        while session is not None and session.outbox and session.outbox[0][0] <= seq:
            session.outbox.popleft()

    def _controlled(self, session_id: str, seq: int, kind: str, payload: dict[str, Any], frame: Any) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = RunnerSession(session_id)
        if seq > session.control_seq:
            session.control_seq = seq
            self._obey(session, kind, payload, frame)
        self._put("x-interlock.ack", {"session_id": session_id, "seq": session.control_seq})

    def _obey(self, session: RunnerSession, kind: str, payload: dict[str, Any], frame: Any) -> None:
        if kind == "control.session.open":
            session.open = True
            self._emit(session, "session.capabilities", {"dps_version": DPS_VERSION, "features": {
                "adapter_type": "process", "permission": "asks"}}, in_reply_to=frame["message_id"])
        elif kind == "control.prompt.request":
            if not session.open:  # It was restarted while the prompt was on its way.
                self._emit(session, "session.error", {"error_code": "SESSION_NOT_FOUND", "fatal": False,
                                                      "message": "the session is not open on this runner"},
                           in_reply_to=frame["message_id"])
                return
            self._prompt(session, payload)
        elif kind == "control.interaction.response":
            self._answered(session, payload["interaction_id"], payload["decision"] == "allow")
        elif kind == "control.interaction.timeout":
            self._answered(session, payload["interaction_id"], allowed=False)
        elif kind == "control.turn.cancel" and session.turn_id is not None:
            self._finish(session, "cancelled")
        elif kind == "control.session.close":
            if session.turn_id is not None:
                self._finish(session, "cancelled")
            self._emit(session, "session.closed", {"reason": "asked"})
            session.open = False

    # --- what its agents do ---
    def _prompt(self, session: RunnerSession, payload: dict[str, Any]) -> None:
        session.turns += 1
        session.turn_id, session.prompt_id = _turn_id(session), payload["prompt_id"]
        command_id = payload.get("command_id") or ""
        self.started[command_id] = self.started.get(command_id, 0) + 1
        self._emit(session, "session.turn.start", {"turn_id": session.turn_id, "turn_index": session.turns - 1},
                   prompt_id=session.prompt_id)
        self._then(session, self._stream_line)

    def _then(self, session: RunnerSession, do: Callable[[RunnerSession], None]) -> None:
        session.stop()
        loop = asyncio.get_running_loop()
        session.ends = loop.call_later(self._draw.uniform(*STEP_S), do, session)

    def _stream_line(self, session: RunnerSession) -> None:
        outgoing = f"~{self.tenant}~ line {session.seq}"
        self._emit(session, "agent.text.delta", {"turn_id": session.turn_id, "block_id": f"b{session.seq}", "offset": 0,
                                                 "text": outgoing}, numbered=False)
        self._emit(session, "agent.text.done",
                   {"turn_id": session.turn_id, "block_id": f"b{session.seq}", "text": outgoing})
        drawn = self._draw.random()
        if drawn < 0.3:
            self._then(session, self._stream_line)
        elif drawn < 0.7:
            self._ask(session)
        elif drawn < 0.75:
            return  # It works until its timer ends or it is cancelled.
        else:
            self._then(session, lambda session: self._finish(session, "end_turn"))

    def _ask(self, session: RunnerSession) -> None:
        invocation = f"{session.turn_id}-i{session.seq}"
        self._emit(session, "tool.invoke.request", {"invocation_id": invocation, "turn_id": session.turn_id,
                                                    "tool_name": "shell", "input": {"command": "ls"}, "title": "ls"})
        self._emit(session, "agent.interaction.request", {
            "interaction_id": "x-" + invocation, "interaction_type": "PERMISSION", "title": "ls",
            "context": {"tool_name": "shell", "invocation_id": invocation}})
        session.waits["x-" + invocation] = invocation

    def _answered(self, session: RunnerSession, interaction: str, allowed: bool) -> None:
        invocation = session.waits.pop(interaction, None)
        if invocation is None:
            return
        if allowed:
            self.tools_run.append((session.session_id, interaction))
        self._emit(session, "x-interlock.interaction.resolved", {
            "interaction_id": interaction, "outcome": "allowed" if allowed else "denied", "decided_at": STAMP})
        self._emit(session, "tool.invoke.result", {
            "invocation_id": invocation, "status": "ok" if allowed else "denied", "output_type": "text",
            "output": "done", "duration_ms": 1})
        self._then(session, lambda session: self._finish(session, "end_turn"))

    def _finish(self, session: RunnerSession, reason: str) -> None:
        session.stop()
        session.waits.clear()
        self._emit(session, "session.turn.end", {"turn_id": session.turn_id, "stop_reason": reason})
        self._emit(session, "session.usage", {
            "turn_id": session.turn_id, "token_usage": {"input_tokens": 3, "output_tokens": 5}, "cost_usage": QUOTA,
            "message_usage": {**QUOTA, "unit": "COUNT"}, "context_window": {}, "time_to_reset": STAMP})
        session.turn_id = session.prompt_id = None

    # --- words ---
    def _emit(
        self, session: RunnerSession, kind: str, payload: dict[str, Any], *, numbered: bool = True, **metadata: Any
    ) -> None:
        if numbered:
            session.seq += 1
        raw = self._frame(kind, payload, session.session_id, session.seq if numbered else None, metadata)
        if numbered:
            session.outbox.append((session.seq, raw))
            session.message_ids.append(f"{self.runner_id}-{self._ids}")
            session.last_frame = raw
        if self.attached:
            self._send(raw)

    def _put(self, kind: str, payload: dict[str, Any]) -> None:
        self._send(self._frame(kind, payload, None, None, {}))

    def _frame(self, kind: str, payload: Any, session_id: str | None, seq: int | None, metadata: Any) -> str:
        self._ids += 1
        frame = {"type": kind, "payload": payload, "message_id": f"{self.runner_id}-{self._ids}", "timestamp": STAMP,
                 "session_id": session_id, "seq": seq, "metadata": metadata or None}
        return msgspec.json.encode({name: value for name, value in frame.items() if value is not None}).decode()

    def _send(self, text: str) -> None:
        if self._outgoing is not None:
            self._outgoing.put_nowait({"type": "websocket.receive", "text": text})
