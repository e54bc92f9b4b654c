"""Round trips to a store on a network, counted for the operation that waits for them.

An operation opens a scope with `counting`; whatever it awaits adds to it. What counts is the number *in a row*: reads
that run side by side are one. Stores in the same process or file add nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec


class Trips(msgspec.Struct):
    """What one operation has waited for so far."""

    in_a_row: int = 0
    """Round trips of which each began after the one before had ended."""
    statements: int = 0
    """All round trips, those side by side too."""
    commits: int = 0
    """Transactions that were committed."""

    def ended(self, begun_at: int, other: Trips) -> None:
        """Add what was awaited from the moment at which `in_a_row` was `begun_at`."""
        self.in_a_row = max(self.in_a_row, begun_at + other.in_a_row)
        self.statements += other.statements
        self.commits += other.commits


CURRENT: ContextVar[Trips | None] = ContextVar("interlock_trips", default=None)
"""The count of the operation that runs; None outside of one."""


@contextmanager
def counting() -> Generator[Trips]:
    """Count what is awaited inside, for this operation alone."""
    trips = Trips()
    token = CURRENT.set(trips)
    try:
        yield trips
    finally:
        CURRENT.reset(token)


@contextmanager
def one_trip() -> Generator[None]:
    """Count what is awaited inside as one round trip."""
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
