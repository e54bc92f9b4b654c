"""The turn machine: which frame is legal when (T-1 … T-4), as a table, and what a turn has open.

The gateway has one per session and refuses frames that do not fit; the runner has one and creates only frames that fit.
The machine is mutable and owned by one lane: a lane whose commit failed is discarded and read again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import FRAMES
from interlock.protocol.limits import MAX_ID_CHARS, MAX_OPEN_INTERACTIONS, MAX_OPEN_TOOL_BYTES, MAX_OPEN_TOOLS

Phase = Literal["closed", "idle", "turn", "usage"]

NEUTRAL = frozenset(row.name for row in FRAMES.values() if row.legal == "any time")
"""Durable frames of the runner that are legal in every phase and change none (but capabilities, which opens)."""

MOVES: dict[Phase, dict[str, Phase]] = {
    "closed": {"session.capabilities": "idle", "session.closed": "closed"},
    "idle": {"session.turn.start": "turn", "session.usage": "idle", "session.closed": "closed"},
    "turn": {
        **{row.name: "turn" for row in FRAMES.values() if row.legal == "in a turn"},
        "session.usage": "turn",
        "session.turn.end": "usage",
        "session.closed": "closed",
    },
    "usage": {"session.usage": "idle", "session.closed": "closed"},
}
"""phase → frame type → next phase. A type neither here nor in NEUTRAL is refused."""

TURN_FRAMES = frozenset(
    name for name in MOVES["turn"] if name not in {"session.usage", "session.closed"}
) | {"agent.text.delta", "agent.thinking.delta", "tool.invoke.stream"}


class Refusal(Exception):
    """Raised for a frame that does not fit: it is recorded, and changes nothing (T-4)."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class OpenTool(msgspec.Struct, omit_defaults=True):
    """A tool call without a result yet. `input` is the bytes as received (P-2)."""

    tool_name: str
    input: bytes
    title: str | None = None
    kind: str | None = None

    @property
    def size(self) -> int:
        """Return the bytes and characters that it takes."""
        return len(self.input) + len(self.tool_name) + len(self.title or "") + len(self.kind or "")


class OpenTurn(msgspec.Struct, omit_defaults=True):
    """The turn that is open, or whose usage is owed."""

    turn_id: str
    turn_index: int
    prompt_id: str
    tools: dict[str, OpenTool] = {}
    interactions: dict[str, str | None] = {}
    """interaction_id → invocation_id."""


def _check_interaction(interaction_id: str, turn: OpenTurn) -> None:
    """Check that an id names one question: a yes to one must not answer another (P-2). Raises Refusal."""
    if interaction_id in turn.interactions:
        raise Refusal(Code.INVALID_FRAME, f"interaction {interaction_id} is open already")
    if not 0 < len(interaction_id) <= MAX_ID_CHARS:
        raise Refusal(Code.INVALID_FRAME, f"an interaction_id has 1 to {MAX_ID_CHARS} characters")
    if len(turn.interactions) >= MAX_OPEN_INTERACTIONS:
        raise Refusal(Code.INVALID_FRAME, f"{MAX_OPEN_INTERACTIONS} interactions are open already")


def _check_tool(call: p.ToolRequest, kind: object, turn: OpenTurn) -> None:
    """Check that one more open call fits. Raises Refusal."""
    if call.invocation_id not in turn.tools and len(turn.tools) >= MAX_OPEN_TOOLS:
        raise Refusal(Code.INVALID_FRAME, f"{MAX_OPEN_TOOLS} tool calls are open already")
    if sum(tool.size for tool in turn.tools.values()) + _open_tool(call, kind).size > MAX_OPEN_TOOL_BYTES:
        raise Refusal(Code.INVALID_FRAME, f"the open tool calls take more than {MAX_OPEN_TOOL_BYTES} bytes")


def _open_tool(call: p.ToolRequest, kind: object) -> OpenTool:
    return OpenTool(call.tool_name, bytes(call.input), call.title, kind if isinstance(kind, str) else None)


class TurnMachine(msgspec.Struct, omit_defaults=True):
    """A session's state, as its frames report it."""

    phase: Phase = "closed"
    turn: OpenTurn | None = None
    next_index: int = 0
    """The minimal turn_index of the next turn: one is never used twice in a session."""

    def leave_turn(self, phase: Literal["idle", "closed"]) -> None:
        """Enter a phase without a turn, although no frame reported it."""
        self.phase, self.turn = phase, None

    def enter_turn(self, turn: OpenTurn) -> None:
        """Enter a turn whose start was not received."""
        self.phase, self.turn = "turn", turn

    def check(self, frame: Frame) -> None:
        """Check that a frame of the runner, durable or transient, fits here. Raises Refusal."""
        kind = frame.type
        if kind in TURN_FRAMES:
            self._check_turn(frame)
        elif kind == "session.turn.start" and self.phase != "idle":
            code = Code.UNKNOWN_TURN if self.phase == "closed" else Code.PROMPT_IN_PROGRESS
            raise Refusal(code, f"a turn cannot start while the session is in phase {self.phase}")
        elif kind == "session.turn.start" and frame.payload.turn_index < self.next_index:
            raise Refusal(Code.INVALID_FRAME, f"turn_index {frame.payload.turn_index} was used before; the next one is "
                          f"{self.next_index}")
        elif kind == "session.usage" and self.phase == "closed":
            raise Refusal(Code.UNKNOWN_TURN, "usage of a session that is not open")
        elif kind == "session.usage":
            self._check_named(frame)

    def _check_named(self, frame: Frame) -> OpenTurn | None:
        """Return the open turn, or the one whose usage is owed; a frame that names another is refused (T-4)."""
        named: str | None = getattr(frame.payload, "turn_id", None)
        open_id = self.turn.turn_id if self.turn is not None else None
        if named is not None and named != open_id:
            raise Refusal(Code.UNKNOWN_TURN, f"{frame.type} names turn {named}, open is {open_id or 'none'}")
        return self.turn

    def _check_turn(self, frame: Frame) -> None:
        turn = self._check_named(frame) if self.phase == "turn" else None
        if turn is None:
            raise Refusal(Code.UNKNOWN_TURN, f"{frame.type} while no turn is open")
        payload = frame.payload
        if isinstance(payload, p.ToolResult | p.ToolStream) and payload.invocation_id not in turn.tools:
            raise Refusal(Code.UNKNOWN_TURN,
                          f"{frame.type} names a tool call that is not open: {payload.invocation_id}")
        if isinstance(payload, p.InteractionRequest):
            _check_interaction(payload.interaction_id, turn)
        if isinstance(payload, p.ToolRequest):
            _check_tool(payload, frame.metadata.get("kind"), turn)
        if isinstance(payload, p.InteractionResolved) and payload.interaction_id not in turn.interactions:
            raise Refusal(Code.UNKNOWN_TURN, f"no open interaction {payload.interaction_id}")

    def apply(self, frame: Frame) -> None:
        """Apply one durable frame of the runner. Raises Refusal, and then nothing changed."""
        self.check(frame)
        following = MOVES[self.phase].get(frame.type)
        self._keep(frame)
        if following is not None:
            self.phase = following
        if self.phase in ("idle", "closed"):
            self.turn = None

    def _keep(self, frame: Frame) -> None:
        payload = frame.payload
        if isinstance(payload, p.TurnStart):
            prompt_id = str(frame.metadata.get("prompt_id", ""))[:MAX_ID_CHARS]
            self.turn = OpenTurn(payload.turn_id, payload.turn_index, prompt_id)
            self.next_index = payload.turn_index + 1
            return
        turn = self.turn
        if turn is None:
            return
        match payload:
            case p.ToolRequest():
                turn.tools[payload.invocation_id] = _open_tool(payload, frame.metadata.get("kind"))
            case p.ToolResult():
                turn.tools.pop(payload.invocation_id, None)
            case p.InteractionRequest():
                turn.interactions[payload.interaction_id] = payload.context.invocation_id
            case p.InteractionResolved():
                turn.interactions.pop(payload.interaction_id, None)
            case _:
                pass
