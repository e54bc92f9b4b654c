"""The lost frames that a runner has reported on one link, and has not passed yet (D-3)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush


class LostRanges:
    """Ranges (from, to) of seqs by session. To add one costs the logarithm of their number, in any order: a link that
    reports many must not delay the others."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[int, int]]] = {}
        """Ranges by their first number; they may overlap. No heap is empty."""
        self._count = 0

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._heaps

    def __len__(self) -> int:
        return self._count

    def add(self, session_id: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Record ranges of a session; those without a positive number in them are ignored."""
        for first, last in ranges:
            if 1 <= first <= last:
                heappush(self._heaps.setdefault(session_id, []), (first, last))
                self._count += 1

    def after(self, session_id: str, seq: int) -> int:
        """Return the first number from `seq` on that is not lost."""
        following = seq
        heap = self._heaps.get(session_id, [])
        while heap and heap[0][0] <= following:
            following = max(following, heappop(heap)[1] + 1)
            self._count -= 1
        if following > seq:  # One range instead of those that cover it: the same number may be asked for again.
            heappush(heap, (seq, following - 1))
            self._count += 1
        elif not heap:
            self._heaps.pop(session_id, None)
        return following

    def pass_to(self, session_id: str, reached: int) -> None:
        """Forget the ranges up to `reached`."""
        heap = self._heaps.get(session_id)
        if heap is None:
            return
        while heap and heap[0][1] <= reached:
            heappop(heap)
            self._count -= 1
        if not heap:
            del self._heaps[session_id]
