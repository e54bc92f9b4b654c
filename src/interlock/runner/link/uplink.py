"""The interface from the outflow to the link: frames and deltas that are written and may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from interlock.ports.outbox import StoredFrame


class TransientDelta(NamedTuple):
    """A transient frame whose text is in its pieces; `end` is the offset after its text, in code points."""

    session_id: str
    block: str
    end: int
    raw: bytes


class BlockClosed(NamedTuple):
    """A block was closed: its sent length need not be remembered."""

    session_id: str
    block: str


Offer = StoredFrame | TransientDelta | BlockClosed


class Uplink(Protocol):
    """Guarantee: `offer` never waits. What it cannot queue it drops, and reads from the outbox later."""

    def offer(self, offers: Sequence[Offer]) -> None: ...

    def forget(self, session_id: str) -> None:
        """Drop an ended session whose frames are all acknowledged: later offers of it begin again, after the
        acknowledgement."""
        ...
