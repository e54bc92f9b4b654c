"""Counting of round trips to a networked store, for the operation that waits for them.

An operation opens a scope with `counting`; whatever it awaits adds to it. The number *in a row* is what matters:
parallel reads are one. Stores in the same process or file add nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec


class Trips(msgspec.Struct):
    """The round trips that one operation has waited for."""

    in_a_row: int = 0
    """Round trips that each began after the previous one had ended."""
    statements: int = 0
    """All round trips, including parallel ones."""
    commits: int = 0
    """Transactions that were committed."""

    def ended(self, begun_at: int, other: Trips) -> None:
        """Add the round trips that were awaited since `in_a_row` was `begun_at`."""
        self.in_a_row = max(self.in_a_row, begun_at + other.in_a_row)
        self.statements += other.statements
        self.commits += other.commits


CURRENT: ContextVar[Trips | None] = ContextVar("interlock_trips", default=None)
"""The count of the running operation; None outside of one."""


@contextmanager
def counting() -> Generator[Trips]:
    """Count the round trips awaited inside, for this operation only."""
    trips = Trips()
    token = CURRENT.set(trips)
    try:
        yield trips
    finally:
        CURRENT.reset(token)


@contextmanager
def one_trip() -> Generator[None]:
    """Count all round trips awaited inside as one."""
    trips = CURRENT.get()
    if trips is None:
        yield
        return
    begun_at = trips.in_a_row
    try:
        yield
    finally:
        trips.in_a_row = max(trips.in_a_row, begun_at + 1)
        trips.statements += 1
