"""Split text into blocks and deltas within their limits (E-4, E-5), and bound a tool's output. Pure.

Sizes are counted as encoded JSON, offsets in Unicode code points. Block boundaries depend on the whole text alone, not
on how the agent cut it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from interlock.protocol.limits import MAX_BLOCK_BYTES, MAX_DELTA_BYTES, MAX_TOOL_OUTPUT_BYTES
from interlock.protocol.payloads import Truncated
from interlock.protocol.sizes import json_size, split_sized, split_text

Kind = Literal["text", "thinking"]
PREFIXES: dict[Kind, str] = {"text": "txt_", "thinking": "thk_"}
"""The prefix of a block's id names its kind, so that a restarted runner can close what it finds in the outbox (D-6)."""


def sound(text: str) -> str:
    """Return the text with lone surrogates replaced: JSON cannot carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def fit(text: str, budget: int) -> int:
    """Return how many code points from the start of `text` fit in `budget` bytes of JSON."""
    text = text[: max(budget, 0)]
    if json_size(text) <= budget:
        return len(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if json_size(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


class BlockDelta(NamedTuple):
    """Text appended to an open block."""

    kind: Kind
    block_id: str
    offset: int
    text: str
    continues: str | None


class Done(NamedTuple):
    """A closed block with its whole text. `continues` is the id of the block that it continues (E-5)."""

    kind: Kind
    block_id: str
    text: str
    continues: str | None


class Blocks:
    """The text of one turn; at most one block is open. `new_id` makes an id from a prefix; a block holds at most
    `max_bytes`, encoded."""

    def __init__(self, new_id: Callable[[str], str], max_bytes: int = MAX_BLOCK_BYTES) -> None:
        self._new_id = new_id
        self._max_bytes = max_bytes
        self._kind: Kind = "text"
        self._block_id: str | None = None
        self._continues: str | None = None
        self._parts: list[str] = []
        self._offset = 0
        self._bytes = 0

    def write(self, kind: Kind, text: str) -> list[BlockDelta | Done]:
        """Append text. An open block of the other kind is closed first; a full one is closed and continued."""
        steps: list[BlockDelta | Done] = []
        if text and self._block_id is not None and kind != self._kind:
            steps += self.close()
        for piece, size in split_sized(text, MAX_DELTA_BYTES):
            if piece and self._bytes + size <= self._max_bytes:
                steps.append(self._grow(kind, piece, size))
                continue
            at = 0
            while at < len(piece):
                count = fit(piece[at:], self._max_bytes - self._bytes)
                if count == 0:
                    steps += self._roll()
                    continue
                part = piece[at : at + count]
                steps.append(self._grow(kind, part, json_size(part)))
                at += count
        return steps

    def close(self) -> list[BlockDelta | Done]:
        """Close the open block, if there is one; later text starts a new block."""
        if self._block_id is None:
            return []
        done = Done(self._kind, self._block_id, "".join(self._parts), self._continues)
        self._block_id, self._continues = None, None
        self._parts, self._offset, self._bytes = [], 0, 0
        return [done]

    def _roll(self) -> list[BlockDelta | Done]:
        full = self._block_id
        steps = self.close()
        self._continues = full
        return steps

    def _grow(self, kind: Kind, text: str, size: int) -> BlockDelta:
        if self._block_id is None:
            self._kind = kind
            self._block_id = self._new_id(PREFIXES[kind])
        delta = BlockDelta(kind, self._block_id, self._offset, text, self._continues)
        self._parts.append(text)
        self._offset += len(text)
        self._bytes += size
        return delta


class BoundedOutput:
    """A tool's output up to MAX_TOOL_OUTPUT_BYTES as JSON: all of it, or its two ends of half that size (E-5)."""

    HALF = MAX_TOOL_OUTPUT_BYTES // 2

    def __init__(self) -> None:
        self._head: list[str] = []
        self._head_bytes = 0
        self._tail: deque[tuple[str, int]] = deque()
        self._tail_bytes = 0
        self._dropped = False
        self._bytes_total = 0
        self._hash = hashlib.sha256()

    def add(self, text: str) -> None:
        """Append output, in order."""
        raw = text.encode()
        self._bytes_total += len(raw)
        self._hash.update(raw)
        for piece in split_text(text, MAX_DELTA_BYTES):
            rest = piece
            if not self._tail:
                count = fit(piece, self.HALF - self._head_bytes)
                self._head.append(piece[:count])
                self._head_bytes += json_size(piece[:count])
                rest = piece[count:]
            if rest:
                self._tail.append((rest, json_size(rest)))
                self._tail_bytes += self._tail[-1][1]
                self._trim()

    def _trim(self) -> None:
        # The tail may use what a wide character left free in the head, so that output that fits is never cut.
        room = MAX_TOOL_OUTPUT_BYTES - self._head_bytes
        while self._tail_bytes > room:
            text, size = self._tail.popleft()
            self._tail_bytes -= size
            self._dropped = True
            over = self._tail_bytes + size - room
            if over < size:
                kept = text[_fit_end(text, size - over) :]
                self._tail.appendleft((kept, json_size(kept)))
                self._tail_bytes += self._tail[0][1]

    def result(self) -> tuple[str, Truncated | None]:
        """Return the stored text, and what was cut from it, if anything."""
        text = "".join(self._head) + "".join(part for part, _ in self._tail)
        if not self._dropped:
            return text, None
        return text, Truncated(
            bytes_total=self._bytes_total, bytes_kept=len(text.encode()), sha256=self._hash.hexdigest()
        )


def _fit_end(text: str, budget: int) -> int:
    """Return the index from which the rest of the text fits in `budget` bytes of JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if json_size(text[middle:]) <= budget:
            high = middle
        else:
            low = middle + 1
    return low
