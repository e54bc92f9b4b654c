"""PostgreSQL's errors as the port's: unreachable, in conflict, full, or a name that exists; with the remedy."""

from __future__ import annotations

import errno
from typing import Any

import pytest

asyncpg = pytest.importorskip("asyncpg")

from interlock.backends.postgres import faults  # noqa: E402
from interlock.ports.ledger import Full, LedgerError, NameTaken, OutcomeUnknown  # noqa: E402


@pytest.mark.parametrize(("error", "away", "becomes", "alone"), [
    (ConnectionRefusedError(errno.ECONNREFUSED, "x"), True, faults.DatabaseUnavailable, False),
    (TimeoutError(), True, faults.DatabaseUnavailable, False),
    (asyncpg.InterfaceError("connection is closed"), True, faults.DatabaseUnavailable, False),
    (asyncpg.InterfaceError("wrong arguments"), False, LedgerError, True),
    (asyncpg.ReadOnlySQLTransactionError("x"), True, faults.DatabaseUnavailable, False),
    (asyncpg.QueryCanceledError("statement timeout"), True, faults.DatabaseUnavailable, False),
    (asyncpg.DiskFullError("x"), False, Full, False),
    (asyncpg.OutOfMemoryError("x"), False, Full, False),
    (asyncpg.UniqueViolationError("x"), False, NameTaken, True),
    (asyncpg.DeadlockDetectedError("x"), False, LedgerError, False),
    (faults.FormerPrimary("It was demoted."), True, faults.DatabaseUnavailable, False),
    (OutcomeUnknown("x"), False, OutcomeUnknown, False),
    (ValueError("odd"), False, LedgerError, True),
], ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None)
def test_each_error_is_classified_as_the_servers_or_the_batchs(
        error: Exception, away: bool, becomes: type[LedgerError], alone: bool) -> None:
    assert faults.is_away(error) is away
    assert type(faults.translate(error)) is becomes
    assert faults.concerns_one_batch(error) is alone


@pytest.mark.parametrize(("error", "again"), [
    (asyncpg.DeadlockDetectedError("x"), True), (asyncpg.SerializationError("x"), True),
    (asyncpg.LockNotAvailableError("x"), True), (asyncpg.UniqueViolationError("x"), False)])
def test_only_serialization_conflicts_are_retried(error: Exception, again: bool) -> None:
    assert faults.is_in_the_way(error) is again


def test_a_statement_refused_by_the_server_is_not_in_doubt() -> None:
    assert faults.is_answered(asyncpg.QueryCanceledError("x"))
    assert not faults.is_answered(ConnectionResetError())


def test_the_log_has_the_address_and_the_remedy() -> None:
    event, sentence = faults.why_away(asyncpg.QueryCanceledError("canceling  statement."), "db.example")
    assert event == "postgres_cancelled_statement"
    assert "at db.example" in sentence
    assert "statement_timeout = '20s'" in sentence
    event, sentence = faults.why_away(FileNotFoundError(errno.ENOENT, "x"))
    assert (event, "no server listens at its socket" in sentence) == ("postgres_is_away", True)
    assert "It was demoted." in faults.why_away(faults.FormerPrimary("It was demoted."))[1]


@pytest.mark.parametrize(("error", "text"), [
    (TimeoutError(), "no answer in time"), (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "Connection refused"),
    (ValueError(" two\n lines. "), "two lines"), (ValueError(), "ValueError")])
def test_an_errors_text_has_no_number_and_no_full_stop(error: Exception, text: str) -> None:
    assert faults.in_words(error) == text


def test_a_used_key_is_refused_in_its_own_sentence() -> None:
    taken: Any = asyncpg.UniqueViolationError("x")
    taken.table_name, taken.constraint_name, taken.detail = "idempotency", "idempotency_pkey", "Key (scope)=(s)"

    assert str(faults.translate(taken)) == "An answer is kept under this idempotency key already."
