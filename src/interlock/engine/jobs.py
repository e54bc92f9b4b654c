"""What a lane is fed with, and the runner's link as a lane sees it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from interlock.engine.bridge.lane import Lane
from interlock.protocol.limits import RECENT_MESSAGE_IDS


class RunnerLink(Protocol):
    """What a lane tells the runner with: never blocks; a link that cannot keep up closes itself."""

    def send(self, raw: bytes) -> None: ...

    def ack(self, session_id: str, seq: int) -> None: ...

    def fail(self, sentence: str) -> None:
        """The ledger refused: close, so that the runner sends again."""
        ...


class Job(NamedTuple):
    """One input of a lane. `decide` may raise Problem before it changed anything."""

    decide: Callable[[Lane], Any]
    reply: asyncio.Future[Any] | None = None
    link: RunnerLink | None = None
    """Set where the job attaches a link: once it is durable, all unconfirmed control frames go out on it (D-7)."""
    size_bytes: int = 0
    """What the job holds of a frame: bounds memory where frames are large."""


class RecentIds:
    """The last message ids of a session: a frame that comes again under another seq is applied once (section 2)."""

    def __init__(self, ids: list[str]) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict.fromkeys(ids)

    def seen(self, message_id: str) -> bool:
        """Remember the id; tell whether it was known."""
        if message_id in self._ids:
            return True
        self._ids[message_id] = None
        if len(self._ids) > RECENT_MESSAGE_IDS:
            self._ids.popitem(last=False)
        return False
