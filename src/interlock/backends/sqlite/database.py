"""The part of an apsw connection that the ledger uses, with types that a checker on Python 3.11 can follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]
Value = str | bytes | int | None


class StatementCursor(Protocol):
    """The rows of a statement that runs."""

    @property
    def get(self) -> Any:
        """Return the single value of a single column; the first row as a tuple if it has several; None without a
        row."""
        ...

    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...


class SqliteDatabase(Protocol):
    """A connection. Every call raises `apsw.Error`."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: Sequence[Value] | None = None, /) -> StatementCursor: ...

    def pragma(self, name: str, value: str | int | bool | None = None, /) -> Any: ...

    def changes(self) -> int: ...

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...

    def close(self) -> None: ...
