"""The outbox file: opening, checking and schema migrations."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import apsw

from interlock.ports.outbox import OutboxError

APPLICATION_ID = 0x494C4F42
"""Marks a SQLite file as an outbox ("ILOB")."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE session (
        key INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        last_seq INTEGER NOT NULL,
        acked_seq INTEGER NOT NULL,
        control_seq INTEGER NOT NULL,
        bytes_kept INTEGER NOT NULL,
        lost_ranges BLOB NOT NULL,
        created_ms INTEGER NOT NULL,
        last_message_id TEXT NOT NULL,
        last_sync_ms INTEGER NOT NULL,
        state BLOB NOT NULL,
        forgotten INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE frame (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        seq INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        type TEXT NOT NULL,
        content INTEGER NOT NULL,
        size INTEGER NOT NULL,
        raw BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX frame_by_seq ON frame (session, seq);
    CREATE INDEX frame_evictable ON frame (session, seq, size) WHERE content = 1;
    CREATE TABLE piece (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        block TEXT NOT NULL,
        offset INTEGER NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX piece_by_block ON piece (session, block);
    CREATE TABLE control (
        session INTEGER NOT NULL REFERENCES session (key),
        seq INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session, seq)
    ) STRICT;
    """,
    "ALTER TABLE session ADD COLUMN policy TEXT NOT NULL DEFAULT 'RING'",
    # The columns acked_seq, control_seq, last_message_id and last_sync_ms are the controller's; `cursors` has all.
    """
    ALTER TABLE session ADD COLUMN controller TEXT NOT NULL DEFAULT '';
    ALTER TABLE session ADD COLUMN cursors BLOB NOT NULL DEFAULT x'7b7d';
    CREATE TABLE gateway (
        gateway_id TEXT PRIMARY KEY,
        link TEXT NOT NULL,
        left_ms INTEGER
    ) STRICT;
    ALTER TABLE control RENAME TO control_of_one;
    CREATE TABLE control (
        session INTEGER NOT NULL REFERENCES session (key),
        gateway_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session, gateway_id, seq)
    ) STRICT;
    INSERT INTO control SELECT session, '', seq, message_id, at_ms, body FROM control_of_one;
    DROP TABLE control_of_one;
    """,
    "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    "CREATE INDEX session_forgotten ON session (last_sync_ms) WHERE forgotten = 1",
)
"""Step n upgrades a file of version n to version n + 1; a released step is never changed."""


class StatementRows(Protocol):
    """What a statement gives."""

    def __iter__(self) -> StatementRows: ...

    def __next__(self) -> tuple[Any, ...]: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class OutboxDatabase(Protocol):
    """The part of an `apsw.Connection` that the outbox uses, with types that a checker can follow."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: tuple[Any, ...] = ()) -> StatementRows: ...

    def executemany(self, statements: str, sequenceofbindings: Sequence[tuple[Any, ...]]) -> StatementRows: ...

    def last_insert_rowid(self) -> int: ...

    def close(self) -> None: ...


NOT_OF_THE_CONTENT = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.NoMemError,
                      apsw.BusyError, apsw.LockedError)
"""SQLite's errors about a disk, permissions or another program, which do not concern the file's content."""


class OutboxUnusable(OutboxError):
    """Raised if the file cannot serve as an outbox; the text names the file and the remedy."""


def lock_file(path: Path) -> int:
    """Lock the outbox for this process; returns the descriptor that holds the lock. Raises OutboxUnusable.

    The numbers of a stream are counted in memory, so a second writer would assign one number twice.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise OutboxUnusable(f"The outbox {path} cannot be opened: {error.strerror}. Check who owns its "
                             "directory and that the disk has room.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise OutboxUnusable(f"The outbox {path} is in use by another runner. Stop that one, or give this one "
                             "another state directory.") from error
    return lock


def open_file(path: Path) -> OutboxDatabase:
    """Open or create the outbox with mode 0600 and upgrade it to the newest schema. Raises OutboxUnusable."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        database = cast("OutboxDatabase", apsw.Connection(str(path)))
    except (OSError, apsw.Error) as error:
        raise OutboxUnusable(f"The outbox {path} cannot be opened: {error}. Check who owns it and that the disk "
                             "has room.") from error
    try:
        _check(database, path)
        _prepare(database)
        _migrate(database, path)
    except apsw.Error as error:
        database.close()
        if isinstance(error, NOT_OF_THE_CONTENT):
            raise OutboxUnusable(f"The outbox {path} cannot be read or written: {error}. Check who owns it and its "
                                 "directory, that the disk has room, and that no other program holds the file; leave "
                                 "it in its place, since frames wait in it.") from error
        raise _damaged(path, str(error)) from error
    except OutboxUnusable:
        database.close()
        raise
    return database


def _damaged(path: Path, what: str) -> OutboxUnusable:
    return OutboxUnusable(f"The outbox {path} is damaged ({what}). Move it away (`mv {path} {path}.bad`) and start "
                          "again: what the gateway has is safe, what only this file held is lost.")


def _number(database: OutboxDatabase, pragma: str) -> int:
    return int(next(database.execute("PRAGMA " + pragma))[0])


def _check(database: OutboxDatabase, path: Path) -> None:
    """Refuse a foreign, a newer or a damaged file before anything is written to it."""
    application_id = _number(database, "application_id")
    if application_id == 0 and next(database.execute("SELECT count(*) FROM sqlite_schema"))[0] == 0:
        return
    if application_id != APPLICATION_ID:
        raise OutboxUnusable(f"{path} is a SQLite file, but not an outbox. Move it away, or give the runner another "
                             "state directory.")
    verdict = next(database.execute("PRAGMA quick_check(1)"))[0]
    if verdict != "ok":
        raise _damaged(path, str(verdict))


def _prepare(database: OutboxDatabase) -> None:
    """WAL, so that a commit without fsync survives kill -9; real flushes on macOS (D-6)."""
    for pragma in ("busy_timeout = 5000", "journal_mode = WAL", "fullfsync = ON", "checkpoint_fullfsync = ON",
                   "journal_size_limit = 16777216", "foreign_keys = ON", "temp_store = MEMORY"):
        database.execute("PRAGMA " + pragma).fetchall()


def _migrate(database: OutboxDatabase, path: Path) -> None:
    version = _number(database, "user_version")
    if version > len(MIGRATIONS):
        raise OutboxUnusable(f"The outbox {path} was written by a newer Interlock (schema {version}, this one knows "
                             f"{len(MIGRATIONS)}). Update Interlock.")
    database.execute("PRAGMA synchronous = FULL")
    for step in range(version, len(MIGRATIONS)):
        database.execute(f"BEGIN IMMEDIATE; {MIGRATIONS[step]}; PRAGMA user_version = {step + 1};"
                         f" PRAGMA application_id = {APPLICATION_ID}; COMMIT").fetchall()
