"""Writes of many batches to one table become the rows of one statement: by key the last, the first, or the sum."""

from __future__ import annotations

from interlock.backends.postgres.operations import RowOperation, TableStatement, keep_first, keyed, summed, unkeyed


def test_of_rows_with_one_key_the_last_is_written_unless_they_are_merged() -> None:
    def rows_of(operation: RowOperation) -> list[tuple[str, int]]:
        statement = TableStatement(operation)
        for row in (("a", 1), ("b", 2), ("a", 3)):
            statement.add(operation.rows(row))
        return list(statement.rows.values())

    plain = RowOperation("t", "", keyed(lambda row: row))
    assert rows_of(plain) == [("a", 3), ("b", 2)]
    assert rows_of(plain._replace(merge=keep_first)) == [("a", 1), ("b", 2)]
    assert rows_of(plain._replace(merge=summed(1))) == [("a", 4), ("b", 2)]
    assert rows_of(plain._replace(rows=unkeyed(lambda row: row))) == [("a", 1), ("b", 2), ("a", 3)]


def test_columns_are_lists_of_storable_values() -> None:
    operation = RowOperation("t", "", keyed(lambda row: row))
    statement = TableStatement(operation)
    statement.add(operation.rows(("a\0b", 1)))
    texts, numbers = statement.columns()
    assert "\0" not in texts[0]
    assert numbers == [1]
