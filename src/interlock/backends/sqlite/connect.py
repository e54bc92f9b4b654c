"""Opening of the ledger's file: its check, its settings, and the numbered migrations."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import cast

import apsw

from interlock.backends.sqlite import queries
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.entities import make_missing_tables
from interlock.backends.sqlite.faults import NotASqliteLedger, TooNew
from interlock.backends.sqlite.transaction import write_rows
from interlock.command.audit.audit_tree import Frontier
from interlock.ports.ledger import Full

APPLICATION_ID = 0x496C6B31
"""In the file's header, so that another program's database is not mistaken for a ledger."""
BUSY_TIMEOUT_MS = 5_000
"""How long a reader of another process (a backup, a check) may hold a lock before a batch fails."""
CHECKPOINT_PAGES = 4_000
"""The write-ahead log is checkpointed about this often (16 MB)."""
LOG_BYTES = 64 * 1024 * 1024
"""A larger write-ahead log, caused by a long read, is truncated to this at a checkpoint."""
CACHED_STATEMENTS = 512
"""Prepared statements kept per connection; more than there are queries, of each number of rows."""
TREE_PAGE = 1_000
"""Leaves from which a tree is built at a time."""
_WHOLE_IN_FILE = "immutable=1"
"""Reads only the file, without locks: it has all of the ledger."""
_INDEX_IN_MEMORY = "vfs=unix-none"
"""Locks nothing. In the exclusive locking mode, SQLite then builds the index of the write-ahead log in memory."""
QUICK_CHECK_BYTES = 32 * 1024 * 1024
"""A file up to this size is checked completely when it is opened; a larger one as its pages are read."""


def connect(path: Path, *, read_only: bool = False) -> SqliteDatabase:
    """Open a connection with the ledger's settings. The file must be a ledger or empty. Raises NotASqliteLedger,
    Full."""
    try:
        if not read_only:
            _make_private(path)
        name, flags = str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
        option = _without_index(path) if read_only else None
        if option is not None:
            name, flags = f"{path.absolute().as_uri()}?{option}", flags | apsw.SQLITE_OPEN_URI
        connection = cast(
            "SqliteDatabase", apsw.Connection(name, flags=flags, statementcachesize=CACHED_STATEMENTS)
        )
        if option == _INDEX_IN_MEMORY:
            connection.pragma("locking_mode", "exclusive")
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("foreign_keys", True)
        if read_only:
            connection.pragma("query_only", True)
        return connection
    except OSError as error:
        raise Full(f"The ledger at {path} cannot be opened: {error.strerror}. Check who owns it, and that its file "
                   "system can be written.") from error
    except (apsw.CantOpenError, apsw.IOError) as error:
        raise Full(f"The ledger at {path} cannot be opened: {error}.") from error


def _without_index(path: Path) -> str | None:
    """Return the option by which SQLite reads a ledger on a read-only file system, a snapshot or a mounted copy, if the
    index of its write-ahead log is missing: otherwise SQLite would have to create that file. None if the ledger is
    opened as usual: with the index beside it, a gateway may be writing it through another mount."""
    if not os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return None
    if not path.with_name(path.name + "-wal").exists():
        return _WHOLE_IN_FILE
    return None if path.with_name(path.name + "-shm").exists() else _INDEX_IN_MEMORY


def open_writer(path: Path) -> SqliteDatabase:
    """Open the only writing connection and upgrade the schema.

    Raises NotASqliteLedger, TooNew, Full.
    """
    connection = connect(path)
    try:
        _refuse_strangers(connection, path)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise NotASqliteLedger(f"The file system of {path} does not support a write-ahead log; keep the state "
                                   f"directory "
                                   "on a local disk.")
        connection.pragma("synchronous", "FULL")
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        connection.pragma("journal_size_limit", LOG_BYTES)
        migrate(connection, path)
        make_missing_tables(connection)
        build_trees(connection)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        connection.close()
        raise NotASqliteLedger(f"{path} is not a ledger, or is damaged: {error}. Restore it from a backup, or move it "
                               f"away "
                               "to begin again.") from error
    except apsw.Error as error:
        connection.close()
        remedy = " Free some space on its disk." if isinstance(error, apsw.FullError) else ""
        raise Full(f"The ledger at {path} cannot be opened: {error}.{remedy}") from error
    except Exception:
        connection.close()
        raise
    return connection


def migrations() -> list[str]:
    """Return the migrations' SQL; the first one makes version 1 out of an empty file."""
    folder = resources.files(__package__ or "interlock.backends.sqlite") / "migrations"
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [entry.read_text(encoding="utf-8") for _, entry in named]


def migrate(connection: SqliteDatabase, path: Path) -> None:
    """Apply the migrations that the file does not have, each in a transaction of its own. Raises TooNew."""
    steps = migrations()
    version = _number(connection, "user_version")
    if version > len(steps):
        raise TooNew(f"The ledger at {path} has schema {version}, and this program knows {len(steps)}: "
                     "use the newer program that wrote it.")
    for target, step in enumerate(steps[version:], version + 1):
        with _transaction(connection):
            connection.execute(step)
            connection.pragma("user_version", target)
            connection.pragma("application_id", APPLICATION_ID)


@contextmanager
def _transaction(connection: SqliteDatabase) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except Exception:
        if connection.in_transaction:  # SQLite has rolled back by itself if the disk is full.
            connection.execute("ROLLBACK")
        raise


def build_trees(connection: SqliteDatabase) -> None:
    """Build the Merkle tree of every log that was written before trees were stored, each in a transaction of its
    own."""
    if not connection.execute("SELECT count(*) FROM pragma_table_info('audit_head') WHERE name = 'peaks'").get:
        return
    for (tenant_id,) in connection.execute(queries.AUDIT_WITHOUT_TREE).fetchall():
        with _transaction(connection):
            _build_tree(connection, str(tenant_id))


def _build_tree(connection: SqliteDatabase, tenant_id: str) -> None:
    count, last_hash = connection.execute(queries.AUDIT_HEAD, (tenant_id,)).fetchone() or (0, "")
    tree = Frontier()
    while tree.size < count:
        page = connection.execute(queries.AUDIT_LEAVES, (tenant_id, tree.size, tree.size + TREE_PAGE)).fetchall()
        if not page:
            raise NotASqliteLedger(f"The audit log of {tenant_id} has {tree.size} records and should have {count}: it "
                                   f"was "
                                   "tampered with. Check a copy of the file with the version that wrote it, or "
                                   "restore it.")
        for (hash_,) in page:
            for grown in tree.grow(bytes.fromhex(hash_)):
                write_rows(connection, queries.ADD_AUDIT_NODES, [(tenant_id, *grown)])
    connection.execute(queries.PUT_AUDIT_HEAD, (tenant_id, count, last_hash, tree.peaks))


def _refuse_strangers(connection: SqliteDatabase, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and _number(connection, "application_id") != APPLICATION_ID:
        raise NotASqliteLedger(f"{path} is a database of another program, not a ledger.")
    if path.stat().st_size <= QUICK_CHECK_BYTES:
        finding = str(connection.execute("PRAGMA quick_check(1)").get)
        if finding != "ok":
            raise NotASqliteLedger(f"The ledger at {path} is damaged ({finding}). Restore it from a backup.")


def _make_private(path: Path) -> None:
    # The log and its index get the mode of the file, so it must be right before SQLite creates them.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _number(connection: SqliteDatabase, name: str) -> int:
    value = connection.pragma(name)
    return value if isinstance(value, int) else 0
