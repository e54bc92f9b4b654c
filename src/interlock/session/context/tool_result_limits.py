"""Truncation of old tool results in a request: in memory only, the transcript keeps them whole (Z-7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from interlock.session.context.tokens import context_tokens, message_tokens

CLEARED = "[Old tool result content cleared]"


class PruningSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`agents.defaults.contextPruning`: shares of the window, and sizes in characters."""

    enabled: bool = True
    soft_trim_ratio: float = 0.3
    hard_clear_ratio: float = 0.5
    min_prunable_chars: int = 50_000
    keep_last_assistants: int = 3
    max_chars: int = 4_000
    head_chars: int = 1_500
    tail_chars: int = 1_500
    placeholder: str = CLEARED


def pruned(messages: Sequence[Mapping[str, Any]], window: int, settings: PruningSettings | None = None
           ) -> list[Mapping[str, Any]]:
    """Return the context that is sent: messages that need no change are the same objects; none is changed in place.

    Above the soft share of the window, tool results that are too long keep their beginning and end; while it is still
    above the hard share, the oldest are cleared. Nothing is done below `min_prunable_chars`, nor to what came with or
    after the last assistant messages that are protected."""
    settings = settings or PruningSettings()
    kept = list(messages)
    if not settings.enabled or window <= 0:
        return kept
    prunable = _prunable(kept, settings)
    if sum(_chars(kept[at]) for at in prunable) < settings.min_prunable_chars:
        return kept
    tokens = context_tokens(kept)
    if tokens <= window * settings.soft_trim_ratio:
        return kept
    for at in prunable:
        if _chars(kept[at]) > settings.max_chars and not _has_image(kept[at]):
            tokens -= _put(kept, at, _trimmed(kept[at], settings))
    for at in prunable:
        if tokens <= window * settings.hard_clear_ratio:
            break
        if _chars(kept[at]) > len(settings.placeholder) or _has_image(kept[at]):
            tokens -= _put(kept, at, _with_text(kept[at], settings.placeholder))
    return kept


def _put(kept: list[Mapping[str, Any]], at: int, message: Mapping[str, Any]) -> int:
    """Replace a message; returns by how many tokens the context shrank."""
    saved = message_tokens(kept[at]) - message_tokens(message)
    kept[at] = message
    return saved


def _prunable(messages: Sequence[Mapping[str, Any]], settings: PruningSettings) -> list[int]:
    """Return the positions of tool results before the protected assistant messages."""
    if settings.keep_last_assistants <= 0:
        end = len(messages)
    else:
        assistants = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        if len(assistants) < settings.keep_last_assistants:
            return []
        end = assistants[-settings.keep_last_assistants]
    return [at for at in range(end) if messages[at].get("role") == "toolResult"]


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    listed = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("dict[str, Any]", part) for part in listed if isinstance(part, dict)]


def _chars(message: Mapping[str, Any]) -> int:
    return sum(len(str(part.get("text", ""))) for part in _parts(message) if part.get("type") == "text")


def _has_image(message: Mapping[str, Any]) -> bool:
    return any(part.get("type") == "image" for part in _parts(message))


def _trimmed(message: Mapping[str, Any], settings: PruningSettings) -> Mapping[str, Any]:
    text = "\n".join(str(part.get("text", "")) for part in _parts(message) if part.get("type") == "text")
    head, tail = text[:settings.head_chars], text[-settings.tail_chars:] if settings.tail_chars > 0 else ""
    if len(head) + len(tail) >= len(text):
        return message
    return _with_text(message, f"{head}\n...\n{tail}\n\n[Tool result trimmed: kept the first {len(head)} and the last "
                               f"{len(tail)} of {len(text)} characters.]")


def _with_text(message: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    return {**message, "content": [{"type": "text", "text": text}]}
