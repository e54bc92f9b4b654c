"""Inputs queued for a lane, and the runner's link as a lane sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from interlock.engine.bridge.inputs import LaneInput
from interlock.ports.ledger import LedgerWrite
from interlock.ports.trips import Trips


class LaneRunnerLink(Protocol):
    """The sender of a lane to its runner: it never blocks; a link that cannot keep up closes itself."""

    def send(self, raw: bytes) -> None: ...

    def ack(self, session_id: str, seq: int) -> None: ...

    def forget(self, session_id: str) -> None:
        """Record that the session's lane is evicted: its next frame is compared with the lane that is read."""
        ...

    def fail(self, sentence: str) -> None:
        """Close after a failed write, so that the runner resends."""
        ...


Keep = Callable[[Any], Iterable[LedgerWrite]]
"""Returns what to store with an answer, such as the row that answers a repeated request."""


class Job(NamedTuple):
    """An input that waits for its lane, and the handling of its answer."""

    input: LaneInput
    reply: asyncio.Future[Any] | None = None
    keep: Keep | None = None
    """Adds to the answer's transaction; not called if the answer is None or a Problem."""
    link: LaneRunnerLink | None = None
    """Set if the job attaches a link: once it is durable, all unconfirmed control frames are sent on it (D-7)."""
    spent: Trips | None = None
    """Counts the round trips of the commit for the caller that waits for `reply`."""
    size_bytes: int = 0
    """Size of the frame that the job holds: it bounds memory if frames are large."""
