"""What a lane is fed with, and the runner's link as a lane sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from interlock.engine.bridge.lane import Lane
from interlock.ports.trips import Trips
from interlock.protocol.limits import RECENT_MESSAGE_IDS

UUID_CHARS, UUID_BYTES = 36, 16


class LaneRunnerLink(Protocol):
    """What a lane tells the runner with: never blocks; a link that cannot keep up closes itself."""

    def send(self, raw: bytes) -> None: ...

    def ack(self, session_id: str, seq: int) -> None: ...

    def forget(self, session_id: str) -> None:
        """The session's lane is dropped from memory: what comes of it next is held against the lane that is read."""
        ...

    def fail(self, sentence: str) -> None:
        """The ledger refused: close, so that the runner sends again."""
        ...


class Job(NamedTuple):
    """One input of a lane. `decide` may raise Problem before it changed anything."""

    decide: Callable[[Lane], Any]
    reply: asyncio.Future[Any] | None = None
    link: LaneRunnerLink | None = None
    """Set where the job attaches a link: once it is durable, all unconfirmed control frames go out on it (D-7)."""
    spent: Trips | None = None
    """Counts the round trips of the commit for the caller that waits for `reply`."""
    size_bytes: int = 0
    """What the job holds of a frame: bounds memory where frames are large."""


class RecentIds:
    """The last message ids of a session: a frame that comes again under another seq is applied once (section 2)."""

    def __init__(self, ids: list[str]) -> None:
        self._order: deque[str | bytes] = deque(map(_short, ids))
        self._known = set(self._order)

    def seen(self, message_id: str) -> bool:
        """Remember the id; tell whether it was known."""
        short = _short(message_id)
        if short in self._known:
            return True
        self._known.add(short)
        self._order.append(short)
        if len(self._order) > RECENT_MESSAGE_IDS:
            self._known.discard(self._order.popleft())
        return False


def _short(message_id: str) -> str | bytes:
    """A UUID as its 16 bytes: every lane in memory holds thousands of them. What is written otherwise stays itself."""
    if len(message_id) != UUID_CHARS or message_id[8:24:5] != "----":
        return message_id
    try:
        short = bytes.fromhex(message_id.replace("-", ""))
    except ValueError:
        return message_id
    return short if len(short) == UUID_BYTES else message_id
