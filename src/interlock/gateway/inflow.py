"""Pure: which seq comes next on a link, per session; what is a repetition, what a gap (E-3)."""

from __future__ import annotations

GAPS_KEPT = 1_024
"""Gaps that may come again, over all links; a runner that makes more of them has them told as new."""


class FrameGap(Exception):
    """A durable frame's seq left a gap. `again`: the same gap came a second time on this gateway."""

    def __init__(self, session_id: str, expected: int, got: int, *, again: bool) -> None:
        super().__init__(f"session {session_id}: expected seq {expected}, got {got}")
        self.session_id = session_id
        self.expected = expected
        self.got = got
        self.again = again


class Inflow:
    """The expected seq of each session on one link."""

    def __init__(self, gaps: set[tuple[str, int]] | None = None) -> None:
        self._expected: dict[str, int] = {}
        self._lost: dict[str, list[tuple[int, int]]] = {}
        self._unplaced: set[str] = set()
        self._gaps: set[tuple[str, int]] = set() if gaps is None else gaps

    def expect(self, session_id: str, seq: int) -> None:
        """The gateway has all below `seq`."""
        self._expected[session_id] = seq

    def knows(self, session_id: str) -> bool:
        """Whether it was told where the session stands, or took a frame of it, since it last forgot it."""
        return session_id in self._expected

    def forget(self, session_id: str) -> None:
        """Nothing of the session is under way: anyone who hears of it next says where it stands."""
        if session_id not in self._lost:
            self._expected.pop(session_id, None)

    def reached(self, session_id: str) -> int:
        """The last seq that was taken, or that the gateway had."""
        return self._expected.get(session_id, 1) - 1

    def lose(self, session_id: str, ranges: list[tuple[int, int]]) -> None:
        """Ranges (from, to) that the runner says are lost: a gap that they cover is none (D-3)."""
        known = self._lost.setdefault(session_id, [])
        known += [(first, last) for first, last in ranges if 1 <= first <= last]
        known.sort()

    def lose_unplaced(self, session_id: str) -> None:
        """Frames are lost, and the runner does not say which: a gap in its history, and before the first live frame
        that follows the history, is that loss (D-3)."""
        self._unplaced.add(session_id)

    def went_live(self, session_id: str) -> None:
        """The history is over, and a live frame has come: from here on a gap is a fault again."""
        self._unplaced.discard(session_id)

    @property
    def loses_unplaced(self) -> bool:
        """Whether gaps are expected in some session."""
        return bool(self._unplaced)

    def follows(self, session_id: str, seq: int) -> bool:
        """Take the frame that simply follows, which nearly all do; else False, with nothing changed: ask `next`."""
        if self._expected.get(session_id) != seq or session_id in self._lost:
            return False
        if self._gaps:
            self._gaps.discard((session_id, seq))
        self._expected[session_id] = seq + 1
        return True

    def next(self, session_id: str, seq: int) -> bool:
        """Whether a frame is the next one; False for a repetition. A gap that is filled is forgotten. Raises Gap."""
        expected = self._expected.get(session_id, 1)
        if seq < expected:
            return False
        for first, last in self._lost.get(session_id, ()):
            if first <= expected <= last:
                expected = last + 1
        if seq > expected and session_id not in self._unplaced:
            again = (session_id, expected) in self._gaps
            if len(self._gaps) >= GAPS_KEPT:
                self._gaps.clear()
            self._gaps.add((session_id, expected))
            raise FrameGap(session_id, expected, seq, again=again)
        self._gaps.discard((session_id, expected))
        self._expected[session_id] = seq + 1
        return True
