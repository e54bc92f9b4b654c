"""Each process of a run begins with another part of the test files."""

from __future__ import annotations

import pytest

from own_part import own_part_first


@pytest.mark.parametrize(("number", "order"), [(0, "abcdef"), (1, "defabc"), (2, "efabcd")])
def test_each_of_three_begins_a_third_further(number: int, order: str) -> None:
    assert own_part_first("abcdef", [10, 10, 10, 30, 20, 10], number, 3) == list(order)


def test_more_processes_than_folders_read_all_of_them() -> None:
    assert [own_part_first("ab", [1, 1], number, 4) for number in range(4)] == [
        ["a", "b"], ["b", "a"], ["b", "a"], ["a", "b"]]


def test_no_folder_is_nothing_to_read() -> None:
    assert own_part_first("", [], 1, 3) == []
