"""How often many viewers of one stream are told: the first thing after quiet at once, what follows soon together (S-4).

To wake a viewer and write to it takes the same time for one event as for ten. Where hundreds watch one busy stream,
a write for each event would keep the gateway from all else, and everybody would fall behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from interlock.engine.stream_items import Item, coalesced
from interlock.protocol.limits import KIB

PACE_A_VIEWER_S = 0.0002
"""Between two writes a stream rests so long for each of its viewers: some three times what the writes take."""
PACE_MIN_S = 0.005
"""Less than this, which is up to 25 viewers, is not waited."""
PACE_MAX_S = 0.1
"""No event waits longer than this for those that go with it."""
PACE_BYTES = 256 * KIB
"""So much goes out at once, however soon."""


class NotificationPace:
    """Gathers what is told to one stream, and gives it on in order. `deliver` is called with one burst at a time."""

    def __init__(self, deliver: Callable[[Sequence[Item]], None]) -> None:
        self._deliver = deliver
        self._waiting: list[Item] = []
        self._bytes = 0
        self._window_s = 0.0
        self._open_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def take(self, items: Sequence[Item], viewers: int) -> None:
        """Deliver now, or with what comes within the window of so many viewers."""
        self._window_s = min(viewers * PACE_A_VIEWER_S, PACE_MAX_S)
        if self._timer is None and self._window_s < PACE_MIN_S:
            self._deliver(items)
            return
        loop = asyncio.get_running_loop()
        if self._timer is None:
            now = loop.time()
            if now >= self._open_at:
                self._open_at = now + self._window_s
                self._deliver(items)
                return
            self._timer = loop.call_at(self._open_at, self.flush)
        self._waiting.extend(items)
        self._bytes += sum([len(item.body) for item in items])
        if self._bytes > PACE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Deliver what waits; neighbouring deltas of one block have become one."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._open_at = asyncio.get_running_loop().time() + self._window_s
        self._deliver(coalesced(waiting))

    def forget(self) -> None:
        """Drop what waits: no one is there any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting, self._bytes = [], 0
