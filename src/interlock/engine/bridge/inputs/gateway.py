"""The gateway's own inputs to a lane: clocks, changed facts, rows that differ, contexts that were read."""

from __future__ import annotations

from interlock.engine.bridge.context.compaction import CompactionRequest, ContextSnapshot
from interlock.engine.bridge.context.context_state import Due
from interlock.engine.bridge.context.contexts import Prepared
from interlock.engine.bridge.inputs.lane_input import LaneInput
from interlock.engine.bridge.link.mismatch import RowMismatch
from interlock.engine.bridge.seals import SealMismatch


class ClockTicked(LaneInput, frozen=True):
    """A deadline of the lane is due."""


class StartLooked(LaneInput, frozen=True):
    """The reason that kept the lane from starting work may be gone: check the waiting work."""


class BudgetsChanged(LaneInput, frozen=True):
    """Pots or limits of budgets changed elsewhere (P-7)."""


class RulesChanged(LaneInput, frozen=True):
    """The remembered rules changed: questions about workspace files may be answered now (H-13)."""


class RowsDiffered(LaneInput, frozen=True):
    """Stored rows differ from their audit records (H-5)."""

    findings: list[RowMismatch]


class SealsBroken(LaneInput, frozen=True):
    """Stored control frames, or the stored state, differ from their audit records (H-5)."""

    broken: SealMismatch


class UnstartedClosed(LaneInput, frozen=True):
    """The ledger is an older copy: close the commands that may have run since it was made (C-7)."""


class ContextViewed(LaneInput, frozen=True):
    """Read what a compaction depends on, as it is durable."""


class ContextUnreadable(LaneInput, frozen=True):
    """The transcript cannot be read. `lasting` describes the fault of the file if the next prompt waits for it."""

    sentence: str
    lasting: str | None = None


class ContextLooked(LaneInput, frozen=True):
    """The context was read after a turn (Z-2)."""

    seen: ContextSnapshot


class ContextPrepared(LaneInput, frozen=True):
    """The conversation for the next prompt was read (B-1)."""

    prepared: Prepared


class CompactionDropped(LaneInput, frozen=True):
    """A compaction could not be planned, or a hook vetoed it."""

    sentence: str


class CompactionPlanned(LaneInput, frozen=True):
    """A due compaction was planned; `summary` is a hook's (Z-4, Z-6)."""

    due: Due
    request: CompactionRequest
    prepared: Prepared
    summary: str | None = None
