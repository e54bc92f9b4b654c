"""Retention and losses of an outbox: by policy and type, lost numbers as ranges, and a channel's head and tail."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import (
    HALF_CHANNEL_BYTES,
    PIECE_ROW_BYTES,
    ChannelKeep,
    add_lost,
    count_lost,
    merge_pieces,
    piece_rows,
    refuses,
    trim_lost,
)
from interlock.ports.outbox import TransientText


@pytest.mark.req("D-3")
@pytest.mark.parametrize(("policy", "kind", "size", "detached", "refused"), [
    ("RING", "agent.text.done", 2_000, True, False),  # It evicts what is older instead.
    ("NONE", "agent.text.done", 10, True, True), ("NONE", "agent.text.done", 10, False, False),
    ("NONE", "agent.text.done", 2_000, False, True), ("NONE", "session.turn.end", 2_000, True, False),
    ("DROP", "agent.text.done", 10, True, False), ("DROP", "agent.text.done", 2_000, False, True),
])
def test_only_content_is_refused_and_only_by_a_refusing_policy(
        policy: Any, kind: str, size: int, detached: bool, refused: bool) -> None:
    assert refuses(policy, kind, size, 1_000, detached=detached) is refused


@given(st.lists(st.integers(1, 40), unique=True), st.integers(0, 45))
def test_lost_numbers_are_the_fewest_ranges_without_acknowledged_ones(lost: list[int], acked: int) -> None:
    ranges: bounds.Ranges = []
    for seq in lost:
        add_lost(ranges, seq)

    covered = [seq for first, last in ranges for seq in range(first, last + 1)]
    assert covered == sorted(lost)
    assert count_lost(ranges) == len(lost)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))
    left = trim_lost(ranges, acked)
    assert [seq for first, last in left for seq in range(first, last + 1)] == sorted(s for s in lost if s > acked)


@pytest.mark.req("E-5")
def test_a_channel_keeps_its_head_and_a_sliding_tail() -> None:
    keep, step = ChannelKeep(), HALF_CHANNEL_BYTES // 4
    dropped = [row for at in range(20) for row in keep.admit(at, step)]

    assert dropped == list(range(4, 16))  # Rows 0 to 3 are the head, the last four the tail.


def test_a_channels_piece_is_cut_into_rows_that_join_again_and_a_text_is_one_row() -> None:
    text = "é" * PIECE_ROW_BYTES
    rows = piece_rows(TransientText("s", "i1/stdout", 5, text))

    assert len(rows) > 1
    assert rows[0].offset == 5
    assert merge_pieces(rows) == [TransientText("s", "i1/stdout", 5, text)]
    assert piece_rows(TransientText("s", "b1", 5, text)) == [TransientText("s", "b1", 5, text)]


def test_a_rows_repetition_is_dropped_and_a_gap_begins_another_piece() -> None:
    rows = [TransientText("s", "b", 0, "abc"), TransientText("s", "x", 0, "x"), TransientText("s", "b", 2, "cd"),
            TransientText("s", "b", 9, "z")]

    assert merge_pieces(rows) == [TransientText("s", "b", 0, "abcd"), TransientText("s", "b", 9, "z"),
                                  TransientText("s", "x", 0, "x")]
    assert merge_pieces([]) == []
