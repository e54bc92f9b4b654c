"""The text so far of every open block of a session, which a viewer that joins during a turn receives first (S-3, E-4).

A block is a text or thinking block, or one channel of a tool call. Text is written at its offset: a part that is
present already is skipped, and a hole is reported and not filled, unless the sender declares that it omitted
something.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from interlock.protocol.envelope import Frame
from interlock.protocol.limits import KIB, MAX_TOOL_OUTPUT_BYTES, MIB
from interlock.protocol.payloads import TextDelta, TextDone, ToolResult, ToolStream

MAX_OPEN_BLOCKS = 1_024
"""Open blocks kept of a session; beyond it the oldest is dropped, and its `.done` or result brings its text."""
MAX_OPEN_BLOCK_BYTES = 8 * MIB
"""Text kept of all open blocks of a session; the oldest are dropped as above."""
MAX_KEPT_METADATA_BYTES = 4 * KIB
"""A delta's metadata above this, as JSON, are passed on once and not kept for viewers that join."""

_HALF = MAX_TOOL_OUTPUT_BYTES // 2
_ESCAPE = 6
"""The maximum JSON length of one character under U+0080; a head may fall short of its half by less."""

TURN_ENDS = frozenset({"session.turn.end", "session.closed"})
"""Types whose frames close every open block."""
CLOSING = frozenset({"agent.text.done", "agent.thinking.done", "tool.invoke.result"}) | TURN_ENDS
"""Types whose frames close blocks; a reader need not parse any other durable frame."""


class Hole(NamedTuple):
    """Text between `expected` and `found` (code points) of a block that was never received."""

    block: str
    expected: int
    found: int


def block_of(frame: Frame) -> str | None:
    """Return the name of the block that a transient frame writes to, as the outbox names it; None for any other
    frame."""
    payload = frame.payload
    if isinstance(payload, TextDelta):
        return payload.block_id
    if isinstance(payload, ToolStream):
        return f"{payload.invocation_id}/{payload.channel}"
    return None


def encoded_size(text: str) -> int:
    """Count the bytes that a text takes inside a JSON string (E-5)."""
    return len(msgspec.json.encode(text)) - 2


def from_offset(frame: Frame, offset: int) -> Frame | None:
    """Return a transient frame without the text before `offset`; None if nothing is left."""
    payload = frame.payload
    if not isinstance(payload, TextDelta | ToolStream) or payload.offset >= offset:
        return frame
    text = payload.text[offset - payload.offset:]
    if not text:
        return None
    return msgspec.structs.replace(frame, payload=msgspec.structs.replace(payload, offset=offset, text=text))


def joined(first: Frame, second: Frame) -> Frame | None:
    """Merge two neighbours of one block into one frame (E-4); None if they are not neighbours."""
    a, b = first.payload, second.payload
    if not (isinstance(a, TextDelta | ToolStream) and isinstance(b, TextDelta | ToolStream)):
        return None
    if block_of(first) != block_of(second) or second.metadata.get("omitted") or a.offset + len(a.text) != b.offset:
        return None
    payload = msgspec.structs.replace(a, text=a.text + b.text)
    return msgspec.structs.replace(second, payload=payload, metadata=first.metadata)


class _Span:
    """One block's text: all of it up to MAX_TOOL_OUTPUT_BYTES encoded, beyond that its head and its tail."""

    def __init__(self) -> None:
        self.end = 0
        self._head: list[str] = []
        self._head_size = 0
        self._head_points = 0
        self._head_open = True
        self._tail: deque[tuple[str, int]] = deque()
        self._tail_size = 0

    def add(self, text: str) -> None:
        self.end += len(text)
        if self._head_open:
            fitting = _prefix(text, _HALF - self._head_size)
            self._head.append(fitting)
            self._head_points += len(fitting)
            self._head_size += encoded_size(fitting)
            self._head_open = len(fitting) == len(text)
            text = text[len(fitting):]
        if text:
            self._tail.append((text, encoded_size(text)))
            self._tail_size += self._tail[-1][1]
            # Whole pieces are dropped while more than enough remains; `tail` cuts exactly, and only on demand.
            while self._tail_size - self._tail[0][1] >= _HALF + _ESCAPE:
                self._tail_size -= self._tail.popleft()[1]

    def skip_to(self, offset: int) -> None:
        """Skip what the sender omitted: the head ends here, the tail starts again."""
        self._head_open = False
        self._tail.clear()
        self._tail_size = 0
        self.end = offset

    @property
    def size(self) -> int:
        """Return the bytes kept of the text, encoded."""
        return self._head_size + self._tail_size

    def head(self) -> str:
        return "".join(self._head)

    def tail(self) -> tuple[int, str]:
        """Return (offset, text) of what is kept after the head."""
        text = _suffix("".join(piece for piece, _ in self._tail), _HALF + _ESCAPE)
        return self.end - len(text), text

    @property
    def head_points(self) -> int:
        return self._head_points


def _prefix(text: str, budget: int) -> str:
    """Return the longest prefix that takes at most `budget` bytes encoded."""
    if encoded_size(text) <= budget:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if encoded_size(text[:middle]) <= budget else (low, middle - 1)
    return text[:low]


def _suffix(text: str, budget: int) -> str:
    """Return the longest suffix that takes at most `budget` bytes encoded."""
    if encoded_size(text) <= budget:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if encoded_size(text[middle:]) <= budget else (middle + 1, high)
    return text[low:]


class _Block(NamedTuple):
    span: _Span
    frame: Frame
    """The newest frame of the block: the merged one gets its envelope."""

    @property
    def size(self) -> int:
        return self.span.size + len(self.frame.payload.text)


class OpenBlocks:
    """The open blocks of one session, oldest first."""

    def __init__(self) -> None:
        self.open: dict[str, _Block] = {}
        """The blocks by their ids; only `OpenBlocks` changes it."""
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self.open)

    def feed(self, frame: Frame) -> Frame | Hole | None:
        """Process one frame of the session. Returns what is new in it for a viewer that saw all before: the frame
        itself, the part of it that does not overlap, None if nothing is new, or the Hole before it."""
        name = block_of(frame)
        if name is None:
            for closed in self.closed_by(frame):
                self._drop(closed)
            return frame
        payload = frame.payload
        known = self.open.get(name)
        span = known.span if known else _Span()
        before = known.size if known is not None else 0
        if payload.offset > span.end:
            if not frame.metadata.get("omitted"):
                return Hole(name, span.end, payload.offset)
            span.skip_to(payload.offset)
        news = from_offset(frame, span.end)
        if news is None:
            return None
        if known is None and len(self.open) >= MAX_OPEN_BLOCKS:
            self._drop(next(iter(self.open)))
        kept = frame
        if frame.metadata and len(msgspec.json.encode(frame.metadata)) > MAX_KEPT_METADATA_BYTES:
            kept = msgspec.structs.replace(frame, metadata={})
        block = self.open[name] = _Block(span, kept)
        span.add(news.payload.text)
        self._size += block.size - before
        while self._size > MAX_OPEN_BLOCK_BYTES and len(self.open) > 1:
            self._drop(next(iter(self.open)))
        return news

    def _drop(self, name: str) -> None:
        self._size -= self.open.pop(name).size

    def closed_by(self, frame: Frame) -> list[str]:
        """Return the open blocks that a durable frame closes (T-3: a turn's end closes all)."""
        payload = frame.payload
        if frame.type in TURN_ENDS:
            return list(self.open)
        if isinstance(payload, TextDone):
            return [payload.block_id] if payload.block_id in self.open else []
        if isinstance(payload, ToolResult):
            start = payload.invocation_id + "/"
            return [name for name in self.open if name.startswith(start)]
        return []

    def text(self, block: str) -> tuple[str, int, str]:
        """Return (head, offset of the tail, tail) of an open block; the tail is "" if the head is all of it."""
        span = self.open[block].span
        offset, tail = span.tail()
        return span.head(), offset, tail

    def merged(self, without: frozenset[str] | set[str] = frozenset()) -> list[Frame]:
        """Return one delta from offset 0 for each open block (S-1), and a second one with `metadata.omitted` (code
        points left out) for the tail of a block that is longer than what is kept (D-2)."""
        return [frame for name, block in self.open.items() if name not in without for frame in _deltas(block)]


def _deltas(block: _Block) -> list[Frame]:
    span, newest = block
    offset, tail = span.tail()
    head = span.head()
    omitted = offset - span.head_points if tail else 0
    if not omitted:
        return [_delta(newest, 0, head + tail, 0)]
    parts = [_delta(newest, 0, head, 0)] if head else []
    return [*parts, _delta(newest, offset, tail, omitted)]


def _delta(newest: Frame, offset: int, text: str, omitted: int) -> Frame:
    metadata = {key: value for key, value in newest.metadata.items() if key != "omitted"}
    if omitted:
        metadata["omitted"] = omitted
    payload = msgspec.structs.replace(newest.payload, offset=offset, text=text)
    return msgspec.structs.replace(newest, payload=payload, metadata=metadata)
