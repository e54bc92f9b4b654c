"""The thread that renews an instance, with a loop and a connection of its own (C-4).

The gateway's loop requests each renewal. While that loop is too busy to do so, the thread renews for it: a late gateway
is not dead, and taking over its lanes would move the same load to the others. A loop that does not run at all is
abandoned after BUSY_LIMIT_S, and a suspended process renews nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import structlog

from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.lease_renewal import Renewing
from interlock.ports.leases import RENEW_EVERY_MS
from interlock.ports.ledger import LedgerError

BUSY_LIMIT_S = 10.0
"""Time since the gateway's loop last ran, after which the thread no longer renews for it."""
LATE_S = 1.5 * RENEW_EVERY_MS / 1000
"""A renewal is late when the last one is this old."""
LOOK_S = 0.1
"""Interval at which the thread checks whether one is late."""
TURN_S = 0.25
"""A loop that takes longer than this to run a callback is busy."""
T = TypeVar("T")
log = structlog.get_logger("interlock.cluster")


class _Asked(NamedTuple):
    """The last request of the gateway's loop, by the clock of the thread's loop."""

    instance_id: str
    life_ms: int
    at_s: float


class RenewalThread:
    """The owner of that thread. Created and used on the gateway's loop; call `open` first."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._renewing = Renewing(settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="lease renewal", daemon=True)
        self._gateway: asyncio.AbstractEventLoop | None = None
        self._asked: _Asked | None = None
        self._renewed_s = self._turned_s = 0.0
        self._watch: asyncio.Task[None] | None = None
        self._ending = False

    async def open(self) -> None:
        """Connect before the first renewal is due. Raises asyncpg's exceptions."""
        self._gateway = asyncio.get_running_loop()
        self._thread.start()
        await self._there(self._begin())

    async def renew(self, instance_id: str, life_ms: int) -> bool:
        """Extend the instance's life to `life_ms` from now; False if the row has expired. Raises LedgerError."""
        return await self._there(self._renew(instance_id, life_ms))

    async def close(self) -> None:
        """Close the connection and end the thread. May be called again, and without `open`."""
        if self._thread.is_alive():
            await self._there(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # --- on the thread's loop ---
    async def _begin(self) -> None:
        await self._renewing.open()
        self._watch = asyncio.create_task(self._keep(), name="renewing for a busy gateway")

    async def _renew(self, instance_id: str, life_ms: int) -> bool:
        self._asked = _Asked(instance_id, life_ms, self._loop.time())
        return await self._once(instance_id, life_ms)

    async def _once(self, instance_id: str, life_ms: int) -> bool:
        asked_s = self._loop.time()
        is_alive = await self._renewing.renew(instance_id, life_ms)
        self._renewed_s = asked_s
        return is_alive

    async def _keep(self) -> None:
        """Renew for the gateway while its loop is busy."""
        while not self._ending:
            await asyncio.sleep(LOOK_S)
            renewal, now_s = self._asked, self._loop.time()
            if renewal is None or now_s < self._renewed_s + LATE_S:
                continue
            if now_s > max(renewal.at_s, self._turned_s) + BUSY_LIMIT_S:
                continue
            if await self._turns() or renewal is not self._asked:
                continue
            try:
                await self._once(renewal.instance_id, renewal.life_ms)
            except LedgerError:
                pass  # The gateway's own renewal finds the same, and reports it.
            except Exception:
                log.exception("lease_not_renewed")

    async def _turns(self) -> bool:
        """Return whether the gateway's loop runs a callback within TURN_S; it will then request a renewal itself."""
        turned = asyncio.Event()

        def note() -> None:
            self._turned_s = self._loop.time()
            turned.set()

        assert self._gateway is not None, "the thread is started from it"
        try:
            self._gateway.call_soon_threadsafe(self._loop.call_soon_threadsafe, note)
        except RuntimeError:  # It is closed.
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_S):
                await turned.wait()
        return turned.is_set()

    async def _end(self) -> None:
        self._ending = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._renewing.close()
