"""Rows that a transaction has decided on and not written yet: they go in many to a statement, table by table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from interlock.backends.sqlite.database import SqliteDatabase, Value

ROWS_A_STEP = (64, 32, 16, 8, 4, 2, 1)
"""So many rows go into one statement: each step of SQLite gives the interpreter lock away, and taking it back from a
busy event loop can cost more than the row. Each size is twice the next one, so no rest takes a size twice."""


class BufferedTable:
    """A statement that writes rows, and how many rows one of it takes."""

    def __init__(self, lead: str, columns: int, tail: str = "") -> None:
        row = f"({','.join('?' * columns)})"

        def statement(rows: int) -> str:
            return f"{lead} {','.join([row] * rows)} {tail}"

        self.statement: Callable[[int], str] = lru_cache(statement)


def write_rows(connection: SqliteDatabase, table: BufferedTable, rows: Sequence[Sequence[Value]]) -> None:
    """Write rows in their order. Raises SQLite's errors."""
    done = 0
    for size in ROWS_A_STEP:
        while len(rows) - done >= size:
            connection.execute(table.statement(size), [value for row in rows[done : done + size] for value in row])
            done += size


class WriteBuffer:
    """What one transaction is still to write, in the order in which its tables are named."""

    def __init__(self, connection: SqliteDatabase, tables: Sequence[BufferedTable]) -> None:
        self._connection = connection
        self._rows: dict[BufferedTable, list[Sequence[Value]]] = {table: [] for table in tables}

    def add(self, table: BufferedTable, row: Sequence[Value]) -> None:
        """Have a row written later."""
        self._rows[table].append(row)

    def write(self, table: BufferedTable) -> None:
        """Write what is there for one table. Raises SQLite's errors."""
        rows = self._rows[table]
        if rows:
            write_rows(self._connection, table, rows)
            rows.clear()

    def write_all(self) -> None:
        """Write all. Raises SQLite's errors."""
        for table in self._rows:
            self.write(table)

    def forget(self) -> None:
        """Drop all: the transaction is rolled back."""
        for rows in self._rows.values():
            rows.clear()
