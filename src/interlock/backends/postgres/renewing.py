"""The connection on which an instance is renewed, and on which nothing else is ever asked (C-4).

Renewing is one statement and one round trip. It waits behind no transaction of this gateway: it has a connection of its
own, its row is locked by nobody (`ALIVE` in `leases.py` takes a key lock, which goes with it), and it does not wait for
the disk. A renewal that a crash of the server loses makes a lease shorter, never longer, and epochs fence either way.
"""

from __future__ import annotations

import asyncio

from interlock.backends.postgres.database import Connection, Settings, close_quietly, connect
from interlock.backends.postgres.faults import LINK_FAULTS, translate
from interlock.backends.postgres.texts import held
from interlock.ports.leases import INSTANCE_LIFE_MS

RENEW_TIMEOUT_S = INSTANCE_LIFE_MS / 3_000
"""A renewal that has no answer by then is given up with its connection; the next one opens another."""
RECONNECT_TIMEOUT_S = INSTANCE_LIFE_MS / 2_000
"""The same with opening a connection, which takes some eight round trips."""
RENEW = """
UPDATE instance SET expires_ms = interlock_now_ms() + $2
FROM (SELECT set_config('synchronous_commit', 'off', true) AS kept) AS quick
WHERE instance_id = $1 AND expires_ms > interlock_now_ms() RETURNING 1
"""


class Renewing:
    """Owns that connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: Connection | None = None
        self._one = asyncio.Lock()

    async def open(self) -> None:
        """Connect before the first renewal is due. Raises what asyncpg raises."""
        self._connection = await connect(self._settings)

    async def renew(self, instance_id: str, life_ms: int) -> bool:
        """Be there for `life_ms` from now; False if the row has expired. Raises LedgerError."""
        async with self._one:
            try:
                return await self._renew(instance_id, life_ms)
            except (*LINK_FAULTS, TimeoutError) as error:
                self._drop()
                raise translate(error) from error
            except BaseException:
                self._drop()  # Its answer is still on the way.
                raise

    async def _renew(self, instance_id: str, life_ms: int) -> bool:
        connection = self._connection
        there = connection is not None and not connection.is_closed()
        async with asyncio.timeout(RENEW_TIMEOUT_S if there else RECONNECT_TIMEOUT_S):
            if connection is None or not there:
                connection = self._connection = await connect(self._settings)
            return await connection.fetchval(RENEW, held(instance_id), life_ms) is not None

    async def close(self) -> None:
        """Close the connection. May be called again."""
        if self._connection is not None:
            await close_quietly(self._connection)
            self._connection = None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
