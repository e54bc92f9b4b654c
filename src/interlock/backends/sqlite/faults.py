"""A ledger file's errors, and the conversion of SQLite's to the port's."""

from __future__ import annotations

import apsw

from interlock.ports.ledger import Full, LedgerError, NameTaken


class NotASqliteLedger(LedgerError):
    """Raised if the file is not a database, or a damaged one, or another program's."""


class TooNew(LedgerError):
    """Raised if a newer program has upgraded the schema; this one would misread it."""


class SqliteClosed(LedgerError):
    """Raised if the ledger was closed."""


class DatabaseDamaged(LedgerError):
    """Raised if SQLite finds the file inconsistent while it works on it."""


_CANNOT_TAKE = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.LockedError,
)


def translate(error: Exception) -> LedgerError:
    """Convert an exception inside a batch to the port's error, with one sentence."""
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, apsw.FullError):
        return Full("The ledger's disk is full; nothing of this batch was kept. Free some space.")
    if isinstance(error, _CANNOT_TAKE):
        return Full(f"The ledger's file could not be read or written, so nothing of this batch was kept: {error}.")
    if isinstance(error, apsw.ConstraintError):
        return NameTaken(f"A name in this batch exists already: {error}.")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DatabaseDamaged(f"The ledger's file is damaged: {error}. Restore it from a backup.")
    return LedgerError(f"The batch could not be written: {error}")


def concerns_one_batch(error: Exception) -> bool:
    """Return whether the others of a group could commit without the batch that raised this."""
    return not isinstance(error, (*_CANNOT_TAKE, apsw.CorruptError, apsw.NotADBError))
