"""Inputs of a lane from a runner's link."""

from __future__ import annotations

from typing import TypeAlias

from interlock.engine.bridge.inputs.lane_input import LaneInput
from interlock.protocol.envelope import Frame, Wire
from interlock.protocol.payloads import AgentOffer, BufferStatus, HelloSession, RefusedControl

FrameEntry: TypeAlias = tuple[Frame, bytes]
"""A parsed frame, and its bytes as received."""


class FrameRun:
    """Consecutive frames of one session from one link. A log holds their bytes."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[FrameEntry]) -> None:
        self.entries = entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameRun) and [raw for _, raw in self.entries] == [raw for _, raw in other.entries]

    def __hash__(self) -> int:
        return hash(tuple(raw for _, raw in self.entries))


class FramesReceived(LaneInput, frozen=True):
    """Frames that follow `after`, the last number that their link delivered before them (E-1)."""

    after: int
    run: FrameRun


class PoisonFrameReceived(LaneInput, frozen=True):
    """A frame at which the lane failed before: it is refused, so that the lane does not fail again."""

    after: int
    seq: int
    message_id: str
    raw: bytes


class InvalidFrameReceived(LaneInput, frozen=True):
    """A frame that is invalid for its type (E-1). `wire` has a number only if its type has one."""

    after: int
    wire: Wire
    raw: bytes
    code: str
    sentence: str


class GapGivenUp(LaneInput, frozen=True):
    """The frames `first` to `last` are permanently missing (E-3)."""

    first: int
    last: int


class HistoryBegun(LaneInput, frozen=True):
    """The first part of a history, with the losses that its runner reports (D-4)."""

    status: BufferStatus
    ranges: list[tuple[int, int]]
    last_message_id: str
    profile: bool
    why: str


class ControlsConfirmed(LaneInput, frozen=True):
    """The runner has stored the control frames up to `seq` (D-7)."""

    seq: int


class ControlsRefused(LaneInput, frozen=True):
    """The runner did not act on these control frames (D-5)."""

    refused: list[RefusedControl]


class AgentReported(LaneInput, frozen=True):
    """A heartbeat that names the session's agent, or omits it (C-7)."""

    is_live: bool
    turn_id: str | None = None


class RunnerAttached(LaneInput, frozen=True):
    """The runner's link is up. `session` is the hello's entry for this session, None if it has none. `late`: the lane
    was read after that hello, which may be older than the session."""

    control_seq: int
    offer: AgentOffer | None
    session: HelloSession | None = None
    late: bool = False


class RunnerDetached(LaneInput, frozen=True):
    """The runner's link is down (C-7). `reopens`: the runner closed it to open another at once."""

    reopens: bool = False


class RunnerCompared(LaneInput, frozen=True):
    """A comparison of the session with its runner's knowledge, to find out whether the ledger is an older copy
    (D-5)."""

    session: HelloSession | None


class ObservationBegun(LaneInput, frozen=True):
    """Another gateway opened the session: write its row, so that it is visible here (D-5)."""
