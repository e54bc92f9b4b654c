"""The memory flush before a conversation is compacted (Z-5): when it is due, its prompts, and what it may do."""

from __future__ import annotations

from interlock.session.context.compaction_plan import CompactionSettings, Flush, thresholds
from interlock.session.silence import TOKEN

PROMPT = (
    "Pre-compaction memory flush. Older parts of this conversation will soon be replaced by a summary. Write what must "
    "last (decisions, facts, preferences, open tasks) to `memory/{date}.md` in your workspace: create it if it is not "
    f"there, and append to what it holds. If there is nothing to keep, reply with {TOKEN}."
)
SYSTEM_PROMPT = (
    "This is a silent turn before the conversation is compacted. Only files `memory/*.md` in your workspace can be "
    f"written, everything else is denied; the user sees nothing of it. End with a reply that begins with {TOKEN}."
)
HINT = f"\n\nIf there is nothing to say to the user, begin your reply with {TOKEN}."
"""Added to a configured prompt that does not contain it."""


def prompt(settings: Flush, date: str) -> str:
    """Return the flush turn's prompt; `date` is YYYY-MM-DD in the gateway's time zone, and replaces `{date}` in it."""
    return _hinted(settings.prompt or PROMPT).replace("{date}", date)


def system_prompt(settings: Flush, date: str) -> str:
    """Return what is added to the agent's instructions for the flush turn."""
    return _hinted(settings.system_prompt or SYSTEM_PROMPT).replace("{date}", date)


def _hinted(text: str) -> str:
    return text if TOKEN in text else text + HINT


def flush_due(
    settings: CompactionSettings, window: int, context_tokens: int, *, compactions: int, flushed_at: int | None,
) -> bool:
    """Return whether memory is to be written now: beyond the soft threshold, and not yet since the last compaction.
    `compactions` and `flushed_at` are `compactionCount` and `memoryFlushCompactionCount` of the session's entry."""
    if not (settings.enabled and settings.memory_flush.enabled) or window <= 0:
        return False
    return context_tokens > thresholds(settings, window).flush and flushed_at != compactions
