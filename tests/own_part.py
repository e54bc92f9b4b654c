"""Which of the test files a process of a run reads first.

Every process reads them all. If all began with the same file, each would compile every file; this way each compiles a
part, and finds the other parts compiled when it comes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")


def own_part_first(folders: Sequence[T], sizes: Sequence[int], number: int, count: int) -> list[T]:
    """The folders, beginning with the part of process `number` of `count`; the sizes are their numbers of files."""
    before = [0, *accumulate(sizes)]
    start = next(at for at, read in enumerate(before) if read * count >= before[-1] * number)
    return [*folders[start:], *folders[:start]]
