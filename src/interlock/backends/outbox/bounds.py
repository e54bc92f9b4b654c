"""What an outbox keeps and what it may lose (D-3, E-5): rules without storage, shared by every backend."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from interlock.ports.outbox import Policy, TransientText
from interlock.protocol.limits import KIB, MAX_TOOL_OUTPUT_BYTES
from interlock.protocol.sizes import split_text

CONTENT = frozenset({"agent.text.done", "agent.thinking.done", "tool.invoke.result", "agent.file.transfer"})
"""Types that a policy may discard; everything else is kept beyond the limit (D-3)."""

HALF_CHANNEL_BYTES = MAX_TOOL_OUTPUT_BYTES // 2
"""Maximum size of each of a tool channel's head and tail (E-5)."""

PIECE_ROW_BYTES = 16 * KIB
"""A tool channel's text is stored in rows of at most this, so that the tail moves in steps of this."""

CONTROLS_KEPT = 1_024
"""Control frames remembered per session; older ones were acted on long ago and are deleted."""

Ranges = list[tuple[int, int]]


def is_channel(block: str) -> bool:
    """Return whether a block is a tool channel ("invocation_id/channel") and not text."""
    return "/" in block


def refuses(policy: Policy, frame_type: str, bytes_after: int, limit_bytes: int, *, detached: bool) -> bool:
    """Return whether a frame that would bring its session to `bytes_after` is discarded (D-3)."""
    if policy == "RING" or frame_type not in CONTENT:
        return False
    return bytes_after > limit_bytes or (policy == "NONE" and detached)


def add_lost(ranges: Ranges, seq: int) -> None:
    """Record `seq` as lost. Eviction is in ascending order, so it is nearly always appended."""
    place = len(ranges)
    while place and ranges[place - 1][0] > seq:
        place -= 1
    ranges.insert(place, (seq, seq))
    for left in (place, place - 1):
        if 0 <= left < len(ranges) - 1 and ranges[left][1] + 1 == ranges[left + 1][0]:
            ranges[left : left + 2] = [(ranges[left][0], ranges[left + 1][1])]


def trim_lost(ranges: Ranges, acked_seq: int) -> Ranges:
    """Return the part of `ranges` above `acked_seq`."""
    return [(max(first, acked_seq + 1), last) for first, last in ranges if last > acked_seq]


def count_lost(ranges: Sequence[tuple[int, int]]) -> int:
    """Count the frames that `ranges` cover."""
    return sum(last - first + 1 for first, last in ranges)


def piece_rows(piece: TransientText) -> list[TransientText]:
    """Split a tool channel's piece into rows; a text block's piece is one row."""
    if not is_channel(piece.block):
        return [piece]
    rows: list[TransientText] = []
    offset = piece.offset
    for text in split_text(piece.text, PIECE_ROW_BYTES):
        rows.append(piece._replace(offset=offset, text=text))
        offset += len(text)
    return rows


class ChannelKeep:
    """The rows of one tool channel that stay: the head permanently, the tail as a sliding window (E-5)."""

    def __init__(self) -> None:
        self._head = 0
        self._tail: deque[tuple[int, int]] = deque()
        self._tail_bytes = 0

    def admit(self, row: int, size: int) -> list[int]:
        """Add a row of `size` bytes; returns the rows to delete."""
        if not self._tail and self._head + size <= HALF_CHANNEL_BYTES:
            self._head += size
            return []
        self._tail.append((row, size))
        self._tail_bytes += size
        dropped: list[int] = []
        while self._tail_bytes > HALF_CHANNEL_BYTES:
            oldest, freed = self._tail.popleft()
            self._tail_bytes -= freed
            dropped.append(oldest)
        return dropped


def merge_pieces(rows: Iterable[TransientText]) -> list[TransientText]:
    """Merge rows, in the order they were written, into one Piece for each run without a hole; blocks in the order they
    were opened. Text that a row repeats is used once."""
    runs: dict[str, list[tuple[int, list[str]]]] = {}
    ends: dict[str, int] = {}
    session_id = ""
    for row in rows:
        session_id = row.session_id
        block = runs.setdefault(row.block, [])
        end = ends.get(row.block, -1)
        if not block or row.offset > end:
            block.append((row.offset, [row.text]))
        else:
            block[-1][1].append(row.text[end - row.offset :])
        ends[row.block] = max(end, row.offset + len(row.text))
    return [
        TransientText(session_id, block, offset, "".join(texts))
        for block, block_runs in runs.items()
        for offset, texts in block_runs
    ]
