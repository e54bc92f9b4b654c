"""A hook that is called before a conversation is compacted (Z-6): it may cancel it, or supply the summary."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec


class BeforeCompact(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a hook. Sizes in tokens; `messages` is what would be summarised, oldest first, or None if that is
    larger than a hook accepts."""

    session_id: str
    session_key: str
    tenant_id: str
    agent_id: str
    cause: str
    instructions: str | None
    first_kept: str
    entries: int
    tokens_before: int
    tokens_kept: int
    max_summary_tokens: int
    previous_summary: str | None
    read_files: list[str]
    modified_files: list[str]
    messages: list[dict[str, Any]] | None


class CompactionVeto(NamedTuple):
    """A hook's veto: the conversation stays as it is; the reason is one sentence without its full stop."""

    reason: str


class Supply(NamedTuple):
    """A summary that the hook supplies instead of the agent."""

    summary: str


class CompactionHook(Protocol):
    """Guarantees: it answers within its own time limit and never raises. None continues as if there were no hook."""

    async def before_compact(self, about: BeforeCompact) -> CompactionVeto | Supply | None: ...
