"""The session state that survives the runner's restarts: small, and written with the frames that change it."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame


class TurnState(msgspec.Struct):
    """The open turn. The text of its blocks is in the outbox's pieces, so only calls and questions are listed here."""

    turn_id: str
    prompt_id: str
    started_ms: int
    tools: dict[str, int] = {}
    """invocation_id → when it was announced, in milliseconds since the epoch."""
    interactions: list[str] = []
    tool_count: int = 0
    cost_usd: float = 0.0
    """The part of the turn's cost that is in the running total already."""
    usage_owed: bool = False
    """The turn has ended and its usage has not been written."""
    silent: bool = False
    """Its prompt asked for silence: its text is marked so, and is not delivered (Z-5)."""


class PromptUpload(msgspec.Struct):
    """A file that is sent before a prompt (E-5). `first` is its first chunk without content."""

    first: p.FileTransfer
    frames: list[str] = []
    """The objects with its chunks' frames, in order."""
    broken: str = ""
    """Why it was refused; its further chunks are ignored."""


class SessionState(msgspec.Struct, kw_only=True):
    """The bytes of `PutState`. `handled_seqs` has, for each gateway, the last control frame whose outcome is in the
    outbox (D-7); "" is the one gateway of a state from when a runner had only one, and `control_seq` was its number."""

    agent_id: str = ""
    workspace: str = ""
    agent_session: str = ""
    """The agent's own id of the conversation: a later opening resumes it."""
    access: Literal["rw", "ro", "none"] = "rw"
    mode: str | None = None
    """The mode that the session was switched to; a later opening uses it too."""
    opening: Literal["closed", "opening", "open"] = "closed"
    state: p.AgentState = "idle"
    turn: TurnState | None = None
    next_turn_index: int = 0
    control_seq: int = 0
    uploads: dict[str, PromptUpload] = {}
    handled_seqs: dict[str, int] = {}
    messages: int = 0
    """Running total of prompts: `message_usage.used`."""
    cost_usd: float = 0.0
    """Running total: `cost_usage.used`."""

    def handled(self, gateway_id: str) -> int:
        """Return the last control frame of the gateway that is answered."""
        return self.handled_seqs.get(gateway_id, 0)

    def note_handled(self, gateway_id: str, seq: int) -> None:
        """Note that the outcome of the gateway's control frame `seq` is in the next write."""
        self.handled_seqs[gateway_id] = max(self.handled(gateway_id), seq)

    def name_first(self, controller: str) -> None:
        """Assign the notes about the one gateway of earlier times to the controller."""
        if controller and "" in self.handled_seqs:
            self.note_handled(controller, self.handled_seqs.pop(""))

    def begin_opening(self, opening: p.SessionOpen) -> None:
        """Begin to open the session as the gateway asks for it."""
        self.opening, self.agent_id, self.workspace = "opening", opening.agent_id, opening.workspace
        self.access = opening.workspace_access

    def resolve_workspace(self, workspace: str) -> None:
        """Replace the workspace as it was asked for by its directory."""
        self.workspace = workspace

    def skip_turns(self, index: int) -> None:
        """Number the next turn with at least `index`."""
        self.next_turn_index = max(self.next_turn_index, index)

    def begin_turn(self, turn_id: str, prompt_id: str, at_ms: int, *, silent: bool) -> TurnState:
        """Open a turn; it is numbered when its first frame is applied."""
        self.turn = opened = TurnState(turn_id, prompt_id, at_ms, silent=silent)
        return opened

    def take(self, frame: Frame) -> None:
        """Apply one durable frame that is written to the outbox in the same transaction."""
        payload, turn = frame.payload, self.turn
        match payload:
            case p.Capabilities():
                self.opening = "open"
            case p.StateChanged():
                self.state = payload.state
            case p.TurnStart():
                self.next_turn_index = payload.turn_index + 1
                self.messages += 1
            case p.SessionClosed():
                self.opening, self.turn = "closed", None
            case _:
                if turn is not None:
                    self._take_turn(turn, payload)

    def _take_turn(self, turn: TurnState, payload: object) -> None:
        match payload:
            case p.ToolResult():
                turn.tools.pop(payload.invocation_id, None)
            case p.InteractionRequest():
                turn.interactions.append(payload.interaction_id)
            case p.InteractionResolved():
                if payload.interaction_id in turn.interactions:
                    turn.interactions.remove(payload.interaction_id)
            case p.TurnEnd():
                turn.usage_owed = True
            case p.Usage() if turn.usage_owed:
                self.turn = None
            case _:
                pass


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SessionState)


def encode_state(state: SessionState) -> bytes:
    """Encode the state for `PutState`."""
    return _encoder.encode(state)


def decode_state(raw: bytes) -> SessionState:
    """Decode the output of `encode_state`; an empty row is a session that was never open. Raises msgspec.DecodeError.
    """
    state = _decoder.decode(raw) if raw else SessionState()
    if state.control_seq:
        state.note_handled("", state.control_seq)
        state.control_seq = 0
    return state
