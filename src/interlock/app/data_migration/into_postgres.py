"""From a state directory to an empty database, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

from interlock.app.data_migration.audit_comparison import agree, database_ends, file_ends
from interlock.app.data_migration.departure import mark, why_not_here
from interlock.app.data_migration.report import MigrationReport, MoveRefused, compared
from interlock.app.data_migration.tables import NOT_MOVED, TABLES, MigratedTable, columns_there, row_there
from interlock.backends.jsonl.files import TranscriptFiles
from interlock.backends.postgres.database import (
    PostgresConnection,
    close_quietly,
    first_connection,
    read_settings,
    shown,
)
from interlock.backends.postgres.faults import translate
from interlock.backends.postgres.schema import migrate
from interlock.backends.postgres.texts import encoded
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.backends.sqlite.lock import lock_state
from interlock.ports.clock import Clock
from interlock.ports.ledger import LedgerError
from interlock.protocol.clock import iso
from interlock.session.transcript.entries import VERSION, header_line, read_stub
from interlock.session.transcript.tree import read_object
from interlock.session.transcript.versions import upgraded, version_of


async def move_into_postgres(state: Path, dsn: str, clock: Clock) -> MigrationReport:
    """Move. The ledger's file is renamed once the database has all of it. Raises MoveRefused, LedgerError,
    AlreadyRunning."""
    path = state / LEDGER_NAME
    if not path.is_file():
        raise MoveRefused(why_not_here(state) or f"There is no ledger in {state}, so there is nothing to move: name "
                          "its directory with --state.")
    lock = lock_state(state)
    try:
        source = await asyncio.to_thread(open_writer, path)
        try:
            _knows_all_tables(source)
            kept = path.with_name(f"{LEDGER_NAME}.moved-{clock.now_ms()}")
            moved = await _move(source, state, dsn, clock, str(kept))
        finally:
            source.close()
        path.rename(kept)
        mark(state, shown(dsn), "moved")
        for end in ("-wal", "-shm"):
            path.with_name(LEDGER_NAME + end).unlink(missing_ok=True)
        return moved
    finally:
        lock.release()


async def _move(source: SqliteDatabase, state: Path, dsn: str, clock: Clock, left: str) -> MigrationReport:
    ends = file_ends(source)
    settings = read_settings(dsn)
    connection = await first_connection(settings)
    try:
        await migrate(connection, dsn)
        await connection.execute("BEGIN")
        # A gateway that is started there meanwhile waits, and then finds this ledger.
        await connection.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")
        gateway_id = str(source.execute("SELECT value FROM store WHERE name = 'gateway_id'").get)
        if await connection.fetchval("SELECT value FROM store WHERE name = 'gateway_id'") == gateway_id:
            counts = _counted(source)  # A move that was interrupted before its last step: the result is verified again.
        else:
            await _refuse_full(connection, dsn)
            await connection.execute("DELETE FROM store")
            counts = {table.name: await _copy(source, connection, table) for table in TABLES}
            await _copy_transcripts(source, connection, state, clock)
        compared(counts, {table.name: await connection.fetchval(f"SELECT count(*) FROM {table.name}")
                          for table in TABLES})
        records = agree(ends, await database_ends(connection))
        transcripts = await connection.fetchval("SELECT count(*) FROM transcript")
        lines = await connection.fetchval("SELECT count(*) FROM transcript_line")
        # Whether an interrupted commit took place is known to the database only: until this is called again, no gateway
        # runs on the file.
        mark(state, shown(dsn), "committing")
        await connection.execute("COMMIT")
    except (MoveRefused, LedgerError):
        raise
    except Exception as error:
        raise translate(error) from error
    finally:
        await close_quietly(connection)  # What was not committed is rolled back.
    return MigrationReport(gateway_id=gateway_id, rows=counts, transcripts=transcripts, transcript_lines=lines,
                           audit_records=records, left=left)


def _counted(source: SqliteDatabase) -> dict[str, int]:
    return {table.name: source.execute(f"SELECT count(*) FROM {table.name}").get for table in TABLES}


async def _refuse_full(connection: PostgresConnection, dsn: str) -> None:
    for name in (*(table.name for table in TABLES if table.name != "store"), "transcript", "instance"):
        if await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {name})"):
            raise MoveRefused(f"The database at {shown(dsn)} is not empty (there are rows of {name}), so nothing was "
                              "moved. Name another database that is empty with --to; or, if what is in this one is to "
                              "go, stop its gateways and make it new (dropdb, then createdb).")


def _knows_all_tables(source: SqliteDatabase) -> None:
    found = {row[0] for row in source.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()}
    unknown = found - {table.name for table in TABLES} - {*NOT_MOVED} - {"sqlite_sequence"}
    if unknown:
        raise MoveRefused(f"The ledger has tables that this program does not move: {', '.join(sorted(unknown))}.")


async def _copy(source: SqliteDatabase, connection: PostgresConnection, table: MigratedTable) -> int:
    rows = cast("Iterator[tuple[Any, ...]]", source.execute(
        f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {table.order}"))
    count = 0

    def made() -> Iterator[tuple[Any, ...]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row_there(table, row)

    await copy_rows(connection, table.name, columns_there(table), made())
    if table.counter:
        await connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', '{table.counter}'), "
            f"coalesce((SELECT max({table.counter}) FROM {table.name}), 0) + 1, false)")
    return count


async def copy_rows(connection: PostgresConnection, name: str, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]
                    ) -> None:
    """Write rows as one stream."""
    await cast("Any", connection).copy_records_to_table(name, records=rows, columns=columns, timeout=None)


async def _copy_transcripts(source: SqliteDatabase, connection: PostgresConnection, state: Path, clock: Clock) -> None:
    """Copy the files' entries, then the lines that wait for them."""
    sessions = {row[0]: row[1:] for row in source.execute(
        "SELECT session_id, agent_id, workspace, created_ms FROM session").fetchall()}
    await copy_transcripts(source, connection, state, clock, sessions, transcript_files(state))


async def copy_transcripts(source: SqliteDatabase, connection: PostgresConnection, state: Path, clock: Clock,
                           sessions: dict[str, tuple[Any, ...]], there: dict[str, Path],
                           only: Collection[str] | None = None) -> None:
    """Copy transcripts: `there` are their files by session, and `sessions` has agent, workspace and start of each; with
    `only`, just those sessions."""
    files = TranscriptFiles(state, clock)
    waiting: dict[str, list[tuple[str, bytes]]] = {}
    for session_id, entry_id, line in source.execute(
            "SELECT session_id, entry_id, line FROM transcript_pending ORDER BY place").fetchall():
        waiting.setdefault(session_id, []).append((entry_id, line))
    for session_id in [*there, *(one for one in waiting if one not in there)]:
        if only is not None and session_id not in only:
            continue
        path = there.get(session_id)
        if path is None and session_id not in sessions:
            raise MoveRefused(f"Lines of a transcript wait for session {session_id}, and there is no such session.")
        agent_id = path.parent.parent.name if path is not None else sessions[session_id][0]
        whole = files.lines(path) if path is not None else [
            header_line(session_id, iso(sessions[session_id][2]), sessions[session_id][1])]
        await _copy_transcript(connection, session_id, agent_id, _modern(whole), waiting.get(session_id, []))


def transcript_files(state: Path) -> dict[str, Path]:
    """Return the files of transcripts by session."""
    return {path.stem: path for path in sorted(state.glob("agents/*/sessions/*.jsonl"))}


async def _copy_transcript(connection: PostgresConnection, session_id: str, agent_id: str, whole: list[bytes],
                           waiting: list[tuple[str, bytes]]) -> None:
    rows: list[tuple[Any, ...]] = []
    known = set[str]()
    for number, line in enumerate(whole):
        stub = read_stub(line)
        entry_id = stub.id if stub is not None and stub.type not in ("", "session") else None
        known.add(entry_id or "")
        rows.append((encoded(session_id), number, encoded(entry_id) if entry_id is not None else None, line))
    for entry_id, line in waiting:
        if entry_id not in known:
            rows.append((encoded(session_id), len(rows), encoded(entry_id), line))
    await connection.execute("INSERT INTO transcript (session_id, agent_id, lines) VALUES ($1, $2, $3)",
                             encoded(session_id), encoded(agent_id), len(rows))
    await copy_rows(connection, "transcript_line", ("session_id", "n", "entry_id", "line"), iter(rows))


def _modern(lines: list[bytes]) -> list[bytes]:
    """Return a transcript of version 1 or 2 as it would be converted when it is next appended to (X-2)."""
    first = read_object(lines[0]) if lines else None
    if first is None or first.get("type") != "session" or version_of(first) >= VERSION:
        return lines
    return [line for line in upgraded(lines) if line]

