"""Frames that a runner's buffer lost: reported to people once, on every surface (D-3, D-4, RAWP-DPS 7.1.1)."""

from __future__ import annotations

from interlock.engine.bridge.lane import Lane
from interlock.protocol.payloads import BufferStatus
from interlock.protocol.resources import Notice

FULL = "the runner's buffer was full"
"""The reason of a loss, unless the history states another."""


def report_loss(lane: Lane, count: int | None, why: str = FULL) -> None:
    """Notify every open stream of the session, and its command, of `count` lost frames; None for an unknown number."""
    lane.state.lost_frames += count or 0
    lost = "an unknown number of frames was lost" if count is None else f"{count} frames were lost"
    lane.notice(Notice(code="Truncated", lost_frame_count=count,
                       message=f"{lost} while the link was down: {why}"))


def report_truncation(
    lane: Lane, status: BufferStatus, ranges: list[tuple[int, int]], synced: str, *, profile: bool, why: str = FULL
) -> None:
    """Report the loss that the first part of a `session.history` declares.

    `ranges` are the seqs of `metadata.lost_ranges`, if there are any; `synced` is the history's `last_message_id`. A
    history that is sent again after a broken link is reported again only for what it lost beyond the first. In
    Interlock's profile (`profile`) this is known by seq: the reported count decreases as later frames arrive. Other
    clients may number only what they kept, so there a new `last_message_id` means a new loss.
    """
    state = lane.state
    count = status.lost_frame_count or sum(last - first + 1 for first, last in ranges)
    if not status.truncated and not ranges:
        return
    state.lose_up_to(max([state.lost_above, state.last_seq + 1, *(last for _, last in ranges)]))
    synced = synced or ("" if profile else f"seq {state.last_seq}")
    known = synced == state.lost_synced
    repeated = known and count == state.lost_count
    if not known and not profile:
        state.note_lost_ahead(0)
        state.lost_uncounted = False
    state.lost_synced, state.lost_count = synced, count
    if not count:
        if not state.lost_uncounted:
            state.lost_uncounted = True
            report_loss(lane, None, why)
        return
    fresh = count - state.lost_ahead
    if fresh > 0 and not repeated:
        state.note_lost_ahead(count)
        report_loss(lane, fresh, why)
