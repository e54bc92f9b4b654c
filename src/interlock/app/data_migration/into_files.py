"""From a database to a state directory: created beside it, verified, and put in place at the end."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any, cast

import msgspec

from interlock.app.data_migration.audit_comparison import agree, database_ends, file_ends
from interlock.app.data_migration.departure import DRAFT, READY, unmark
from interlock.app.data_migration.report import MigrationReport, MoveRefused, compared
from interlock.app.data_migration.tables import TABLES, MigratedTable, columns_there, row_here
from interlock.backends.jsonl.files import TranscriptFiles
from interlock.backends.postgres.audit_rows import BEGIN_READING
from interlock.backends.postgres.database import (
    PostgresConnection,
    close_quietly,
    first_connection,
    read_settings,
    shown,
)
from interlock.backends.postgres.faults import translate
from interlock.backends.postgres.schema import MOVED, migrate
from interlock.backends.postgres.texts import decoded
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.backends.sqlite.lock import lock_state
from interlock.durable_files import replace_file, sync_directory, sync_tree
from interlock.ports.clock import Clock
from interlock.ports.ledger import LedgerError

PAGE = 500
_ALIVE = "SELECT count(*) FROM instance WHERE expires_ms > interlock_now_ms()"
_KEPT_NAME = re.compile(r"[A-Za-z0-9._:-]+")
_TRANSCRIPTS = "SELECT session_id, kept, agent_id FROM transcript ORDER BY session_id, kept"
_LINES = "SELECT line FROM transcript_line WHERE session_id = $1 AND kept = $2 ORDER BY n"


async def move_into_files(state: Path, dsn: str, clock: Clock) -> MigrationReport:
    """Move. The database is marked once the files have all of it. Raises MoveRefused, LedgerError, AlreadyRunning."""
    lock = lock_state(state)
    draft = state / DRAFT
    try:
        if not (draft / READY).exists():
            shutil.rmtree(draft, ignore_errors=True)
        all_placed = draft.exists() and not (draft / LEDGER_NAME).exists()  # Only the draft was not removed.
        if ((state / LEDGER_NAME).exists() and not all_placed) or (not draft.exists() and _has_transcripts(state)):
            if (state / LEDGER_NAME).exists() and (moved := await _moved_before(state, dsn)) is not None:
                return moved
            raise MoveRefused(f"{state} has a ledger or transcripts already, so nothing was moved: name an empty "
                              "directory with --state.")
        draft.mkdir(mode=0o700, exist_ok=True)
        moved = await _move(state, draft, dsn, clock)
        # From here on the database states that its ledger is here; an interrupted move is continued by the next call.
        _place(draft, state)
        return moved
    finally:
        lock.release()


def _has_transcripts(state: Path) -> bool:
    return any(state.glob("agents/*/sessions/*.jsonl"))


async def _move(state: Path, draft: Path, dsn: str, clock: Clock) -> MigrationReport:
    connection = await first_connection(read_settings(dsn))
    try:
        await migrate(connection, dsn)
        await connection.execute(BEGIN_READING.replace("READ ONLY", "READ WRITE"))
        # No gateway starts there meanwhile: it would write data that is then not moved.
        await connection.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")
        before = await _before(connection, state, draft, dsn)
        if before is not None:
            return before
        target = await asyncio.to_thread(open_writer, draft / LEDGER_NAME)
        try:
            counts = await _copy_tables(connection, target)
            compared({table.name: await connection.fetchval(f"SELECT count(*) FROM {table.name}") for table in TABLES},
                     {table.name: target.execute(f"SELECT count(*) FROM {table.name}").get for table in TABLES})
            records = agree(await database_ends(connection), file_ends(target))
            gateway_id = str(target.execute("SELECT value FROM store WHERE name = 'gateway_id'").get)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            target.close()
        transcripts, lines = await _copy_transcripts(connection, draft, clock)
        moved = MigrationReport(gateway_id=gateway_id, rows=counts, transcripts=transcripts, transcript_lines=lines,
                                audit_records=records, left=shown(dsn))
        # All of it is durable before the database states that it is here.
        await asyncio.to_thread(sync_tree, draft)
        replace_file(draft / READY, msgspec.json.encode(moved))
        sync_directory(state)
        await connection.execute("INSERT INTO store (name, value) VALUES ($1, $2)", MOVED, str(state))
        await connection.execute("COMMIT")
    except (MoveRefused, LedgerError):
        raise
    except Exception as error:
        raise translate(error) from error
    finally:
        await close_quietly(connection)
    return moved


async def _moved_before(state: Path, dsn: str) -> MigrationReport | None:
    """Return what an earlier call has moved from the database to this directory; None if none has. Raises LedgerError.
    """
    connection = await first_connection(read_settings(dsn))
    try:
        if await connection.fetchval("SELECT to_regclass('store')") is None or \
                await connection.fetchval("SELECT value FROM store WHERE name = $1", MOVED) != str(state):
            return None
        return MigrationReport(
            gateway_id=await connection.fetchval("SELECT value FROM store WHERE name = 'gateway_id'"),
            rows={table.name: await connection.fetchval(f"SELECT count(*) FROM {table.name}") for table in TABLES},
            transcripts=await connection.fetchval("SELECT count(*) FROM transcript WHERE kept = ''"),
            transcript_lines=await connection.fetchval("SELECT count(*) FROM transcript_line WHERE kept = ''"),
            audit_records=sum(end.records for end in (await database_ends(connection)).values()), left=shown(dsn),
            already=True)
    except (MoveRefused, LedgerError):
        raise
    except Exception as error:
        raise translate(error) from error
    finally:
        await close_quietly(connection)


async def _before(connection: PostgresConnection, state: Path, draft: Path, dsn: str) -> MigrationReport | None:
    """Return what an earlier call has moved, all but its last step; refuse what cannot be moved. Raises MoveRefused."""
    ready = draft / READY
    marked = await connection.fetchval("SELECT value FROM store WHERE name = $1", MOVED)
    if ready.exists() and marked == str(state):
        return msgspec.json.decode(ready.read_bytes(), type=MigrationReport)
    if ready.exists():
        _fresh(draft)  # It was created from another database.
        if _has_transcripts(state):
            raise MoveRefused(f"{state} has transcripts already, so nothing was moved: name an empty directory with "
                              "--state.")
    await _refuse(connection, dsn)
    return None


def _fresh(draft: Path) -> None:
    shutil.rmtree(draft)
    draft.mkdir(mode=0o700)


async def _refuse(connection: PostgresConnection, dsn: str) -> None:
    if await connection.fetchval("SELECT count(*) FROM store WHERE name = 'gateway_id'") == 0:
        raise MoveRefused(f"There is no ledger at {shown(dsn)}, so there is nothing to move.")
    moved = await connection.fetchval("SELECT value FROM store WHERE name = $1", MOVED)
    if moved is not None:
        raise MoveRefused(f"The ledger at {shown(dsn)} was moved to {moved} already.")
    if await connection.fetchval(_ALIVE):
        raise MoveRefused(f"Gateways work on the ledger at {shown(dsn)}: stop them first.")
    if await connection.fetchval("SELECT EXISTS (SELECT 1 FROM transcript_pending)"):
        raise MoveRefused("Lines of transcripts wait for files beside the database; start its gateway once more, so "
                          "that it writes them.")


async def _copy_tables(connection: PostgresConnection, target: SqliteDatabase) -> dict[str, int]:
    counts: dict[str, int] = {}
    target.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        counts[table.name] = await _copy(connection, target, table)
    target.execute("COMMIT")
    return counts


async def _copy(connection: PostgresConnection, target: SqliteDatabase, table: MigratedTable) -> int:
    there = columns_there(table)
    order = "stream_id, n" if table.name == "event" else table.order
    insert = (f"INSERT INTO {table.name} ({', '.join(table.columns)}) "
              f"VALUES ({', '.join('?' * len(table.columns))})")
    rows = cast("Any", connection).cursor(f"SELECT {', '.join(there)} FROM {table.name} ORDER BY {order}",
                                          prefetch=PAGE)
    count = 0
    async for row in rows:
        target.execute(insert, row_here(table, tuple(row)))
        count += 1
    return count


async def _copy_transcripts(connection: PostgresConnection, draft: Path, clock: Clock) -> tuple[int, int]:
    files = TranscriptFiles(draft, clock)
    count = lines = 0
    for session_id, kept, agent_id in await connection.fetch(_TRANSCRIPTS):
        found = [row[0] for row in await connection.fetch(_LINES, session_id, kept)]
        path = files.path(decoded(session_id), decoded(agent_id))
        if kept:
            if not _KEPT_NAME.fullmatch(kept):
                raise MoveRefused(f"A kept transcript has the name {kept!r}, which names no file.")
            path = path.with_name(kept)
        await asyncio.to_thread(files.publish, path, found)
        count, lines = count + (not kept), lines + (0 if kept else len(found))
    return count, lines


def _place(draft: Path, state: Path) -> None:
    """Move everything into place, the ledger last: without it nothing else is used. READY is removed after everything
    else: while it exists, an interrupted move is completed."""
    _join(draft / "agents", state / "agents")
    if (draft / LEDGER_NAME).exists():
        unmark(state)
        (draft / LEDGER_NAME).rename(state / LEDGER_NAME)
    sync_directory(state)
    for left in sorted(draft.iterdir()):
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != READY:
            left.unlink()
    shutil.rmtree(draft)


def _join(source: Path, target: Path) -> None:
    """Merge directories into existing ones of that name, which hold no transcript. The new names are durable."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.rename(place)
    if target.exists():
        sync_tree(target)
