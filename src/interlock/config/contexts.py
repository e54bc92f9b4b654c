"""The tables of the config file for the maximum size of a conversation and its compaction (section 5 of the sessions),
with OpenClaw's names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from interlock.config.chats import ChatSection
from interlock.session.context.tool_result_limits import CLEARED
from interlock.session.context.windows import LEAST_WINDOW, MOST_WINDOW

Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_WINDOW)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Chars = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
MAX_PROMPT_CHARS = 16_000
PROMPT = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PROMPT_CHARS)]


class BeforeCompactSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`compaction.beforeCompact`: the hook called before each compaction (Z-6), and the secret that signs the
    request."""

    url: str
    secret_file: str | None = None
    secret_env: str | None = None
    timeout_ms: Annotated[int, msgspec.Meta(ge=100, le=120_000)] = 30_000
    required: bool = False
    """Whether a hook that does not answer cancels the compaction."""

    def __post_init__(self) -> None:
        if (self.secret_file is None) == (self.secret_env is None):
            raise ValueError("secretFile: name the file that holds the secret, or the variable with secretEnv")


class CompactionSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`[compaction]` (Z-1, Z-2, Z-6)."""

    enabled: bool = True
    reserve_tokens: Tokens = 16_384
    keep_recent_tokens: Tokens = 20_000
    windows: dict[str, int] = msgspec.field(default_factory=dict)
    before_compact: BeforeCompactSection | None = None

    def __post_init__(self) -> None:
        for model, window in self.windows.items():
            if not LEAST_WINDOW <= window <= MOST_WINDOW:
                raise ValueError(f"windows: {window} is not a window of {model!r}; from {LEAST_WINDOW} tokens on")


class MemoryFlushSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`agents.defaults.compaction.memoryFlush` (Z-5)."""

    enabled: bool = True
    soft_threshold_tokens: Tokens = 4_000
    prompt: PROMPT | None = None
    system_prompt: PROMPT | None = None


class AgentCompactionSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`agents.defaults.compaction` (Z-2)."""

    reserve_tokens_floor: Tokens = 20_000
    memory_flush: MemoryFlushSection = MemoryFlushSection()


class ContextPruningSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`agents.defaults.contextPruning` (Z-7): shares of the window, sizes in characters."""

    enabled: bool = True
    soft_trim_ratio: Share = 0.3
    hard_clear_ratio: Share = 0.5
    min_prunable_chars: Chars = 50_000
    keep_last_assistants: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 3
    max_chars: Chars = 4_000
    head_chars: Chars = 1_500
    tail_chars: Chars = 1_500
    placeholder: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] = CLEARED


class DefaultsSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`[agents.defaults]`: settings for every agent whose context the gateway owns."""

    compaction: AgentCompactionSection = AgentCompactionSection()
    context_pruning: ContextPruningSection = ContextPruningSection()
