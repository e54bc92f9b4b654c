"""A batch within a transaction: a write that cannot be a row fails alone; rows that wait go in many to a statement, in
their order, and none of a transaction that was rolled back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite import queries
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.database import Value
from interlock.backends.sqlite.ledger import open_ledger
from interlock.backends.sqlite.queries import BufferedTable
from interlock.backends.sqlite.transaction import ROWS_A_STEP, Transaction, WriteBuffer, write_rows
from interlock.ports.ledger import Append, LedgerError, NameTaken, PutCommand, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Actor, Command, CommandState, Target

pytestmark = pytest.mark.anyio


CLOCK = ManualClock()


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


async def test_a_write_without_a_row_form_fails_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("count", [*range(66), 200])
def test_all_rows_are_written_in_their_order_by_few_statements(count: int) -> None:
    counted = Counted()

    write_rows(counted, PAIRS, [(n, "x") for n in range(count)])  # type: ignore[arg-type]

    assert counted.numbers("pair") == list(range(count))
    assert len(counted.statements) <= count // ROWS_A_STEP[0] + 3
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


def test_dropped_rows_are_never_written_and_one_table_can_be_written_first() -> None:
    counted = Counted()
    buffer = WriteBuffer(counted, [ONES, PAIRS])  # type: ignore[arg-type]
    buffer.add(PAIRS, (1, "x"))
    buffer.forget()
    buffer.add(PAIRS, (2, "x"))
    buffer.add(ONES, (3,))

    buffer.write(PAIRS)

    assert (counted.numbers("pair"), counted.numbers("one")) == ([2], [])
    counted.connection.close()


def command(state: CommandState) -> CommandRecord:
    shown = Command(id="c1", created_at=iso(0), updated_at=iso(0), tenant_id="t1", actor=Actor(type="user", id="u"),
                    type="execute", target=Target(agent_id="shell"), state=state, timeout_ms=1)
    return CommandRecord(command=shown, session_id="S1", created_ms=0)


def test_a_command_that_changes_in_the_transaction_that_begins_it_is_written_once(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "ledger.db")
    transaction = Transaction(database)
    before: int = database.total_changes()  # type: ignore[attr-defined]

    transaction.apply(WriteBatch([PutCommand(command("queued"), new=True), PutCommand(command("dispatched"))]))
    transaction.flush()

    assert database.total_changes() - before == 1  # type: ignore[attr-defined]
    assert database.execute("SELECT state FROM command").fetchall() == [("dispatched",)]
    transaction.apply(WriteBatch([PutCommand(command("running"))]))
    transaction.flush()
    assert database.execute("SELECT state FROM command").fetchall() == [("running",)]
    database.close()


def test_nothing_of_a_transaction_that_was_forgotten_is_in_the_next(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "ledger.db")
    transaction = Transaction(database)
    database.execute("BEGIN IMMEDIATE")
    transaction.apply(WriteBatch([PutCommand(command("queued"), new=True), *one(stream="s/2").writes]))
    transaction.forget()
    database.execute("ROLLBACK")

    transaction.apply(one())
    transaction.flush()

    assert database.execute("SELECT count(*) FROM command").get == 0
    assert database.execute("SELECT name FROM stream").fetchall() == [("s/1",)]
    database.close()


async def test_a_second_new_command_of_one_id_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    await ledger.commit(WriteBatch([PutCommand(command("queued"), new=True)]))
    outcomes = await asyncio.gather(
        ledger.commit(one()), ledger.commit(WriteBatch([*one().writes, PutCommand(command("running"), new=True)])),
        ledger.commit(one()), return_exceptions=True)
    assert [getattr(outcome, "numbers", None) for outcome in outcomes] == [[1], None, [2]]
    assert isinstance(outcomes[1], NameTaken)
    assert await ledger.command("c1", "t1") == command("queued")
    assert await ledger.head("t1", "s/1") == 2
    await ledger.close()


SESSION = ("t1", "k", "shell", "r1", "/w", "open", 0, 0, None, b"{}", b"")
FAILING: dict[str, tuple[BufferedTable, list[Value], str]] = {
    "commands": (queries.ADD_COMMANDS, ["c1", "t1", "S1", "queued", None, "u", None, "execute", b""] * 2,
                 "SELECT count(*) FROM command"),
    "answers": (queries.ADD_IDEMPOTENCY, ["k1", "f", 202, b"{}", b"", 0, None] * 2,
                "SELECT count(*) FROM idempotency"),
    "events": (queries.ADD_EVENTS, [7, "C", 0, "", b""] * 2, "SELECT count(*) FROM event"),
    "new streams": (queries.ADD_STREAMS, [8, "s/8", 1] * 2, "SELECT count(*) FROM stream WHERE id = 8"),
    "heads of streams": (queries.RAISE_STREAMS, [1, 5, 2, None], "SELECT count(*) FROM stream WHERE head = 5"),
    "sessions": (queries.TOUCH_SESSIONS, [5, b"{}", b"", "S1", None, b"{}", b"", "S2"],
                 "SELECT count(*) FROM session WHERE updated_ms = 5"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_statement_that_fails_is_taken_back_by_its_transaction_alone(tmp_path: Path, name: str) -> None:
    """So SQLite keeps no copy of each page that one of its many rows changes."""
    table, values, count = FAILING[name]
    database = open_writer(tmp_path / "ledger.db")
    database.execute("INSERT INTO stream (id, name, head) VALUES (1, 's/1', 1), (2, 's/2', 1)")
    for session_id in ("S1", "S2"):
        database.execute(queries.PUT_SESSION, (session_id, *SESSION))

    database.execute("BEGIN IMMEDIATE")
    with pytest.raises(apsw.ConstraintError):
        database.execute(table.statement(2), values)
    assert database.execute(count).get == 1, "the rows before the one that failed are there still"
    database.execute("ROLLBACK")

    assert database.execute(count).get == 0
    database.close()
