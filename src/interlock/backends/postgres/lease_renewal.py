"""The connection on which an instance is renewed, and which is used for nothing else (C-4).

A renewal is one statement and one round trip. It waits for no transaction of this gateway: it has a connection of its
own, no other transaction locks its row, and it does not wait for the disk. A renewal that a crash of the server loses
makes a lease shorter, never longer, and epochs fence either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeAlias

from interlock.backends.postgres.database import PostgresConnection, PostgresSettings, close_quietly, connect, shown
from interlock.backends.postgres.faults import LINK_FAULTS, DatabaseUnavailable, is_away, translate, why_away
from interlock.backends.postgres.texts import encoded
from interlock.ports.leases import INSTANCE_LIFE_MS

RENEW_TIMEOUT_S = INSTANCE_LIFE_MS / 3_000
"""A renewal without an answer by then is also sent on another connection."""
RECONNECT_TIMEOUT_S = INSTANCE_LIFE_MS / 2_000
"""Both are abandoned after this. Opening a connection takes some eight round trips."""
Renewed: TypeAlias = tuple[PostgresConnection, bool]
"""The connection that received the answer, and whether the instance was alive."""
RENEW = """
UPDATE instance SET expires_ms = interlock_now_ms() + $2
FROM (SELECT set_config('synchronous_commit', 'off', true) AS kept) AS quick
WHERE instance_id = $1 AND expires_ms > interlock_now_ms() RETURNING 1
"""


class Renewing:
    """The owner of that connection."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connection: PostgresConnection | None = None
        self._one = asyncio.Lock()

    async def open(self) -> None:
        """Connect before the first renewal is due. Raises asyncpg's exceptions."""
        self._connection = await connect(self._settings)

    async def renew(self, instance_id: str, life_ms: int) -> bool:
        """Extend the instance's life to `life_ms` from now; False if the row has expired. Raises LedgerError."""
        async with self._one:
            connection, self._connection = self._connection, None
            try:
                if connection is None or connection.is_closed():
                    return await self._alone(self._connected(instance_id, life_ms))
                return await self._hedged(connection, instance_id, life_ms)
            except (*LINK_FAULTS, TimeoutError) as error:
                if is_away(error):
                    raise DatabaseUnavailable(why_away(error, shown(self._settings.dsn))[1]) from error
                raise translate(error) from error

    async def _alone(self, renewing: Awaitable[Renewed]) -> bool:
        async with asyncio.timeout(RECONNECT_TIMEOUT_S):
            self._connection, is_alive = await renewing
            return is_alive

    async def _hedged(self, connection: PostgresConnection, instance_id: str, life_ms: int) -> bool:
        """Send on the current connection; if its answer is late, also on another, and use the first answer.

        Abandoning the first would lose a renewal that was only delayed: opening another takes some eight round trips
        and a new process of the server, which after a stall may be more than is left of the lease.
        """
        first = asyncio.ensure_future(self._asked(connection, instance_id, life_ms))
        renewals = {first}
        try:
            await asyncio.wait(renewals, timeout=RENEW_TIMEOUT_S)
            if not first.done():
                renewals.add(asyncio.ensure_future(self._connected(instance_id, life_ms)))
            async with asyncio.timeout(RECONNECT_TIMEOUT_S):
                self._connection, is_alive = await _first_of(renewals)
                return is_alive
        finally:
            await self._give_up(renewals)
            if self._connection is not connection:
                connection.terminate()

    async def _asked(self, connection: PostgresConnection, instance_id: str, life_ms: int) -> Renewed:
        return connection, await connection.fetchval(RENEW, encoded(instance_id), life_ms) is not None

    async def _connected(self, instance_id: str, life_ms: int) -> Renewed:
        connection = await connect(self._settings)
        try:
            return await self._asked(connection, instance_id, life_ms)
        except BaseException:
            connection.terminate()
            raise

    async def _give_up(self, renewals: set[asyncio.Task[Renewed]]) -> None:
        """Cancel the pending requests, and close the connections of answers that are not needed."""
        for task in renewals:
            task.cancel()
        for found in await asyncio.gather(*renewals, return_exceptions=True):
            if not isinstance(found, BaseException) and found[0] is not self._connection:
                found[0].terminate()

    async def close(self) -> None:
        """Close the connection. May be called again."""
        if self._connection is not None:
            await close_quietly(self._connection)
            self._connection = None


async def _first_of(renewals: set[asyncio.Task[Renewed]]) -> Renewed:
    """Return the first answer; a fault counts only if all have failed. Raises the last one's exception."""
    waiting = set(renewals)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task.exception() is None or not waiting:
                return task.result()
