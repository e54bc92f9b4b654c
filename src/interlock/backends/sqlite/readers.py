"""Readers beside the writer: a few threads, each with a connection that cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, local

import apsw

from interlock.backends.sqlite.connect import connect
from interlock.backends.sqlite.database import Row, SqliteDatabase, Value
from interlock.backends.sqlite.faults import SqliteClosed, translate

READERS = 2
"""Reading threads."""
READ_QUEUE_LIMIT = 1_024
"""Reads under way or waiting; a further one waits, in the order of the calls."""


class SqliteReaders:
    """A pool of query-only connections. A read sees every commit that had returned when it was called."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own = local()
        self._lock = Lock()
        self._connections: list[SqliteDatabase] = []
        self._room = asyncio.Semaphore(READ_QUEUE_LIMIT)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="ledger-reader")

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """Run a query; returns its rows. Raises LedgerError."""
        return (await self.several([(sql, values)]))[0]

    async def several(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        """Run queries one after the other on one thread; returns the rows of each. Raises LedgerError."""
        async with self._room:
            try:
                answer = asyncio.get_running_loop().run_in_executor(self._pool, self._query, queries)
            except RuntimeError as error:
                raise SqliteClosed("The ledger is closed.") from error
            return await answer

    async def row(self, sql: str, *values: Value) -> Row | None:
        """Run a query; returns its first row, or None."""
        found = await self.rows(sql, *values)
        return found[0] if found else None

    def close(self) -> None:
        """Finish what was handed over and close the connections. Blocks; may be called from any thread, and again."""
        self._pool.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def _query(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        try:
            connection: SqliteDatabase | None = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = connect(self._path, read_only=True)
                with self._lock:
                    self._connections.append(connection)
            return [connection.execute(sql, tuple(bindings)).fetchall() for sql, bindings in queries]
        except apsw.Error as error:
            raise translate(error) from error
