"""Lost frames ahead of a link's position: what a reported range covers, what is forgotten, and what one more costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.gateway.link.lost_ranges import LostRanges

RANGES = st.lists(st.tuples(st.integers(-2, 30), st.integers(-2, 30)), max_size=12)


class Compared(int):
    """A number that counts its comparisons."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        Compared.count += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Compared.count += 1
        return int(self) <= int(other)

    __hash__ = int.__hash__


@pytest.mark.req("D-3")
@given(RANGES, st.lists(st.integers(1, 32), max_size=8))
def test_the_next_number_is_the_first_that_no_range_covers(ranges: list[tuple[int, int]], asked: list[int]) -> None:
    covered = {seq for first, last in ranges if first >= 1 for seq in range(first, last + 1)}
    lost = LostRanges()
    lost.add("s", ranges)
    for seq in sorted(set(asked)):
        wanted = next(number for number in range(seq, 64) if number not in covered)
        assert lost.after("s", seq) == lost.after("s", seq) == wanted
        lost.pass_to("s", seq)
    lost.pass_to("s", 30)
    assert len(lost) == 0
    assert "s" not in lost


@pytest.mark.req("D-3")
def test_sessions_are_counted_together_and_apart() -> None:
    lost = LostRanges()
    lost.add("s", [(2, 3), (5, 5), (5, 9)])
    lost.add("t", [(1, 1), (9, 8)])
    lost.add("u", [(0, 4)])
    assert (len(lost), "u" in lost) == (4, False)
    assert (lost.after("s", 5), lost.after("t", 2), lost.after("u", 1)) == (10, 2, 1)
    assert len(lost) == 1
    assert "t" not in lost


@pytest.mark.req("D-3", "L-2")
def test_one_more_range_is_not_compared_with_all_others() -> None:
    lost = LostRanges()
    lost.add("s", [(Compared(first), Compared(first)) for first in range(2, 20_000, 2)])
    Compared.count = 0
    lost.add("s", [(Compared(3), Compared(3))])
    lost.pass_to("s", 1)
    assert lost.after("s", Compared(2)) == 5
    assert Compared.count < 500
