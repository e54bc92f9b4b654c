"""What operators ask of a ledger: how much is in it, and that it forgets what is old (G-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Counts(NamedTuple):
    """How much of what a ledger has now, of all tenants together."""

    commands: Mapping[str, int]
    """By state, those that are not at their end."""
    approvals: Mapping[str, int]
    """By state, `pending` and `granted`."""
    deliveries: Mapping[str, int]
    """By state, `pending` and `dead`."""
    sessions: int


class Upkeep(Protocol):
    """Beside the guarantees of the ledger: none of this holds its writer for long."""

    async def counts(self) -> Counts: ...
