"""What the outflow tells the link: frames and deltas that are written and may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from interlock.ports.outbox import StoredFrame


class TransientDelta(NamedTuple):
    """A transient frame whose text is in its pieces; `end` is the offset behind its text, in code points."""

    session_id: str
    block: str
    end: int
    raw: bytes


class BlockClosed(NamedTuple):
    """A block was closed: what was sent of it need not be remembered."""

    session_id: str
    block: str


Offer = StoredFrame | TransientDelta | BlockClosed


class Uplink(Protocol):
    """Guarantee: `offer` never waits. What it cannot take it lets fall, and reads from the outbox later."""

    def offer(self, offers: Sequence[Offer]) -> None: ...

    def forget(self, session_id: str) -> None:
        """The session is over and wholly told: what is offered of it later begins again, behind what is
        acknowledged."""
        ...
