"""Changes of a row that is read and written back, one at a time also if several gateways work on the ledger (K-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from interlock.ports.ledger import Fenced, LaneName, Ledger
from interlock.protocol.problems import Problem

TRIES = 5
"""Attempts of one change; another gateway's change during one of them ends it."""
T = TypeVar("T")
Lanes = Sequence[tuple[LaneName, int]]


class ExclusiveChanges:
    """The changes of one kind of rows. Without them a key that one gateway revokes while another rotates it would be
    valid again, with a new secret."""

    def __init__(self, ledger: Ledger, kind: str) -> None:
        self._ledger = ledger
        self._lane = LaneName("", f"duty/{kind}")
        self._own = asyncio.Lock()

    async def make(self, change: Callable[[Lanes], Awaitable[T]]) -> T:
        """Run `change`, which reads the row and commits with the lanes it is passed: again, if another change was made
        in between. Raises Problem Unavailable, and what `change` raises."""
        async with self._own:
            for _ in range(TRIES):
                epoch = await self._ledger.take(self._lane)
                with suppress(Fenced):
                    return await change([(self._lane, epoch)])
        raise Problem("Unavailable", "Other gateways make changes of this kind at the same time.",
                      hint="Nothing was changed; send the request again.", headers={"Retry-After": "1"})
