"""PostgreSQL's errors, and their conversion to the port's."""

from __future__ import annotations

import os
import re
from typing import Literal, get_args

import asyncpg

from interlock.ports.entities import ENTITIES, OF_ANOTHER_TENANT
from interlock.ports.ledger import Full, LedgerError, NameTaken, OutcomeUnknown

AwayEvent = Literal["postgres_is_away", "postgres_cancelled_statement"]
AWAY_EVENTS: tuple[AwayEvent, ...] = get_args(AwayEvent)
"""Events of the log while the server is unavailable."""


class NotReached(LedgerError):
    """Raised if no server answers at the address, or it refuses the login."""


class NotAPostgresLedger(LedgerError):
    """Raised if the database does not hold a ledger."""


class WrongSchema(LedgerError):
    """Raised if the schema is too new or too old for this program."""


class FormerPrimary(ConnectionError):
    """Raised if the reached server accepts writes, and is no longer the primary. The text is one sentence."""


class PostgresClosed(LedgerError):
    """Raised if the ledger was closed."""


class DatabaseUnavailable(Full):
    """Raised if the server was unreachable for too long; nothing of the batch was stored."""


_KEY = re.compile(r"\(([\w, ]+)\)=")
"""The columns in the server's message about an existing key, whatever its language."""
LINK_FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""All exceptions of a statement. The third is the driver's for a connection that the server ended unnoticed: whatever
it was to receive is lost."""
_AWAY = (
    OSError,
    asyncpg.InternalClientError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # Shut down, crashed, starting up, statement ended by its timeout.
    asyncpg.InvalidTransactionStateError,  # It was idle for too long.
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # A server that has just become, or is not yet, the primary.
)
_CANNOT_TAKE = (asyncpg.InsufficientResourcesError, asyncpg.PostgresIOError, asyncpg.PostgresSystemError)
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)


def is_away(error: BaseException) -> bool:
    """Return whether the server, not the request, is what failed: the same request may succeed later."""
    if isinstance(error, asyncpg.InterfaceError):  # A broken connection is reported so; a wrong call is too.
        return "closed" in str(error)
    return isinstance(error, _AWAY)


def is_in_the_way(error: BaseException) -> bool:
    """Return whether two transactions blocked each other: a repetition succeeds at once."""
    return isinstance(error, _AGAIN)


def concerns_one_batch(error: BaseException) -> bool:
    """Return whether the others of a group could commit without the batch that raised this. Not after OutcomeUnknown:
    the group may be committed already, and a second try would double it."""
    return not (is_away(error) or is_in_the_way(error) or isinstance(error, (*_CANNOT_TAKE, OutcomeUnknown)))


def is_answered(error: BaseException) -> bool:
    """Return whether the server itself reported that it has not executed a statement: its outcome is not in doubt."""
    return isinstance(error, asyncpg.ReadOnlySQLTransactionError | asyncpg.QueryCanceledError)


def why_away(error: BaseException, where: str = "") -> tuple[AwayEvent, str]:
    """Return the log's event for a fault that `is_away` recognises, and one sentence with the place and the remedy."""
    at = f" at {where}" if where else ""
    if isinstance(error, asyncpg.QueryCanceledError):
        return "postgres_cancelled_statement", (
            f"PostgreSQL{at} cancelled a statement of the ledger ({in_words(error)}). If its statement_timeout did it, "
            "set it to 20s or more for Interlock's user: ALTER ROLE … SET statement_timeout = '20s'.")
    if isinstance(error, FormerPrimary):
        return "postgres_is_away", f"The ledger{at} has no primary that this gateway may use: {error}"
    return "postgres_is_away", (
        f"PostgreSQL{at} does not answer ({in_words(error)}), so nothing is taken until it does: start it, or mend "
        "this gateway's way to it.")


def in_words(error: BaseException) -> str:
    """Return the error in words without a number and without a full stop."""
    if isinstance(error, FileNotFoundError):
        return "no server listens at its socket"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    reason = " ".join(str(error).split()).rstrip(".")
    return reason or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


def _taken(error: asyncpg.UniqueViolationError) -> str:
    """Return the sentence that refuses a second row, from its entity."""
    table, name = str(getattr(error, "table_name", "")), str(getattr(error, "constraint_name", ""))
    if table == "idempotency":
        return "An answer is kept under this idempotency key already."
    found = _KEY.search(str(getattr(error, "detail", "")))
    for entity in ENTITIES:
        if entity.table == table and found is not None:
            unique = [column.unique for column in entity.columns if column.unique and column.name == found[1]]
            return (unique or [entity.once or OF_ANOTHER_TENANT])[0]
    return f"A name in this batch exists already ({name})."


def translate(error: BaseException) -> LedgerError:
    """Convert an exception to the port's error, with one sentence."""
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, asyncpg.UniqueViolationError):
        return NameTaken(_taken(error))
    if isinstance(error, asyncpg.DiskFullError):
        return Full("The disk of PostgreSQL is full; nothing of this batch was kept. Free some space.")
    if isinstance(error, asyncpg.QueryCanceledError):
        return DatabaseUnavailable(f"Nothing of this batch was kept: {why_away(error)[1]}")
    if isinstance(error, FormerPrimary):
        return DatabaseUnavailable(f"Nothing of this batch was kept: {error}")
    if is_away(error):
        return DatabaseUnavailable(f"PostgreSQL does not answer, so nothing of this batch was kept: "
                                   f"{in_words(error)}.")
    if isinstance(error, _CANNOT_TAKE):
        return Full(f"PostgreSQL rejected the write, so nothing of this batch was stored: {error}.")
    return LedgerError(f"The batch could not be written: {error}")
