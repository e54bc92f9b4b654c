"""What a lane knows of its session's context: who owns it, how large it is, what is being done about it (Z-1, Z-4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Literal, NamedTuple

import msgspec

from interlock.session.compaction_plan import CompactionSettings
from interlock.session.tokens import Calibration
from interlock.session.tool_result_limits import PruningSettings

Cause = Literal["manual", "threshold", "overflow"]
"""Why a conversation is compacted: somebody asked, it has grown past the threshold, the provider refused it (Z-2)."""
Due = Literal["", "look", "threshold", "overflow"]
"""What the shell is to do outside of the lane: look how large the context is, or plan a compaction."""


class CompactionRules(NamedTuple):
    """What the config says of contexts. `windows` are tokens by model; `zone` is where a flush's date is meant."""

    settings: CompactionSettings = CompactionSettings()
    windows: Mapping[str, int] = {}
    zone: tzinfo = UTC
    pruning: PruningSettings = PruningSettings()
    """What of old tool results an agent sends to its model (Z-7); it travels with the context."""


class PendingCompaction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A compaction that the agent was asked for, and what its report must fit. Sizes in tokens."""

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
    """What the summary stands instead of, the one before included."""
    supplied: str = ""
    """A hook's summary, which the agent that waits in its turn was given."""
    read_files: list[str] = []
    modified_files: list[str] = []
    instructions: str | None = None
    """What an agent that owns its context was asked to keep, to ask it again."""
    waits_for_trust: bool = False
    """Files configure the agent, so it was not started: it is asked again once they are allowed (H-13)."""


class ContextState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Kept over a restart, in `LaneState.context`."""

    owner: Literal["agent", "gateway"] = "agent"
    leaf: str | None = None
    """The last entry that changed what is put before the model: marks and notices leave it where it is."""
    window_told: int | None = None
    """The model's window as its agent reported it."""
    reported: int | None = None
    """Tokens of the context as the last turn's usage reported them."""
    calibration: Calibration = Calibration()
    due: Due = ""
    due_reply: str = ""
    """message_id of the frame that reported an overflow: it is answered where nothing can be compacted."""
    instructions: str | None = None
    """What a person said when asked after failures: for the next attempt."""
    pending: PendingCompaction | None = None
    failures: int = 0
    """Compactions in a row that came to nothing."""
    question: str = ""
    """The approval in which a person is asked what to do after failures."""
    rests: bool = False
    """A person left it as it is: nothing is compacted by itself until somebody asks for it."""
    untold: str = ""
    """A compaction between two commands, which is reported with the next one."""
    sent: str | None = None
    """Id of the last entry that the agent was sent in this opening; None: it has nothing."""
    turn_entry: str = ""
    """The first entry of the turn that runs or waits to start: its prompt."""
    next_entry: str = ""
    """The id that the next prompt's entry has: an agent's own compaction outside of a turn keeps from there (Z-4)."""
