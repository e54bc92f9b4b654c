"""Opening a ledger's file: its schema step by step, and each file that is none of ours is refused in a sentence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import apsw
import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite import connect as connecting
from interlock.backends.sqlite.connect import connect, migrate, migrations, open_writer
from interlock.backends.sqlite.faults import NotASqliteLedger, TooNew
from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Append, Full, Note, WriteBatch
from interlock.protocol.records import RunnerRecord

pytestmark = pytest.mark.anyio


CLOCK = ManualClock()


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


def test_migrations_are_numbered_without_gaps() -> None:
    folder = Path(connecting.__file__).parent / "migrations"
    numbers = [int(path.name[:4]) for path in sorted(folder.glob("*.sql"))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(migrations()) == len(numbers)


def test_each_step_is_applied_once_and_a_failing_one_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    steps = ["CREATE TABLE a (x); INSERT INTO a VALUES (1);", "CREATE TABLE b (x);"]
    monkeypatch.setattr(connecting, "migrations", lambda: list(steps))
    database = connect(path)
    migrate(database, path)
    migrate(database, path)
    assert database.execute("SELECT count(*) FROM a").get == 1
    steps.append("CREATE TABLE c (x); CREATE TABLE b (x);")
    with pytest.raises(apsw.SQLError):
        migrate(database, path)
    assert database.pragma("user_version") == 2
    assert database.execute("SELECT count(*) FROM sqlite_schema").get == 2
    steps[2] = "CREATE TABLE c (x);"
    migrate(database, path)
    assert database.pragma("user_version") == 3
    database.close()


async def test_a_runner_stored_before_the_last_seen_column_is_read_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    whole = migrations()
    monkeypatch.setattr(connecting, "migrations", lambda: whole[:1])
    before = open_writer(path)
    old = RunnerRecord(runner_id="local", tenant_id="default", token_sha256="h", device_name="d", created_ms=3,
                       last_seen_ms=5)
    before.execute("INSERT INTO runner (runner_id, tenant_id, token_sha256, body) VALUES (?,?,?,?)",
                   ("local", "default", "h", msgspec.json.encode(old)))
    before.close()
    monkeypatch.undo()
    ledger = await open_ledger(path, CLOCK)
    assert await ledger.runner_by_token("h") == old
    await ledger.commit(WriteBatch([Note(RUNNERS, "default", "local", 9)]))
    assert await ledger.runner("local", "default") == msgspec.structs.replace(old, last_seen_ms=9)
    await ledger.close()


async def test_a_ledger_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await (await open_ledger(path, CLOCK)).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(TooNew, match=r"schema 99.*newer program"):
        await open_ledger(path, CLOCK)


@pytest.mark.parametrize("content", [b"not a database at all, and long enough to be read" * 40, b"short"])
async def test_a_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(NotASqliteLedger, match="not a ledger"):
        await open_ledger(path, CLOCK)
    assert path.read_bytes() == content


async def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(NotASqliteLedger, match="another program"):
        await open_ledger(path, CLOCK)


async def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await open_ledger(path, CLOCK)
    for i in range(50):
        await ledger.commit(one(b"x" * 3_000, f"s/{i}"))
    await ledger.close()
    whole = bytearray(path.read_bytes())
    for page in range(2, len(whole) // 4096):
        whole[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(whole)
    with pytest.raises(NotASqliteLedger, match="damaged"):
        await open_ledger(path, CLOCK)


async def test_an_unopenable_path_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Full, match=r"cannot be opened: No such file or directory\. Check who owns it, and that"):
        await open_ledger(tmp_path / "missing" / "ledger.db", CLOCK)


READ_ONLY = """
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
exec "$2" -c "$3" "$1/ledger.db"
"""
"""Run a program of Python with a directory's ledger as its argument, while that directory is mounted read-only."""
USER_NAMESPACE = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
COUNT = """
import sys
from pathlib import Path
from interlock.backends.sqlite.connect import connect
ledger = connect(Path(sys.argv[1]), read_only=True)
print(ledger.execute("SELECT count(*) FROM stream").get, ledger.pragma("locking_mode"))
"""


def count_read_only(state: Path) -> str:
    ran = subprocess.run(["unshare", *USER_NAMESPACE, "--mount", "sh", "-ec", READ_ONLY, "sh", str(state),
                          sys.executable, COUNT], capture_output=True, check=False, text=True, timeout=60)
    return ran.stdout.strip() or ran.stderr


@pytest.mark.req("U-5")
@pytest.mark.needs("unshare")
async def test_a_ledger_on_a_read_only_file_system_can_be_read(tmp_path: Path) -> None:
    state = tmp_path / "a?b #1%20"
    state.mkdir()
    ledger = await open_ledger(state / "ledger.db", CLOCK)
    await ledger.commit(one())
    # A gateway that was killed leaves its write-ahead log, which has what the file lacks.
    assert (state / "ledger.db-wal").stat().st_size > 0
    assert count_read_only(state) == "1 normal", "it may be written through another mount"
    # A copy of the state directory may lack the index of that log, which is made again from the log.
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(state / name, copy)
    assert count_read_only(copy) == "1 exclusive"
    assert sorted(os.listdir(copy)) == ["ledger.db", "ledger.db-wal"]
    await ledger.close()
    assert not (state / "ledger.db-wal").exists()
    assert count_read_only(state) == "1 normal"


def test_an_upgrade_on_a_full_disk_names_the_cause_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    open_writer(path).close()
    steps = connecting.migrations()
    filling = "CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(1000000))"
    monkeypatch.setattr(connecting, "migrations", lambda: [*steps, "PRAGMA max_page_count = 1", filling])
    with pytest.raises(Full, match=r"database or disk is full\. Free some space on its disk\.$"):
        open_writer(path)


def test_an_upgrade_that_sqlite_rolled_back_itself_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    open_writer(path).close()
    steps = connecting.migrations()
    failing = "CREATE TABLE filler (x UNIQUE); INSERT INTO filler VALUES (1); INSERT OR ROLLBACK INTO filler VALUES (1)"
    monkeypatch.setattr(connecting, "migrations", lambda: [*steps, failing])
    with pytest.raises(Full, match=r"UNIQUE constraint failed"):
        open_writer(path)
