"""Statements that write rows, and the conversion of many batches' writes to their rows: one array for each column."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from interlock.backends.postgres.texts import encoded
from interlock.ports.ledger import LedgerError

Row = tuple[Any, ...]
Keyed = Iterable[tuple[Hashable, Row]]
Merge = Callable[[Row, Row], Row]


class RowOperation(NamedTuple):
    """A statement, and the rows that a write adds to it. Of rows with one key the last counts, unless `merge` is set; a
    key of None is unique."""

    table: str
    sql: str
    rows: Callable[[Any], Keyed]
    merge: Merge = lambda _old, new: new
    every: Callable[[], LedgerError] | None = None
    """Creates the exception if the statement does not return a row for every row passed."""


class TableStatement:
    """A statement to run, with its rows."""

    __slots__ = ("op", "rows")

    def __init__(self, op: RowOperation) -> None:
        self.op = op
        self.rows: dict[Hashable, Row] = {}

    def add(self, keyed: Keyed) -> None:
        """Add more rows."""
        for key, row in keyed:
            key = len(self.rows) if key is None else key
            old = self.rows.get(key)
            self.rows[key] = row if old is None else self.op.merge(old, row)

    def columns(self) -> list[list[Any]]:
        """Return the rows in the statement's form."""
        return columns(self.rows.values())


def keyed(row: Callable[[Any], Row], keys: int = 1) -> Callable[[Any], Keyed]:
    """Return one row of each write, whose first columns are its key."""

    def rows_of(write: Any) -> Keyed:
        made = row(write)
        return ((made[:keys], made),)

    return rows_of


def unkeyed(row: Callable[[Any], Row]) -> Callable[[Any], Keyed]:
    """Return one row of each write, without a key."""
    return lambda write: ((None, row(write)),)


def keep_first(old: Row, _new: Row) -> Row:
    """Merge rows of one key: the first counts."""
    return old


def summed(first: int) -> Merge:
    """Merge rows of one key: add the figures from this column on."""
    return lambda old, new: (*old[:first], *(had + more for had, more in zip(old[first:], new[first:], strict=True)))


def columns(rows: Iterable[Row]) -> list[list[Any]]:
    """Convert rows to one list for each column, with every text in a form that PostgreSQL can store."""
    return [[encoded(value) if isinstance(value, str) else value for value in column]
            for column in zip(*rows, strict=True)]
