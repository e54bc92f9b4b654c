"""Simulated time: an event loop whose clock jumps to the next timer, and gateways that can be stopped."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Coroutine
from typing import Any

NOW_MS = 1_800_000_000_000
"""When a simulation begins, in milliseconds since 1970."""
PLACE: contextvars.ContextVar[Place | None] = contextvars.ContextVar("place", default=None)
"""The gateway that a piece of code runs in; None in the world around."""


class NothingScheduled(RuntimeError):
    """No callback is ready and no timer is set: the awaited event never happens."""


class Place:
    """What of one gateway the loop must know: whether it runs, and all that it has under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.standing = False
        self.parked: deque[Any] = deque()
        """Callbacks that are due during the pause."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.context = contextvars.copy_context()
        self.context.run(PLACE.set, self)

    def start(self, doing: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have it done in this place."""
        return asyncio.get_running_loop().create_task(doing, context=self.context.copy())


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs what is ready, in the order in which it became so; then it is the time of the next timer."""

    # What the loop of the standard library keeps, which are not public: the ready callbacks, and a heap of timers.
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self._at_s = 0.0
        self.turns = 0
        self.set_task_factory(_task)  # pyright: ignore[reportArgumentType]

    def time(self) -> float:
        return self._at_s

    def wake(self, place: Place) -> None:
        """Resume a paused host."""
        place.standing = False
        self._ready.extend(place.parked)
        place.parked.clear()

    def _run_once(self) -> None:
        # The whole of the loop: nothing in a simulation waits for a socket.
        ready, timers = self._ready, self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not ready:
            if not timers:
                raise NothingScheduled("nothing is ready and no timer is set")
            self._at_s = max(self._at_s, timers[0]._when)
        while timers and timers[0]._when <= self._at_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            place = handle._context.get(PLACE)
            if place is not None and place.standing:
                place.parked.append(handle)
                continue
            self.turns += 1
            handle._run()


def _task(loop: asyncio.AbstractEventLoop, doing: Coroutine[Any, Any, Any],
          context: contextvars.Context | None = None) -> asyncio.Task[Any]:
    task = asyncio.Task(doing, loop=loop, context=context)
    place = context.get(PLACE) if context is not None else PLACE.get()
    if place is not None:
        place.tasks[task] = None
        task.add_done_callback(lambda done: place.tasks.pop(done, None))
    return task


class SimulatedClock:
    """The wall time of one host: that of the loop with an offset."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return NOW_MS + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)
