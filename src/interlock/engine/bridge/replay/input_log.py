"""A log of a lane's inputs: the lane's initial state, its inputs, and digests of its decisions.

The format is one JSON document a line. The first one is the initial state; `settings` precede the decisions that use
them. A log holds what commands and frames hold, including people's work, and must be protected like the ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from interlock.command.policy.policy import Rule
from interlock.engine.bridge.effects import Out
from interlock.engine.bridge.inputs import AnyInput
from interlock.engine.bridge.inputs.runner import FrameRun
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.ports.ledger import LedgerWrite
from interlock.protocol.frames import Direction, decode_wire, understand
from interlock.protocol.payloads import AgentOffer
from interlock.protocol.records import ApprovalRecord, CommandRecord, SpendingRecord

VERSION = 1


class BadLog(ValueError):
    """Raised if a log cannot be read; the sentence names the line."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag=True):
    """A line of a log."""


class FoldedLine(NamedTuple):
    """A frame of the open turn, as stored in a log."""

    received: bool
    frame: str
    at_ms: int


class TranscriptStart(NamedTuple):
    """The position of a lane's transcript."""

    leaf: str | None
    context_leaf: str | None
    ids: list[str]
    reserved: str


class LaneStart(LogLine, frozen=True, kw_only=True):
    """A lane's state before its first decision."""

    version: int = VERSION
    state: LaneState
    commands: list[CommandRecord]
    approvals: list[ApprovalRecord]
    unconfirmed: list[tuple[int, str]]
    """Control frames that the runner has not confirmed, by their numbers."""
    recent: list[str]
    folded: list[FoldedLine]
    sealed: bytes
    gateway_id: str
    keeps_objects: bool
    transcript: TranscriptStart | None
    whole: bool = True
    """False if the lane held more than a log can store: files that were partly received."""


class LaneSettings(LogLine, frozen=True, kw_only=True):
    """The settings of the following decisions, until the next such line."""

    limits: Limits
    rules: list[Rule]
    remembered: list[Rule]
    remember_described: bool
    spending: list[SpendingRecord]


class LaneDecision(LogLine, frozen=True, kw_only=True):
    """Inputs that were decided together, and digests of the lane and of the effects afterwards."""

    now_ms: int
    wall_ms: int
    draining: bool = False
    unsigned: str | None = None
    offer: AgentOffer | None = None
    inputs: list[AnyInput]
    kept: list[bool]
    """For each input whether its answer was stored for a repeated request."""
    drawn: list[list[str]]
    """The random bytes that each input used, as hex digits, followed by those of the common consequences."""
    state: str = ""
    effects: str = ""
    failed: str = ""
    """The exception, if the lane failed."""


class LaneFault(LogLine, frozen=True, kw_only=True):
    """A violation that was found while the log was recorded."""

    sentence: str
    broken: str = ""
    """The deliberate fault in the engine, if there was one."""


AnyLine: TypeAlias = LaneStart | LaneSettings | LaneDecision | LaneFault


def _plain(value: Any) -> Any:
    if isinstance(value, FrameRun):
        return [raw.decode() for _, raw in value.entries]
    if isinstance(value, tzinfo):
        return str(value)
    raise TypeError(f"{type(value).__name__} is in no log")


def _read(kind: type[Any], value: Any) -> Any:
    if kind is FrameRun:
        raws = [one.encode() for one in value]
        return FrameRun([(understand(decode_wire(raw), Direction.C), raw) for raw in raws])
    if kind is tzinfo:
        return UTC if value == "UTC" else ZoneInfo(value)
    raise TypeError(f"{kind.__name__} is in no log")


_encoder = msgspec.json.Encoder(enc_hook=_plain)  # In the order of the names: a state's row is written in it.
_canonical = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
_decoder = msgspec.json.Decoder(AnyLine, dec_hook=_read)


def write_log(lines: Sequence[AnyLine]) -> bytes:
    """Return a log as JSON lines."""
    return b"".join(_encoder.encode(line) + b"\n" for line in lines)


def read_log(data: bytes) -> list[AnyLine]:
    """Read a log. Raises BadLog."""
    lines: list[AnyLine] = []
    for number, raw in enumerate(data.splitlines(), 1):
        try:
            lines.append(_decoder.decode(raw))
        except (msgspec.DecodeError, ValueError) as error:
            raise BadLog(f"line {number} is not of a log of inputs: {error}") from None
    if not lines or not isinstance(lines[0], LaneStart):
        raise BadLog("line 1 does not say how the lane began; record the log again")
    if lines[0].version != VERSION:
        raise BadLog(f"the log has version {lines[0].version}, and this program reads {VERSION}; record it again")
    return lines


def canonical_state(lane: Lane) -> bytes:
    """Return everything that a lane stores over a restart, in a form that is equal for equal lanes."""
    return _canonical.encode({
        "state": lane.state, "commands": sorted(lane.commands.values(), key=lambda one: one.command.id),
        "approvals": sorted(lane.approvals.values(), key=lambda one: one.approval.id),
        "unconfirmed": [[seq, raw.decode()] for seq, raw in sorted(lane.unconfirmed.items())]})


def canonical_effects(out: Out, kept: Sequence[LedgerWrite]) -> bytes:
    """Return the effects of a decision in a form that is equal for equal effects, without the rows that were stored
    with answers."""
    others = set(map(id, kept))
    return _canonical.encode({
        "writes": [[type(one).__name__, one] for one in out.writes if id(one) not in others],
        "tells": [[type(one).__name__, one] for one in out.published],
        "sends": [raw.decode() for raw in out.sends],
        "objects": [hashlib.sha256(piece).hexdigest() for piece in out.objects], "faults": out.faults})


def digest(canonical: bytes) -> str:
    """Return the SHA-256 of a canonical form."""
    return hashlib.sha256(canonical).hexdigest()
