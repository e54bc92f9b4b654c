"""How many tokens a text, a message, an entry has, if no agent reports it (Z-1).

A tokenizer counts if one is installed (`pip install '.[tokens]'`); else the estimate of `token_estimate`, which is
rather too high: too low a figure lets a request run over the model's window, too high a one only compacts somewhat
earlier. How far a session's own model is from either is learned from what it reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from interlock.session.token_estimate import estimated_tokens

IMAGE_TOKENS = 1_600
"""What an image counts, whatever its size: the data of it says nothing about its tokens."""
MESSAGE_TOKENS = 4
"""What stands around a message: who says it, where it begins and ends."""
MAX_TOKENS = 100_000_000
"""No estimate is larger: windows are far below it, and sums of them stay small integers."""

LEAST_GROWTH = 256
"""Estimated tokens by which a context must have grown between two reports for the two to be compared."""
FACTOR_LEAST, FACTOR_MOST = 0.9, 4.0
"""A session's factor stays within these: below, a model that reports only new tokens would hide an overflow."""
FACTOR_GAIN = 0.3
"""How much of what one report teaches is taken at once."""

Counter = Callable[[str], int]
"""Counts a text's tokens as a tokenizer does. It takes every str, also one with half a surrogate pair."""
EXACT_CHARS = 256 * 1024
"""Longer texts are estimated even if a tokenizer is there: no tokenizer is quick on every text."""

_encode = msgspec.json.Encoder().encode


class _Tokenizer:
    count: Counter | None = None


def use_tokenizer(count: Counter | None) -> None:
    """Count with a tokenizer from here on, in the whole process; None goes back to the estimate."""
    _Tokenizer.count = count


def text_tokens(text: str) -> int:
    """Return a text's tokens: counted if a tokenizer is installed, else estimated and rather too many; 0 for an empty
    text. Not below the true count by more than 10 % (Z-1)."""
    if not text:
        return 0
    if _Tokenizer.count is not None and len(text) <= EXACT_CHARS:
        return min(_Tokenizer.count(text), MAX_TOKENS)
    return min(math.ceil(estimated_tokens(text)), MAX_TOKENS)


def message_tokens(message: Mapping[str, Any]) -> int:
    """Estimate what a message of a context takes: `user`, `assistant`, `toolResult`, `bashExecution`, `custom`,
    `branchSummary`, `compactionSummary` (sessions.md section 4). What is odd in it counts as its JSON."""
    match message.get("role"):
        case "bashExecution":
            tokens = 0 if message.get("excludeFromContext") is True else \
                text_tokens(f"{message.get('command', '')}\n{message.get('output', '')}")
        case "branchSummary" | "compactionSummary":
            tokens = text_tokens(str(message.get("summary", "")))
        case _:
            tokens = _content_tokens(message.get("content"))
    return tokens + MESSAGE_TOKENS


def entry_tokens(entry: Mapping[str, Any]) -> int:
    """Estimate what an entry of a transcript takes in context: 0 for one that is not put before the model (X-1)."""
    match entry.get("type"):
        case "message":
            message = entry.get("message")
            return message_tokens(cast("dict[str, Any]", message)) if isinstance(message, dict) else 0
        case "custom_message":
            return _content_tokens(entry.get("content")) + MESSAGE_TOKENS
        case "branch_summary" | "compaction" if entry.get("summary"):
            return text_tokens(str(entry["summary"])) + MESSAGE_TOKENS
        case _:
            return 0


def context_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate a whole context."""
    return sum(map(message_tokens, messages))


def _content_tokens(content: Any) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return text_tokens(content)
    if not isinstance(content, list):
        return text_tokens(_json(content))
    return sum(map(_part_tokens, cast("list[Any]", content)))


def _part_tokens(part: Any) -> int:
    if not isinstance(part, dict):
        return text_tokens(_json(part))
    block = cast("dict[str, Any]", part)
    match block.get("type"):
        case "text":
            return text_tokens(str(block.get("text", "")))
        case "thinking":
            return text_tokens(str(block.get("thinking", "")))
        case "image":
            return IMAGE_TOKENS
        case "toolCall":
            return text_tokens(f"{block.get('name', '')} {_json(block.get('arguments'))}") + MESSAGE_TOKENS
        case _:
            return text_tokens(_json(block))


def _json(value: Any) -> str:
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


class Calibration(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a session's model counts, against the estimate: learned from how both grow between two reports, so that what
    every request carries beside the conversation (instructions, tools) does not pass for long words."""

    factor: float = 1.0
    reported: int = 0
    """Tokens of the context by the last report; 0 before the first, and after a compaction."""
    estimated: int = 0
    """What the same context was estimated at, without the factor."""

    def tokens(self, estimated: int) -> int:
        """Turn an estimate into tokens of this session's model."""
        return min(round(estimated * self.factor), MAX_TOKENS)

    def context(self, estimated: int) -> int:
        """Tokens of the whole context, of which `estimated` is the estimate: the last report, and what has come since
        then. Where the context has shrunk, or nothing was ever reported, the estimate alone counts."""
        if not self.reported or estimated < self.estimated:
            return self.tokens(estimated)
        return min(self.reported + self.tokens(estimated - self.estimated), MAX_TOKENS)

    def adjusted(self, estimated: int, reported: int) -> Calibration:
        """Take a report of the context's tokens, beside its estimate. One that cannot be true is passed over."""
        if reported <= 0 or estimated <= 0 or reported > MAX_TOKENS:
            return self
        factor, grown, counted = self.factor, estimated - self.estimated, reported - self.reported
        if self.reported and grown >= LEAST_GROWTH and counted > 0:
            factor += FACTOR_GAIN * (min(max(counted / grown, FACTOR_LEAST), FACTOR_MOST) - factor)
        return Calibration(min(max(factor, FACTOR_LEAST), FACTOR_MOST), reported, estimated)

    def forgotten(self) -> Calibration:
        """Keep the factor alone: after a compaction what was reported is of another context."""
        return Calibration(self.factor)
