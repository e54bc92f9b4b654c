"""Queries of usage, and their results (J-13)."""

from __future__ import annotations

from typing import NamedTuple

from interlock.protocol.records import UsageRecord
from interlock.protocol.resources import UsageDimension


class UsageQuery(NamedTuple):
    """Which days' usage is summed, and how it is grouped. Days count from 1970-01-01, UTC, the last one included."""

    tenant_id: str
    first_day: int
    last_day: int
    by: frozenset[UsageDimension] = frozenset()
    agent_id: str | None = None
    model: str | None = None
    session_id: str | None = None
    person: str | None = None
    limit: int = 100


class UsageSums(NamedTuple):
    """The sums, the newest day first, then the most tokens; the number of all groups, and the sum over all of them."""

    records: list[UsageRecord]
    places: int
    total: UsageRecord
