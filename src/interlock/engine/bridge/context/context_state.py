"""A lane's knowledge of its session's context: its owner, its size, and the compaction under way (Z-1, Z-4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Literal, NamedTuple

import msgspec

from interlock.session.context.compaction_plan import CompactionSettings
from interlock.session.context.tokens import Calibration
from interlock.session.context.tool_result_limits import PruningSettings

Cause = Literal["manual", "threshold", "overflow"]
"""Why a conversation is compacted: a person requested it, it exceeded the threshold, or the provider refused it
(Z-2)."""
Due = Literal["", "look", "threshold", "overflow"]
"""The shell's next task outside the lane: measure the context, or plan a compaction."""


class CompactionRules(NamedTuple):
    """The config of contexts. `windows` are tokens by model; `zone` is the time zone of a flush's date."""

    settings: CompactionSettings = CompactionSettings()
    windows: Mapping[str, int] = {}
    zone: tzinfo = UTC
    pruning: PruningSettings = PruningSettings()
    """Which old tool results an agent sends to its model (Z-7); sent with the context."""


class PendingCompaction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A requested compaction, and what its report must match. Sizes in tokens."""

    request_id: str
    cause: Cause
    by: dict[str, str]
    deadline_ms: int
    leaf: str | None = None
    """`ContextState.leaf` when the plan was made."""
    first_kept: str = ""
    entries: int = 0
    tokens_before: int = 0
    tokens_kept: int = 0
    tokens_summarised: int = 0
    """The size of what the summary replaces, including the previous summary."""
    supplied: str = ""
    """A hook's summary that was sent to the agent, which waits in its turn."""
    read_files: list[str] = []
    modified_files: list[str] = []
    instructions: str | None = None
    """Instructions for an agent that owns its context, stored so that the request can be repeated."""
    waits_for_trust: bool = False
    """The agent was not started because workspace files configure it; the request is repeated once they are allowed
    (H-13)."""


class ContextState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The stored state of a context, in `LaneState.context`."""

    owner: Literal["agent", "gateway"] = "agent"
    leaf: str | None = None
    """The last entry that changed what the model receives: marks and notices do not change it."""
    window_told: int | None = None
    """The model's window as its agent reported it."""
    reported: int | None = None
    """Tokens of the context as the last turn's usage reported them."""
    calibration: Calibration = Calibration()
    due: Due = ""
    due_reply: str = ""
    """message_id of the frame that reported an overflow: it is answered if nothing can be compacted."""
    instructions: str | None = None
    """A person's answer after failures, for the next attempt."""
    pending: PendingCompaction | None = None
    failures: int = 0
    """Consecutive failed compactions."""
    question: str = ""
    """The approval that asks a person what to do after failures."""
    rests: bool = False
    """A person declined: no automatic compaction until someone requests one."""
    untold: str = ""
    """A compaction between two commands, to be reported with the next one."""
    sent: str | None = None
    """Id of the last entry that the agent was sent in this opening; None if it was sent none."""
    turn_entry: str = ""
    """The first entry, the prompt, of the turn that runs or waits to start."""
    next_entry: str = ""
    """The id reserved for the next prompt's entry: an agent's own compaction outside a turn keeps entries from there
    (Z-4)."""
