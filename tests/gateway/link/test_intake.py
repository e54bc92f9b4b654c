"""The next seq of each session: repetitions, gaps, and reported losses (E-3)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.gateway.link.intake import LOST_RANGES_MAX, Closing, FrameGap, Inflow


@pytest.mark.req("E-3")
def test_frames_of_a_session_are_accepted_in_order_and_once() -> None:
    inflow = Inflow()
    assert [inflow.next("s", seq) for seq in (1, 2, 2, 1, 3)] == [True, True, False, False, True]


@pytest.mark.req("E-3")
def test_a_frame_that_the_ledger_has_is_a_repetition() -> None:
    inflow = Inflow()
    inflow.expect("s", 8)
    assert [inflow.next("s", seq) for seq in (6, 7, 8)] == [False, False, True]


@pytest.mark.req("E-3")
def test_sessions_are_numbered_each_on_its_own() -> None:
    inflow = Inflow()
    assert inflow.next("s", 1)
    assert inflow.next("other", 1)
    with pytest.raises(FrameGap, match="session other: expected seq 2, got 3"):
        inflow.next("other", 3)
    assert inflow.next("s", 2)


@pytest.mark.req("E-3")
def test_a_gap_changes_nothing_and_the_missing_frame_is_still_accepted() -> None:
    inflow = Inflow()
    inflow.next("s", 1)
    with pytest.raises(FrameGap):
        inflow.next("s", 3)
    assert inflow.next("s", 2)
    assert inflow.next("s", 3)


@pytest.mark.req("E-3")
def test_the_same_gap_on_a_second_link_is_marked_as_repeated() -> None:
    gaps: set[tuple[str, int]] = set()
    for again in (False, True):
        with pytest.raises(FrameGap) as caught:
            Inflow(gaps).next("s", 2)
        assert (caught.value.session_id, caught.value.got, caught.value.again) == ("s", 2, again)


@pytest.mark.req("E-3")
def test_a_gap_that_the_reattach_filled_is_forgotten() -> None:
    gaps: set[tuple[str, int]] = set()
    with pytest.raises(FrameGap):
        Inflow(gaps).next("s", 2)
    repaired = Inflow(gaps)
    assert repaired.next("s", 1)
    assert repaired.next("s", 2)
    assert gaps == set()


@pytest.mark.req("E-3", "D-3")
def test_numbers_in_lost_ranges_are_not_a_gap() -> None:
    inflow = Inflow()
    inflow.lose("s", [(5, 6), (2, 3)])
    assert [inflow.next("s", seq) for seq in (1, 4, 7)] == [True, True, True]
    with pytest.raises(FrameGap):
        inflow.next("s", 9)


@pytest.mark.req("E-3", "D-3")
def test_neighbouring_ranges_are_merged_and_invalid_ones_ignored() -> None:
    inflow = Inflow()
    inflow.lose("s", [(3, 4), (1, 2), (9, 8), (0, 5), (-3, -1)])
    assert inflow.next("s", 5)
    other = Inflow()
    other.lose("s", [(3, 4)])
    with pytest.raises(FrameGap):
        other.next("s", 5)


@pytest.mark.req("E-3")
@given(st.lists(st.integers(1, 12), max_size=40), st.sets(st.integers(1, 12)))
def test_accepted_numbers_rise_and_skip_only_lost_ones(came: list[int], lost: set[int]) -> None:
    inflow = Inflow()
    inflow.lose("s", [(seq, seq) for seq in lost])
    taken: list[int] = []
    for seq in came:
        with contextlib.suppress(FrameGap):
            if inflow.next("s", seq):
                taken.append(seq)
    assert taken == sorted(set(taken))
    assert set(range(1, max(taken, default=0))) <= set(taken) | lost


@pytest.mark.req("E-3")
def test_the_next_frame_is_accepted_and_nothing_else_changes() -> None:
    gaps: set[tuple[str, int]] = set()
    inflow = Inflow(gaps)
    inflow.expect("s", 1)
    assert inflow.follows("s", 1)
    assert not inflow.follows("s", 1)
    assert not inflow.follows("s", 3)
    assert inflow.reached("s") == 1
    with pytest.raises(FrameGap):
        inflow.next("s", 3)
    assert inflow.follows("s", 2)
    assert not gaps
    inflow.lose("s", [(3, 4)])
    assert not inflow.follows("s", 3)
    assert inflow.next("s", 5)


@pytest.mark.req("E-3")
def test_a_forgotten_session_begins_at_its_newly_expected_number() -> None:
    inflow = Inflow()
    inflow.expect("s", 7)
    assert inflow.follows("s", 7)
    inflow.forget("s")
    assert not inflow.knows("s")
    assert not inflow.follows("s", 1)
    inflow.expect("s", 8)
    assert inflow.follows("s", 8)


@pytest.mark.req("E-3", "D-3")
def test_a_session_with_a_reported_loss_is_not_forgotten() -> None:
    inflow = Inflow()
    inflow.lose("s", [(1, 3)])
    inflow.expect("s", 1)
    inflow.forget("s")
    assert inflow.next("s", 4)


@pytest.mark.req("D-3", "L-2")
def test_lost_ranges_that_were_passed_are_forgotten_and_those_ahead_are_bounded() -> None:
    inflow = Inflow()
    inflow.lose("s", [(2, 3), (5, 5)])
    assert [inflow.next("s", seq) for seq in (1, 4, 6)] == [True, True, True]
    assert inflow.follows("s", 7)  # No range is left to look at.
    inflow.lose("s", [(2 * n, 2 * n) for n in range(100, 100 + LOST_RANGES_MAX)])
    with pytest.raises(Closing, match="lost_ranges"):
        inflow.lose("t", [(2, 2)])
