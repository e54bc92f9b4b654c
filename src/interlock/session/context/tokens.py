"""The number of tokens of a text, a message, an entry, if no agent reports it (Z-1).

A tokenizer counts if one is installed (`pip install '.[tokens]'`); otherwise the estimate of `token_estimate`, which is
rather too high: too low a figure lets a request exceed the model's window, too high a one only compacts somewhat
earlier. The deviation of a session's own model from either is learned from its reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from interlock.session.context.token_estimate import estimated_tokens

IMAGE_TOKENS = 1_600
"""Tokens of an image, whatever its size: its data does not determine its tokens."""
MESSAGE_TOKENS = 4
"""The overhead of a message: its role, its start and its end."""
MAX_TOKENS = 100_000_000
"""Maximum of an estimate: windows are far below it, and sums of them stay small integers."""

LEAST_GROWTH = 256
"""Estimated tokens by which a context must have grown between two reports for a comparison."""
FACTOR_LEAST, FACTOR_MOST = 0.9, 4.0
"""Limits of a session's factor: below, a model that reports only new tokens would hide an overflow."""
FACTOR_GAIN = 0.3
"""Weight of one report in the factor."""

Counter = Callable[[str], int]
"""Counts a text's tokens as a tokenizer does. It accepts every str, including half surrogate pairs."""
EXACT_CHARS = 256 * 1024
"""Longer texts are estimated even if a tokenizer is installed: no tokenizer is fast on every text."""

_encode = msgspec.json.Encoder().encode


class _Tokenizer:
    count: Counter | None = None


def use_tokenizer(count: Counter | None) -> None:
    """Count with a tokenizer from here on, in the whole process; None returns to the estimate."""
    _Tokenizer.count = count


def text_tokens(text: str) -> int:
    """Return a text's tokens: counted if a tokenizer is installed, otherwise estimated and rather too many; 0 for an
    empty text. Not below the true count by more than 10 % (Z-1)."""
    if not text:
        return 0
    if _Tokenizer.count is not None and len(text) <= EXACT_CHARS:
        return min(_Tokenizer.count(text), MAX_TOKENS)
    return min(math.ceil(estimated_tokens(text)), MAX_TOKENS)


def message_tokens(message: Mapping[str, Any]) -> int:
    """Return the estimated tokens of a context's message: `user`, `assistant`, `toolResult`, `bashExecution`, `custom`,
    `branchSummary`, `compactionSummary` (sessions.md section 4). Unknown parts count as their JSON."""
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
    """Return the estimated tokens of a transcript's entry in context: 0 for one that is not part of it (X-1)."""
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
    """The ratio of a session's model to the estimate, learned from the growth of both between two reports, so that the
    overhead of every request (instructions, tools) is not attributed to the conversation."""

    factor: float = 1.0
    reported: int = 0
    """Tokens of the context by the last report; 0 before the first, and after a compaction."""
    estimated: int = 0
    """The estimate of the same context, without the factor."""

    def tokens(self, estimated: int) -> int:
        """Convert an estimate to tokens of this session's model."""
        return min(round(estimated * self.factor), MAX_TOKENS)

    def context(self, estimated: int) -> int:
        """Return the tokens of the whole context, of which `estimated` is the estimate: the last report, plus what was
        added since. If the context has shrunk, or nothing was ever reported, only the estimate counts."""
        if not self.reported or estimated < self.estimated:
            return self.tokens(estimated)
        return min(self.reported + self.tokens(estimated - self.estimated), MAX_TOKENS)

    def adjusted(self, estimated: int, reported: int) -> Calibration:
        """Return the calibration after a report of the context's tokens, given its estimate. An impossible report is
        ignored."""
        if reported <= 0 or estimated <= 0 or reported > MAX_TOKENS:
            return self
        factor, grown, counted = self.factor, estimated - self.estimated, reported - self.reported
        if self.reported and grown >= LEAST_GROWTH and counted > 0:
            factor += FACTOR_GAIN * (min(max(counted / grown, FACTOR_LEAST), FACTOR_MOST) - factor)
        return Calibration(min(max(factor, FACTOR_LEAST), FACTOR_MOST), reported, estimated)

    def forgotten(self) -> Calibration:
        """Return the calibration with the factor only: after a compaction, earlier reports concern another context."""
        return Calibration(self.factor)
