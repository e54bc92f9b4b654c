"""Sessions that are read because of a clock: timers for those that are due later, and a queue of those that are due."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import suppress

import structlog

from interlock.ports.ledger import LaneName
from interlock.ports.stored_lanes import SessionClock

LONGEST_ALARM_S = 3_600.0
READ_TOGETHER = 64
"""Lanes that are read together, in the round trips of one."""
READ_AT_ONCE = 3
"""Number of such reads in parallel: connections stay free for people's requests."""
AGAIN_S = 5.0
"""Delay before a session is read again whose reading failed for its own reason."""
log = structlog.get_logger("interlock.engine")


class DueSessions:
    """A queue that calls `read` with due sessions, a few at a time in order of arrival.

    `read` handles a failing ledger itself. Any other exception loses no session: those that were read together are read
    one by one, so that an unreadable one does not stop the others, and it is due again after AGAIN_S.
    """

    def __init__(self, read: Callable[[Sequence[LaneName]], Awaitable[None]]) -> None:
        self._read = read
        self._alarms: dict[LaneName, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unread: deque[LaneName] = deque()
        """Sessions that are due and whose reading has not begun."""
        self._clocks: dict[LaneName, SessionClock] = {}
        """Of sessions that are due, as they were read a moment ago."""
        self._reading = 0
        self._fewer = asyncio.Event()
        """Set whenever the queue becomes shorter."""

    def wake(self, lane: LaneName, delay_s: float) -> None:
        """Read a session after a delay; an earlier timer of it is dropped."""
        before = self._alarms.pop(lane, None)
        if before is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._alarms[lane] = loop.call_later(min(delay_s, LONGEST_ALARM_S), self._alarm, lane)

    def _alarm(self, lane: LaneName) -> None:
        self._alarms.pop(lane, None)
        self.read_soon([lane])

    def read_soon(self, lanes: Iterable[LaneName]) -> None:
        """Read sessions, in this order."""
        self._unread.extend(dict.fromkeys(lanes))
        while self._unread and self._reading < READ_AT_ONCE:
            self._reading += 1
            task = asyncio.create_task(self._read_unread())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def read_claimed(self, clock: SessionClock) -> None:
        """Queue a session that is due; its clock is not read again."""
        self._clocks[clock.lane] = clock
        self.read_soon([clock.lane])

    def take_clocks(self, lanes: Iterable[LaneName]) -> dict[LaneName, SessionClock]:
        """Return the clocks that were read a moment ago; each is returned once."""
        found = ((one, self._clocks.pop(one, None)) for one in lanes)
        return {one: clock for one, clock in found if clock is not None}

    async def _read_unread(self) -> None:
        try:
            while self._unread:
                count = min(READ_TOGETHER, len(self._unread))
                lanes = list(dict.fromkeys(self._unread.popleft() for _ in range(count)))
                self._fewer.set()
                await self._read_each(lanes)
        finally:
            self._reading -= 1

    async def _read_each(self, lanes: Sequence[LaneName]) -> None:
        """Read sessions together, or one by one if that fails."""
        try:
            await self._read(lanes)
        except Exception:
            log.exception("due_sessions_not_read", session_ids=[one.name for one in lanes])
            if len(lanes) == 1:
                self.wake(lanes[0], AGAIN_S)
                return
            for one in lanes:
                await self._read_each([one])

    def unread(self) -> int:
        """Return how many sessions wait to be read."""
        return len(self._unread)

    async def fewer_unread(self, limit: int, within_s: float) -> None:
        """Return once fewer sessions than `limit` wait to be read, after `within_s` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.unread() >= limit:
                    self._fewer.clear()
                    await self._fewer.wait()

    def put_off(self, lanes: Container[LaneName]) -> list[LaneName]:
        """Remove those of these sessions that wait to be read; returns each once."""
        put_off = list(dict.fromkeys(one for one in self._unread if one in lanes))
        self._unread = deque(one for one in self._unread if one not in lanes)
        self._fewer.set()
        self.take_clocks(put_off)
        return put_off

    async def settled(self) -> None:
        """Return when every session that is due has been read."""
        while self._unread or self._reading:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Stop reading."""
        for alarm in self._alarms.values():
            alarm.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
