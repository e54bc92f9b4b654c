"""The table of frames: type, direction, class, payload; and the codec that uses it (W-1, E-1, E-4); several
frames in one message, as JSON lines, if both sides offered it (L-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame, Wire
from interlock.protocol.integers import decode_whole
from interlock.protocol.json_form import fault_of
from interlock.protocol.limits import LARGEST_SEQ, MAX_FRAME_BYTES, MAX_FRAME_DEPTH, MAX_ID_CHARS, MAX_MESSAGE_BYTES

BATCH = "batch"
"""The feature's name in hello and welcome: a message may hold several frames."""


class Direction(Enum):
    """Who may send a frame. C is runner to gateway, M is gateway to runner."""

    C = "C"
    M = "M"
    BOTH = "both"


class Class(Enum):
    """How a frame is delivered (E-4)."""

    DURABLE = "durable"
    TRANSIENT = "transient"
    LINK = "link"


class Origin(Enum):
    """The origin of a name: the seed documents, other public pages of the same specification, or Interlock's own
    profile."""

    S = "S"
    R = "R"
    P = "P"


class FrameType(NamedTuple):
    """One row of the table.

    `origin` is where the name comes from; `published` the payload's fields that are not of our own profile, with the
    origin of each ("context.tool_name" is one inside another). `features` is what an agent, or a runner, must offer
    before the frame may be obeyed; without it the answer is UNSUPPORTED_CAPABILITY (A-6). `legal` states when a runner
    may send it: at any time, or in a turn; `session.turn` states it by phase for those that begin or end something.
    """

    name: str
    direction: Direction
    frame_class: Class
    payload: type[p.Payload]
    origin: Origin = Origin.P
    published: Mapping[str, Origin] = MappingProxyType({})
    features: frozenset[str] = frozenset()
    legal: Literal["any time", "in a turn", "by phase"] = "by phase"


_C, _M, _BOTH = Direction.C, Direction.M, Direction.BOTH
_DURABLE, _TRANSIENT, _LINK = Class.DURABLE, Class.TRANSIENT, Class.LINK
_S, _R, _P = Origin.S, Origin.R, Origin.P


def _from(origin: Origin, *fields: str) -> Mapping[str, Origin]:
    return MappingProxyType(dict.fromkeys(fields, origin))


def _needs(*features: str) -> frozenset[str]:
    return frozenset(features)


FRAMES: dict[str, FrameType] = {
    row.name: row
    for row in (
        FrameType("agent.text.delta", _C, _TRANSIENT, p.TextDelta, _R),
        FrameType("agent.text.done", _C, _DURABLE, p.TextDone, _S, legal="in a turn"),
        FrameType("agent.thinking.delta", _C, _TRANSIENT, p.TextDelta, _R),
        FrameType("agent.thinking.done", _C, _DURABLE, p.TextDone, _R, legal="in a turn"),
        FrameType("agent.interaction.request", _C, _DURABLE, p.InteractionRequest, _S,
                  _from(_S, "interaction_type", "context.tool_name"), legal="in a turn"),
        FrameType("agent.error", _C, _DURABLE, p.AgentError, _S, _from(_S, "severity", "error_code"), legal="any time"),
        FrameType("agent.file.transfer", _BOTH, _DURABLE, p.FileTransfer, legal="any time"),
        FrameType("agent.state.changed", _C, _DURABLE, p.StateChanged, legal="any time"),
        FrameType("tool.invoke.request", _C, _DURABLE, p.ToolRequest, _R,
                  _from(_R, "invocation_id", "tool_name", "input"), legal="in a turn"),
        FrameType("tool.invoke.stream", _C, _TRANSIENT, p.ToolStream, _R, _from(_R, "invocation_id")),
        FrameType("tool.invoke.result", _C, _DURABLE, p.ToolResult, _R, _from(_R, "invocation_id", "output_type"),
                  legal="in a turn"),
        FrameType("control.prompt.request", _M, _DURABLE, p.PromptRequest, _S, _from(_R, "input_type")),
        FrameType("control.interaction.response", _M, _DURABLE, p.InteractionResponse, _S),
        FrameType("control.interaction.timeout", _M, _DURABLE, p.InteractionTimeout, _S),
        FrameType("control.session.compact", _M, _DURABLE, p.SessionCompact, _S,
                  _from(_P), _needs("context_compaction")),
        FrameType("control.mode.switch", _M, _DURABLE, p.ModeSwitch, _S, _from(_P), _needs("plan_mode")),
        FrameType("control.session.open", _M, _DURABLE, p.SessionOpen),
        FrameType("control.session.close", _M, _DURABLE, p.SessionClose),
        FrameType("control.session.release", _M, _DURABLE, p.SessionRelease, _P, _from(_P), _needs("control_release")),
        FrameType("control.turn.cancel", _M, _DURABLE, p.TurnCancel),
        FrameType("control.turn.pause", _M, _DURABLE, p.TurnPause, _P, _from(_P), _needs("pause")),
        FrameType("control.turn.resume", _M, _DURABLE, p.TurnResume, _P, _from(_P), _needs("pause")),
        FrameType("session.capabilities", _BOTH, _DURABLE, p.Capabilities, _S, _from(_S, "features.adapter_type"),
                  legal="any time"),
        FrameType("session.history", _C, _LINK, p.History, _S,
                  _from(_S, "frames", "buffer_status", "last_sync_timestamp", "last_message_id")),
        FrameType("session.compacted", _C, _DURABLE, p.Compacted, _S,
                  _from(_S, "summary", "previous_token_count", "current_token_count", "preserved_elements", "trigger"),
                  legal="any time"),
        FrameType("session.usage", _BOTH, _DURABLE, p.Usage, _S,
                  _from(_S, "token_usage", "cost_usage", "message_usage", "context_window", "time_to_reset")),
        FrameType("session.error", _BOTH, _DURABLE, p.SessionError, _S, _from(_S, "error_code", "message", "fatal"),
                  legal="any time"),
        FrameType("session.turn.start", _C, _DURABLE, p.TurnStart, _S, _from(_S, "turn_id", "turn_index", "mode")),
        FrameType("session.turn.end", _C, _DURABLE, p.TurnEnd, _S,
                  _from(_S, "turn_id", "stop_reason", "tool_invocation_count")),
        FrameType("session.closed", _C, _DURABLE, p.SessionClosed),
        FrameType("x-interlock.hello", _C, _LINK, p.Hello),
        FrameType("x-interlock.welcome", _M, _LINK, p.Welcome),
        FrameType("x-interlock.ack", _BOTH, _LINK, p.Ack),
        FrameType("x-interlock.heartbeat", _C, _LINK, p.RunnerHeartbeat),
        FrameType("x-interlock.control.refused", _C, _LINK, p.RefusedControl),
        FrameType("x-interlock.control.changed", _C, _DURABLE, p.ControlChanged, legal="any time"),
        FrameType("x-interlock.asking.changed", _C, _DURABLE, p.AskingChanged, legal="any time"),
        FrameType("x-interlock.changes.discard", _M, _DURABLE, p.ChangesDiscard),
        FrameType("x-interlock.changes.report", _C, _DURABLE, p.ChangesReport, legal="any time"),
        FrameType("x-interlock.workspace.look", _M, _LINK, p.WorkspaceLook),
        FrameType("x-interlock.workspace.changes", _C, _LINK, p.WorkspaceChanges),
        FrameType("x-interlock.plan.changed", _C, _DURABLE, p.PlanChanged, legal="in a turn"),
        FrameType("x-interlock.settings.changed", _C, _DURABLE, p.AgentSettings, legal="any time"),
        FrameType("x-interlock.progress", _C, _DURABLE, p.Progress, legal="in a turn"),
        FrameType("x-interlock.interaction.held", _M, _DURABLE, p.InteractionHeld),
        FrameType("x-interlock.interaction.resolved", _C, _DURABLE, p.InteractionResolved, legal="in a turn"),
    )
}


ENVELOPE: dict[str, Origin] = {
    "type": _S, "payload": _S, "metadata": _R, "message_id": _R, "session_id": _P, "seq": _P, "timestamp": _P,
}
"""The origin of the envelope's fields."""


class InvalidFrame(Exception):
    """Raised for a message that is not a frame of its type (E-1).

    `path` names the place in the frame ("$.payload.text"), `sentence` describes the fault. `wire` is the envelope if
    that could be read, so that the refusal can name session and seq.
    """

    def __init__(self, path: str, sentence: str, wire: Wire | None = None, code: Code = Code.INVALID_FRAME) -> None:
        super().__init__(f"{path}: {sentence}")
        self.path = path
        self.sentence = sentence
        self.wire = wire
        self.code = code


class _Salvage(msgspec.Struct, frozen=True):
    """The fields of a malformed envelope that a refusal needs."""

    session_id: p.FrameId
    seq: int | None = None
    type: Any = ""
    message_id: Any = ""


_missing = re.compile(r"Object missing required field `(.+)`")
_wire_decoder = msgspec.json.Decoder(Wire)
_salvage_decoder = msgspec.json.Decoder(_Salvage)
_encoder = msgspec.json.Encoder()
_any_decoder = msgspec.json.Decoder()
_WITH_UNREAD = frozenset({"agent.interaction.request", "tool.invoke.request"})
"""Types whose payload has members that are passed on unread; so has every unknown type."""
_payload_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(row.payload) for name, row in FRAMES.items()
}


def frame_class(frame_type: str) -> Class:
    """Return a type's class; an unknown type is durable, so that nothing unknown is lost (E-1, E-4)."""
    row = FRAMES.get(frame_type)
    return row.frame_class if row else Class.DURABLE


def decode_wire(raw: bytes) -> Wire:
    """Parse the envelope only. Raises InvalidFrame, with a `wire` if session and seq at least can be read, so that the
    frame can be refused by its number and the link stays up (E-1)."""
    try:
        wire = _wire_decoder.decode(raw)
    except msgspec.MsgspecError:
        wire = _wire_again(raw)
    except (UnicodeDecodeError, RecursionError) as error:
        raise InvalidFrame("$", f"not JSON: {error}") from None
    fault = fault_of(raw, MAX_FRAME_DEPTH) if wire.type != "session.history" else None  # Its frames are parsed again.
    if fault is not None:
        raise InvalidFrame("$", fault, wire)
    return wire


def _wire_again(raw: bytes) -> Wire:
    """Parse an envelope that may write integers as floats. Raises InvalidFrame."""
    try:
        return decode_whole(_wire_decoder.decode, raw)
    except msgspec.ValidationError as error:
        path, sentence = _place(error)
        raise InvalidFrame(path, sentence, _salvage(raw)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFrame("$", f"not JSON: {error}") from None


def _salvage(raw: bytes) -> Wire | None:
    try:
        kept = decode_whole(_salvage_decoder.decode, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # A fault of the JSON itself may follow the field that was found wrong first.
    names = [name if isinstance(name, str) and len(name) <= MAX_ID_CHARS else ""
             for name in (kept.type, kept.message_id)]
    return Wire(names[0], msgspec.Raw(b"null"), names[1], kept.session_id, kept.seq)


def decode(raw: bytes, sender: Direction) -> Frame:
    """Parse one frame that `sender` (C or M) sent. Raises InvalidFrame naming the path (E-1, W-1)."""
    return understand(decode_wire(raw), sender)


def understand(wire: Wire, sender: Direction) -> Frame:
    """Decode the payload by the table. An unknown type keeps its payload raw (E-1). Raises InvalidFrame."""
    row = FRAMES.get(wire.type)
    if row is not None and row.direction is not Direction.BOTH and row.direction is not sender:
        raise InvalidFrame("$.type", f"{wire.type} is not sent in this direction", wire)
    payload = _payload(wire)
    _check_envelope(wire, row.frame_class if row else Class.DURABLE)
    return Frame(
        type=wire.type,
        payload=payload,
        message_id=wire.message_id,
        session_id=wire.session_id,
        seq=wire.seq,
        timestamp=wire.timestamp,
        metadata=wire.metadata,
    )


def _payload(wire: Wire) -> Any:
    """Decode the payload of a known type, and return that of an unknown one raw. Raises InvalidFrame."""
    decoder = _payload_decoders.get(wire.type)
    try:
        if decoder is None or wire.type in _WITH_UNREAD:
            _any_decoder.decode(wire.payload)  # No reader may fail later at a number that it cannot hold.
        if decoder is None:
            return wire.payload
        try:
            return decoder.decode(wire.payload)
        except msgspec.ValidationError:
            return decode_whole(decoder.decode, wire.payload)  # It may write integers as floats.
    except msgspec.ValidationError as error:
        path, sentence = _place(error)
        raise InvalidFrame("$.payload" + path.removeprefix("$"), sentence, wire) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFrame("$.payload", str(error), wire) from None


def _place(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split msgspec's message into the path and the sentence; the top is "$". The place of a missing field is its
    own."""
    sentence, _, path = str(error).partition(" - at ")
    place = path.strip("`") or "$"
    missing = _missing.match(sentence)
    return (f"{place}.{missing[1]}", "is missing") if missing is not None else (place, sentence)


def _check_envelope(wire: Wire, frame_class: Class) -> None:
    if not wire.message_id:
        raise InvalidFrame("$.message_id", "is missing", wire)
    if frame_class is Class.DURABLE and (wire.seq is None or wire.seq < 1):
        raise InvalidFrame("$.seq", "a durable frame carries a seq from 1", wire)
    if wire.seq is not None and wire.seq > LARGEST_SEQ:
        raise InvalidFrame("$.seq", f"a seq is at most {LARGEST_SEQ}", wire)
    if frame_class is not Class.DURABLE and wire.seq is not None:
        raise InvalidFrame("$.seq", f"{wire.type} carries no seq", wire)
    if not wire.session_id and (frame_class is not Class.LINK or wire.type == "session.history"):
        raise InvalidFrame("$.session_id", "is missing", wire)


def encode(frame: Frame) -> bytes:
    """Encode a frame as one line of JSON. Raises InvalidFrame: with FRAME_TOO_LARGE above MAX_FRAME_BYTES (L-2), and
    for a member in another form than the receiver accepts, so that no such frame waits for it.

    Only `session.history` may fill a message (E-5), and is bounded where it is created.
    """
    raw = _encoder.encode(frame)
    if frame.type == "session.history":
        return raw
    if len(raw) > MAX_FRAME_BYTES:
        raise InvalidFrame("$", f"{frame.type} takes {len(raw)} bytes, the limit is {MAX_FRAME_BYTES}", None,
                           Code.FRAME_TOO_LARGE)
    fault = fault_of(raw, MAX_FRAME_DEPTH)
    if fault is not None:
        raise InvalidFrame("$", fault)
    return raw


def join(frames: Iterable[bytes], limit_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[bytes]:
    """Join frames, in order, into as few messages as possible. A frame that is larger than a message is sent alone."""
    lines: list[bytes] = []
    size = 0
    for frame in frames:
        size += len(frame) + 1
        if lines and size - 1 > limit_bytes:
            yield b"\n".join(lines)
            lines, size = [], len(frame) + 1
        lines.append(frame)
    if lines:
        yield b"\n".join(lines)


def split(message: bytes) -> list[bytes]:
    """Return the frames of a message; a final line end adds none."""
    lines = message.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines
