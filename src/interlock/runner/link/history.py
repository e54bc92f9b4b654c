"""The first message of a reattached session (D-2): a plan of `session.history` frames. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from interlock.ports.outbox import SessionRow, StoredFrame, TransientText
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.limits import KIB, MAX_BLOCK_BYTES, MAX_MESSAGE_BYTES
from interlock.protocol.payloads import BufferStatus, History, TextDelta, ToolStream
from interlock.protocol.sizes import split_text
from interlock.runner.link.uplink import TransientDelta

ENVELOPE_BYTES = 4 * KIB
"""Space in a part for everything but its frames and its lost ranges."""

RANGE_BYTES = 40
"""Upper limit of a lost range as JSON: two numbers up to 2^53, brackets and commas."""


class HistoryPart(NamedTuple):
    """One `session.history`: whole envelopes, and the ranges lost before, between or after them."""

    frames: list[bytes]
    lost: list[tuple[int, int]]


class HistoryPlan(NamedTuple):
    """A session's history after `after`; at least one part."""

    row: SessionRow
    parts: list[HistoryPart]
    lost: list[tuple[int, int]]


def lost_after(after: int, frames: Sequence[StoredFrame], last_seq: int) -> list[tuple[int, int]]:
    """Return the ranges of (after, last_seq] that are not in `frames`: the outbox no longer has them (D-3).

    Computed from what is missing, not from what was evicted: a frame evicted after it was read is not reported as lost,
    and a frame that a gateway acknowledged and then lost itself is.
    """
    lost: list[tuple[int, int]] = []
    for seq in (*(frame.seq for frame in frames), last_seq + 1):
        if seq > after + 1:
            lost.append((after + 1, seq - 1))
        after = max(after, seq)
    return lost


def plan_history(row: SessionRow, after: int, frames: Sequence[StoredFrame], deltas: Sequence[bytes]) -> HistoryPlan:
    """Divide frames (by seq) and, at the end, deltas into parts that fit in a message each (L-2, D-2).

    A lost range is in the same part as the frame after it, so that each part explains its own gaps.
    """
    lost = lost_after(after, frames, row.last_seq)
    room = MAX_MESSAGE_BYTES - ENVELOPE_BYTES
    parts = [HistoryPart([], [])]
    used = 0
    waiting = iter(lost)
    coming = next(waiting, None)

    def part_for(size: int) -> HistoryPart:
        nonlocal used
        if used and used + size > room:
            parts.append(HistoryPart([], []))
            used = 0
        used += size
        return parts[-1]

    for frame in frames:
        while coming is not None and coming[0] < frame.seq:
            part_for(RANGE_BYTES).lost.append(coming)
            coming = next(waiting, None)
        part_for(len(frame.raw) + 1).frames.append(frame.raw)
    while coming is not None:
        part_for(RANGE_BYTES).lost.append(coming)
        coming = next(waiting, None)
    for raw in deltas:
        part_for(len(raw) + 1).frames.append(raw)
    return HistoryPlan(row, parts, lost)


def encode_part(plan: HistoryPlan, number: int, message_id: str, timestamp: str) -> bytes:
    """Encode part `number` (from 0) as a message of at most MAX_MESSAGE_BYTES."""
    row, part = plan.row, plan.parts[number]
    count = sum(last - first + 1 for first, last in plan.lost)
    status = BufferStatus(policy_applied=row.policy, truncated=bool(plan.lost),
                          lost_frame_count=count if plan.lost else None, buffer_high_watermark=row.bytes_peak or None)
    metadata: dict[str, Any] = {"part": number + 1, "parts": len(plan.parts)}
    if part.lost:
        metadata["lost_ranges"] = part.lost
    if plan.lost and row.why_lost:
        metadata["place_lost"] = row.why_lost
    return encode(Frame(
        type="session.history",
        session_id=row.session_id,
        message_id=message_id,
        timestamp=timestamp,
        metadata=metadata,
        payload=History(
            frames=[msgspec.Raw(raw) for raw in part.frames],
            buffer_status=status,
            last_sync_timestamp=iso(row.last_sync_ms if row.acked_seq else row.created_ms),
            last_message_id=row.last_message_id if row.acked_seq else "",
        ),
    ))


def merged_deltas(
    pieces: Sequence[TransientText],
    template: Callable[[str, str], Frame | None],
    sent: Mapping[str, int],
    new_id: Callable[[], str],
    timestamp: str,
) -> list[TransientDelta]:
    """Make one transient frame for each piece, from the reader's position in `sent` (block → offset).

    A piece that does not continue the text before it carries `metadata.omitted`, the count of omitted code points
    (D-2). A block without a template was left open by an earlier run; its `.done` follows.
    """
    deltas: list[TransientDelta] = []
    ends = dict(sent)
    for piece in pieces:
        model = template(piece.session_id, piece.block)
        reached = ends.get(piece.block, 0)
        end = piece.offset + len(piece.text)
        if model is None or end <= reached:
            continue
        start = max(piece.offset, reached)
        metadata = {**model.metadata, "omitted": start - reached} if start > reached else model.metadata
        for text in split_text(piece.text[start - piece.offset :], MAX_BLOCK_BYTES):
            payload = cast("TextDelta | ToolStream", model.payload)
            frame = Frame(type=model.type, message_id=new_id(), session_id=piece.session_id, timestamp=timestamp,
                          metadata=metadata, payload=msgspec.structs.replace(payload, offset=start, text=text))
            start += len(text)
            deltas.append(TransientDelta(piece.session_id, piece.block, start, encode(frame)))
            metadata = {key: value for key, value in metadata.items() if key != "omitted"}
        ends[piece.block] = end
    return deltas
