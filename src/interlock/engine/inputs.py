"""An input on its way to its lane, and the runner's link as a lane sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from interlock.engine.bridge.inputs import LaneInput
from interlock.ports.ledger import LedgerWrite
from interlock.ports.trips import Trips


class LaneRunnerLink(Protocol):
    """What a lane sends to the runner with: never blocks; a link that cannot keep up closes itself."""

    def send(self, raw: bytes) -> None: ...

    def ack(self, session_id: str, seq: int) -> None: ...

    def forget(self, session_id: str) -> None:
        """The session's lane is dropped from memory: what comes of it next is held against the lane that is read."""
        ...

    def fail(self, sentence: str) -> None:
        """The ledger refused: close, so that the runner sends again."""
        ...


Keep = Callable[[Any], Iterable[LedgerWrite]]
"""Returns what is to be stored with an answer, such as the row that answers a repeated request."""


class Job(NamedTuple):
    """One input that waits for its lane, and what becomes of the answer."""

    input: LaneInput
    reply: asyncio.Future[Any] | None = None
    keep: Keep | None = None
    """Adds to the transaction that the answer is of; not asked where the answer is None or a Problem."""
    link: LaneRunnerLink | None = None
    """Set where the job attaches a link: once it is durable, all unconfirmed control frames go out on it (D-7)."""
    spent: Trips | None = None
    """Counts the round trips of the commit for the caller that waits for `reply`."""
    size_bytes: int = 0
    """What the job holds of a frame: bounds memory where frames are large."""
