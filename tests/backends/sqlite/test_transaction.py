"""A batch within a transaction: a write that cannot be a row fails alone; rows that wait go in many to a statement, in
their order, and none of a transaction that was rolled back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from interlock.backends.sqlite.ledger import open_ledger
from interlock.backends.sqlite.queries import BufferedTable
from interlock.backends.sqlite.transaction import ROWS_A_STEP, WriteBuffer, write_rows
from interlock.ports.ledger import Append, LedgerError, WriteBatch

pytestmark = pytest.mark.anyio


class StandingClock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


CLOCK = StandingClock()


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


async def test_a_write_that_has_no_row_form_fails_alone(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    bad = WriteBatch([Append("t1", "s/1", "C", 0, object())])  # pyright: ignore[reportArgumentType]
    outcomes = await asyncio.gather(*(ledger.commit(batch) for batch in (one(), bad, one())), return_exceptions=True)
    assert [getattr(outcome, "numbers", None) for outcome in outcomes] == [[1], None, [2]]
    assert isinstance(outcomes[1], LedgerError)
    await ledger.close()


PAIRS = BufferedTable("INSERT INTO pair (n, text) VALUES", 2)
ONES = BufferedTable("INSERT INTO one (n) VALUES", 1, "ON CONFLICT DO NOTHING")


class Counted:
    """A connection that notes each statement."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute("CREATE TABLE pair (n, text); CREATE TABLE one (n UNIQUE)")
        self.statements: list[str] = []

    def execute(self, statement: str, bindings: list[object]) -> object:
        self.statements.append(statement)
        return self.connection.execute(statement, bindings)  # type: ignore[arg-type]

    def numbers(self, table: str) -> list[int]:
        return [row[0] for row in self.connection.execute(f"SELECT n FROM {table} ORDER BY rowid")]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 63, 64, 65, 200])
def test_all_rows_are_written_in_their_order_by_few_statements(count: int) -> None:
    counted = Counted()

    write_rows(counted, PAIRS, [(n, "x") for n in range(count)])  # type: ignore[arg-type]

    assert counted.numbers("pair") == list(range(count))
    assert len(counted.statements) <= count // ROWS_A_STEP[0] + len(ROWS_A_STEP) - 1
    counted.connection.close()


def test_a_buffer_writes_each_table_once_in_the_order_of_the_tables() -> None:
    counted = Counted()
    buffer = WriteBuffer(counted, [ONES, PAIRS])  # type: ignore[arg-type]
    buffer.add(PAIRS, (1, "x"))
    buffer.add(ONES, (5,))
    buffer.add(ONES, (5,))

    buffer.write_all()
    buffer.write_all()

    assert (counted.numbers("one"), counted.numbers("pair")) == ([5], [1])
    assert ["one" in one for one in counted.statements] == [True, False]
    counted.connection.close()


def test_what_is_forgotten_is_never_written_and_one_table_can_go_first() -> None:
    counted = Counted()
    buffer = WriteBuffer(counted, [ONES, PAIRS])  # type: ignore[arg-type]
    buffer.add(PAIRS, (1, "x"))
    buffer.forget()
    buffer.add(PAIRS, (2, "x"))
    buffer.add(ONES, (3,))

    buffer.write(PAIRS)

    assert (counted.numbers("pair"), counted.numbers("one")) == ([2], [])
    counted.connection.close()
