"""What a decision asks for, as data: what is written, what viewers and the runner are sent."""

from __future__ import annotations

from typing import NamedTuple

from interlock.ports.ledger import Append, LedgerWrite
from interlock.protocol.envelope import Frame


class LaneTransient(NamedTuple):
    """A transient frame that goes to viewers and nowhere else (E-4)."""

    raw: bytes
    frame: Frame


class LaneEvent(NamedTuple):
    """An event that viewers are sent once it is durable, and the runner's frame that it holds, if it is one."""

    event: Append
    frame: Frame | None


class Out(NamedTuple):
    """What a decision asks for: objects that must be kept first, writes in one transaction, then what is published,
    then control frames to the runner.

    `published` has what the writes append and the transient frames, in the order in which viewers see them.
    """

    writes: list[LedgerWrite]
    published: list[LaneEvent | LaneTransient]
    sends: list[bytes]
    objects: list[bytes]
    faults: list[str]
    """Why the runner's link is to be closed, if it is."""
