"""Differences between being the runner and being the gateway in a conversation: opening, numbers, made-up frames."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from interlock.conformance import steps as s
from interlock.conformance.with_master import AGENT, USAGE
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import Class, Direction, frame_class
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import (
    ACK_DELAY_MS,
    ACK_FRAMES,
    HEARTBEAT_INTERVAL_MS,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
)

Frame = dict[str, Any]
Kept = dict[str, Any]
AT = "2030-01-01T00:00:00.000Z"


class ConversationBroken(Exception):
    """The other side violated the conversation."""


class Made(NamedTuple):
    """A payload that the side makes up; `uses` counts the numbers of durable frames in it."""

    payload: Any
    uses: int = 0


class Exchange(NamedTuple):
    """The player's part in an opening. `received` and `sent` are the last numbers of the session, in each direction."""

    send: Callable[[s.SendFrame], Awaitable[None]]
    expect: Callable[[s.ExpectFrame], Awaitable[Frame]]
    kept: Kept
    received: int
    sent: int


class Side(Protocol):
    """One end of the link."""

    sender: Direction
    """Our role; `receives` is the other side's."""
    receives: Direction
    dials: bool

    def begin(self) -> Kept:
        """Return the values that are known at the start of a conversation."""
        ...

    async def join(self, exchange: Exchange, step: s.Join) -> int:
        """Exchange hello and welcome; returns our last number that the other side has. Raises ConversationBroken."""
        ...

    def made(self, name: str, kept: Kept, out: int) -> Made | None:
        """Return the payload of this name, if the side makes it up; `out` is our last number."""
        ...

    def closing(self, kept: Kept, out: int) -> tuple[s.SendFrame, s.ExpectFrame] | None:
        """Return how to end the session of an unfinished conversation, and the frame that confirms it."""
        ...

    def concerns(self, frame: Frame, kept: Kept) -> bool:
        """Return whether a frame belongs to the conversation's session, or to the link."""
        ...


def of_link(frame: Frame) -> bool:
    """Return whether a frame belongs to no session."""
    return frame_class(frame["type"]) is Class.LINK and frame["type"] != "session.history"


class AsRunner:
    """We are the runner `runner_id`, with one agent, which acts as in the conversation."""

    sender, receives, dials = Direction.C, Direction.M, True

    def __init__(self, runner_id: str) -> None:
        self._runner_id = runner_id
        self._boot_id = uuid4(secrets.token_bytes(16))
        self._before: set[str] = set()
        """Sessions of earlier conversations: the master may still send frames for them."""

    def begin(self) -> Kept:
        return {"turn": uuid4(secrets.token_bytes(16))}

    async def join(self, exchange: Exchange, step: s.Join) -> int:
        session = exchange.kept["session"]
        control_seq = exchange.received if step.control_seq is None else step.control_seq
        listed = [] if session is None else [{
            "session_id": session, "last_seq_sent": exchange.sent, "control_seq": control_seq, "state": "running"}]
        await exchange.send(s.SendFrame("x-interlock.hello", {**self._hello(), "sessions": listed}))
        welcome = await exchange.expect(s.ExpectFrame("x-interlock.welcome", next_=True))
        sessions: list[Frame] = s.part_of(welcome, "payload.sessions") or []
        durable: int = next((one["last_durable_seq"] for one in sessions if one["session_id"] == session), 0)
        if step.durable is not None and durable != step.durable:
            raise ConversationBroken(f"the welcome confirms {durable} as durable, not {step.durable}")
        return durable

    def made(self, name: str, kept: Kept, out: int) -> Made | None:
        match name:
            case "hello":
                return Made(self._hello())
            case "hello_of_old":
                return Made({**self._hello(), "versions": ["rawp-dps-0.0"]})
            case "history":
                return Made(_history([]))
            case "history_of_turn" | "history_part_1" | "history_part_2":
                turn = kept["turn"]
                inner = [("agent.text.done", {"turn_id": turn, "block_id": "b", "text": "said while it was cut"}),
                         ("session.turn.end", {"turn_id": turn, "stop_reason": "end_turn"}),
                         ("session.usage", {**USAGE, "turn_id": turn})]
                frames = [{"type": kind, "payload": payload, "message_id": uuid4(secrets.token_bytes(16)),
                           "session_id": kept["session"], "seq": out + place, "timestamp": AT}
                          for place, (kind, payload) in enumerate(inner, start=1)]
                if name == "history_part_1":
                    frames = frames[:1]
                elif name == "history_part_2":  # The first part has the frames before.
                    frames = [{**frame, "seq": out + place} for place, frame in enumerate(frames[1:], start=1)]
                return Made(_history(frames), len(frames))
            case _:
                return None

    def closing(self, kept: Kept, out: int) -> tuple[s.SendFrame, s.ExpectFrame] | None:
        session = kept["session"]
        if session is None:
            return None
        self._before.add(session)
        done = s.ExpectFrame("x-interlock.ack",
                             where={"payload.session_id": "$session", "payload.seq": s.at_least(out + 1)})
        return s.SendFrame("session.closed", {"reason": "the conversation is over"}), done

    def concerns(self, frame: Frame, kept: Kept) -> bool:
        session = frame.get("session_id")
        return of_link(frame) or (session not in self._before if kept["session"] is None
                                  else session == kept["session"])

    def _hello(self) -> Frame:
        offer = {"agent_id": AGENT, "adapter": AGENT, "adapter_type": "process", "permission": "asks",
                 "context_owner": "agent"}
        return {"versions": [DPS_VERSION], "runner_id": self._runner_id, "boot_id": self._boot_id, "agents": [offer],
                "sessions": [], "device_name": AGENT, "roots": ["/"]}


class AsGateway:
    """We are the gateway, and open `agent` on any runner that dials in; `text` is a prompt that makes it use a tool."""

    sender, receives, dials = Direction.M, Direction.C, False

    def __init__(self, agent: str, text: str) -> None:
        self._agent = agent
        self._text = text
        self._gateway_id = uuid4(secrets.token_bytes(16))

    def begin(self) -> Kept:
        fresh = {name: uuid4(secrets.token_bytes(16)) for name in ("session", "prompt", "other")}
        return {**fresh, "agent": self._agent, "text": self._text}

    async def join(self, exchange: Exchange, step: s.Join) -> int:
        hello = await exchange.expect(s.ExpectFrame("x-interlock.hello", next_=True))
        session = exchange.kept["session"]
        listed: list[Frame] = s.part_of(hello, "payload.sessions") or []
        ours = exchange.received if step.durable is None else step.durable
        durable = [{"session_id": one["session_id"],
                    "last_durable_seq": ours if one["session_id"] == session else one["last_seq_sent"]}
                   for one in listed]
        limits = {"max_frame_bytes": MAX_FRAME_BYTES, "max_message_bytes": MAX_MESSAGE_BYTES, "ack_frames": ACK_FRAMES,
                  "ack_delay_ms": ACK_DELAY_MS, "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS}
        await exchange.send(s.SendFrame("x-interlock.welcome", {
            "version": DPS_VERSION, "link_id": uuid4(secrets.token_bytes(16)), "gateway_id": self._gateway_id,
            "limits": limits, "sessions": durable}))
        return next((one["control_seq"] for one in listed if one["session_id"] == session), 0)

    def made(self, name: str, kept: Kept, out: int) -> Made | None:
        del name, kept, out
        return None

    def closing(self, kept: Kept, out: int) -> tuple[s.SendFrame, s.ExpectFrame] | None:
        del out
        if "features" not in kept:
            return None
        return s.SendFrame("control.session.close",
                           {"reason": "the conversation is over"}), s.ExpectFrame("session.closed")

    def concerns(self, frame: Frame, kept: Kept) -> bool:
        return of_link(frame) or frame.get("session_id") == kept["session"]


def _history(frames: list[Frame]) -> Frame:
    return {"frames": frames, "buffer_status": {"policy_applied": "RING", "truncated": False},
            "last_sync_timestamp": AT, "last_message_id": ""}
