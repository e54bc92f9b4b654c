"""Pages of rows that match a filter that the ledger does not support: a bounded number of rows is read and tested per
request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")

SCAN_PAGE = 200
"""Rows that are read at a time."""
SCAN_MAX = 2_000
"""Maximum rows that one request reads. A page may therefore have fewer items than requested, or none, and still have a
next one."""


async def scan(read: Callable[[P | None, int], Awaitable[Sequence[T]]], place: Callable[[T], P],
               fits: Callable[[T], bool] | None, start: P | None, limit: int) -> tuple[list[T], P | None]:
    """Return at most `limit` matching rows, in the order in which `read` returns them after a position, and the
    position after which there may be more, None if there are none. Without `fits` every row matches."""
    if fits is None:
        rows = await read(start, limit + 1)
        return list(rows[:limit]), place(rows[limit - 1]) if len(rows) > limit else None
    found: list[T] = []
    at = start
    for _ in range(SCAN_MAX // SCAN_PAGE):
        rows = await read(at, SCAN_PAGE)
        for row in rows:
            if fits(row):
                if len(found) == limit:
                    return found, at
                found.append(row)
            at = place(row)
        if len(rows) < SCAN_PAGE:
            return found, None
    return found, at


def contains(wanted: str, *texts: str | None) -> bool:
    """Return whether one of the texts contains `wanted`, ignoring case."""
    return any(wanted.casefold() in text.casefold() for text in texts if text)
