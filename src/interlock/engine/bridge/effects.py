"""The effects of a decision, as data: writes, and messages for viewers and the runner."""

from __future__ import annotations

from typing import NamedTuple

from interlock.ports.ledger import Append, LedgerWrite
from interlock.protocol.envelope import Frame


class LaneTransient(NamedTuple):
    """A transient frame for viewers only (E-4)."""

    raw: bytes
    frame: Frame


class LaneEvent(NamedTuple):
    """An event for viewers once it is durable, and the runner's frame in it, if any."""

    event: Append
    frame: Frame | None


class Out(NamedTuple):
    """The effects of a decision: objects to store first, writes in one transaction, then events to publish, then
    control frames to the runner.

    `published` holds what the writes append and the transient frames, in the order in which viewers see them.
    """

    writes: list[LedgerWrite]
    published: list[LaneEvent | LaneTransient]
    sends: list[bytes]
    objects: list[bytes]
    faults: list[str]
    """Reasons to close the runner's link, if any."""
