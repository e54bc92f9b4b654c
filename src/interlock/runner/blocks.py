"""Pure: text into blocks and deltas within their bounds (E-4, E-5), and a tool's output into what is kept of it.

Sizes are counted as encoded JSON, offsets in Unicode code points. Where a block ends depends on the whole text alone,
never on how the agent happened to cut it.
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
"""A block's id tells its kind, so that a restarted runner can close what it finds in the outbox (D-6)."""


def sound(text: str) -> str:
    """The text with lone surrogates replaced: JSON cannot carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def fit(text: str, budget: int) -> int:
    """How many code points from the start of `text` take at most `budget` bytes as JSON."""
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
    """Text that an open block grows by."""

    kind: Kind
    block_id: str
    offset: int
    text: str
    continues: str | None


class Done(NamedTuple):
    """A block that is closed, with its whole text. `continues` names the block that it goes on from (E-5)."""

    kind: Kind
    block_id: str
    text: str
    continues: str | None


class Blocks:
    """The text of one turn: at most one block is open. `new_id` makes an id from a prefix; a block takes at most
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
        """Add text; a block of the other kind is closed first, a full one is closed and goes on as a new one."""
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
        """Close the open block, if there is one; what comes next is a block of its own."""
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
    """A tool's output up to MAX_TOOL_OUTPUT_BYTES as JSON: all of it, or its first and last halves (E-5)."""

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
        """Add output in the order in which it came."""
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
        # What a wide letter left free of the head is the tail's, so that nothing is cut which fits as a whole.
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
        """The text that is kept, and what was cut from it where anything was."""
        text = "".join(self._head) + "".join(part for part, _ in self._tail)
        if not self._dropped:
            return text, None
        return text, Truncated(
            bytes_total=self._bytes_total, bytes_kept=len(text.encode()), sha256=self._hash.hexdigest()
        )


def _fit_end(text: str, budget: int) -> int:
    """The index from which the text takes at most `budget` bytes as JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if json_size(text[middle:]) <= budget:
            high = middle
        else:
            low = middle + 1
    return low
