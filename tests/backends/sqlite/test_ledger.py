"""The ledger's file: opening, migrations, refusals, triggers, a full disk, and kill -9."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from interlock.backends.sqlite import connect as connecting
from interlock.backends.sqlite import transaction, writer
from interlock.backends.sqlite.connect import connect, migrate, migrations, open_writer
from interlock.backends.sqlite.faults import NotASqliteLedger, TooNew
from interlock.backends.sqlite.ledger import SqliteLedger, open_ledger
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.writer import SqliteWriter
from interlock.command.audit_check import verify_records
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Append, AuditAppend, Full, LedgerError, Note, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, RunnerRecord

pytestmark = pytest.mark.anyio


class StandingClock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


CLOCK = StandingClock()
DRAFT = AuditDraft(tenant_id="t1", at=iso(0), who={"id": "u", "role": "owner"}, action="enqueue")


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append(stream, "C", 0, body)])


@pytest.mark.req("C-4", "S-1", "D-5", "U-2")
async def test_everything_is_there_after_the_next_opening(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await open_ledger(path, CLOCK)
    name = await ledger.gateway_id()
    await ledger.commit(WriteBatch([Append("s/1", "C", 0, b"1"), Append("s/2", "C", 0, b"2"), AuditAppend(DRAFT)]))
    assert await ledger.take("lane") == 1
    head = await ledger.audit_head("t1")
    await ledger.close()
    assert not path.with_name("ledger.db-wal").exists(), "a closed ledger is one file"

    again = await open_ledger(path, CLOCK)
    assert await again.gateway_id() == name
    assert await again.audit_head("t1") == head
    assert (await again.commit(WriteBatch([Append("s/3", "C", 0, b"3"), *one().writes,
                                           AuditAppend(DRAFT)]))).numbers == [1, 2]
    assert await again.take("lane") == 2
    assert [event.body for event in await again.events("s/2", 0, 9)] == [b"2"]
    await again.close()


async def test_the_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch(0o644)
    ledger = await open_ledger(path, CLOCK)
    await ledger.commit(one())
    assert {entry.name: oct(entry.stat().st_mode & 0o777) for entry in tmp_path.iterdir()} == {
        "ledger.db": "0o600", "ledger.db-wal": "0o600", "ledger.db-shm": "0o600"
    }  # fmt: skip
    await ledger.close()


async def test_what_was_handed_over_before_close_is_kept(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    commits = [asyncio.ensure_future(ledger.commit(one())) for _ in range(300)]
    await asyncio.sleep(0)
    await ledger.close()
    assert [receipt.numbers for receipt in await asyncio.gather(*commits)] == [[n] for n in range(1, 301)]
    ledger.close_now()


async def test_a_commit_goes_on_when_its_caller_gives_up(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    commit = asyncio.ensure_future(ledger.commit(one()))
    await asyncio.sleep(0)
    commit.cancel()
    assert (await ledger.commit(one())).numbers == [2]
    await ledger.close()


async def test_more_batches_than_the_queue_takes_wait_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WRITE_QUEUE_LIMIT", 3)
    monkeypatch.setattr(writer, "GROUP_LIMIT", 2)
    monkeypatch.setattr(transaction, "CACHED_STREAMS", 4)
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    receipts = await asyncio.gather(*(ledger.commit(WriteBatch([*one().writes, *one(b"y", f"s/x{i % 9}").writes]))
                                      for i in range(90)))
    assert [receipt.numbers for receipt in receipts] == [[i + 1, i // 9 + 1] for i in range(90)]
    await ledger.close()


async def test_what_one_turn_of_the_loop_asks_for_goes_over_together(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    sizes: list[int] = []
    ledger.measure(lambda batches, _seconds: sizes.append(batches))
    await asyncio.gather(*(ledger.commit(one()) for _ in range(40)))
    await ledger.commit(one())
    assert sizes == [40, 1]
    await ledger.close()


async def test_what_was_asked_for_before_the_end_is_done_and_nothing_after(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    asked = [asyncio.ensure_future(ledger.commit(one())) for _ in range(3)]
    await asyncio.sleep(0)
    ledger.close_now()  # Before the loop had a turn to hand them over.
    assert [receipt.numbers for receipt in await asyncio.gather(*asked)] == [[1], [2], [3]]
    with pytest.raises(LedgerError):
        await ledger.commit(one())


# --- migrations ---


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


async def test_a_runner_from_before_its_last_sight_had_a_column_is_read_as_it_was(
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


# --- files that are no ledger ---


@pytest.mark.parametrize("content", [b"not a database at all, and long enough to be read" * 40, b"short"])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
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


async def test_a_path_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Full, match="cannot be opened"):
        await open_ledger(tmp_path / "missing" / "ledger.db", CLOCK)


# --- the audit table refuses changes by itself ---


@pytest.mark.req("U-2")
@pytest.mark.parametrize("statement", [
    "UPDATE audit SET hash = 'x' WHERE seq = 1",
    "UPDATE audit SET seq = 9 WHERE seq = 2",
    "DELETE FROM audit",
    "DELETE FROM audit WHERE seq = 2",
    "INSERT OR REPLACE INTO audit VALUES ('t1', 1, 'x', x'00')",
    "REPLACE INTO audit VALUES ('t1', 2, 'x', x'00')",
    "INSERT INTO audit VALUES ('t1', 1, 'x', x'00') ON CONFLICT DO UPDATE SET body = x'00'",
])  # fmt: skip
async def test_sql_cannot_change_the_audit_log(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "ledger.db"
    ledger = await open_ledger(path, CLOCK)
    await ledger.commit(WriteBatch([AuditAppend(DRAFT), AuditAppend(DRAFT)]))
    before = await ledger.audit("t1", 0, 9)
    other = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="an audit record is never"):
        other.execute(statement)
    other.close()
    assert await ledger.audit("t1", 0, 9) == before
    await ledger.close()


@pytest.mark.req("U-2")
async def test_the_audit_table_has_no_rowid_to_replace_a_record_by(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await (await open_ledger(path, CLOCK)).close()
    other = sqlite3.connect(path)
    with pytest.raises(sqlite3.OperationalError, match="no column named rowid"):
        other.execute("INSERT OR REPLACE INTO audit (rowid, tenant_id, seq, hash, body) VALUES (1, 't1', 9, 'x', x'')")
    other.close()


# --- a full disk ---


@pytest.mark.req("C-4", "U-1")
async def test_a_full_disk_fails_the_batch_and_the_ledger_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = open_writer(path)
    pages = int(database.pragma("page_count"))
    database.pragma("max_page_count", pages + 40)
    ledger = SqliteLedger("gw_test", SqliteWriter(database), SqliteReaders(path))
    outcomes: list[Any] = await asyncio.gather(
        *(ledger.commit(WriteBatch([Append("s/1", "C", 0, b"x" * 20_000), AuditAppend(DRAFT)])) for _ in range(60)),
        return_exceptions=True,
    )
    for _ in range(12):
        outcomes += await asyncio.gather(ledger.commit(one(b"x" * 20_000)), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    kept = sorted(outcome.numbers[0] for outcome in outcomes if not isinstance(outcome, BaseException))
    assert failed
    assert kept
    assert all(isinstance(error, Full) and "disk is full" in str(error) for error in failed)
    assert kept == list(range(1, len(kept) + 1))
    assert await ledger.head("s/1") == len(kept)
    assert len(await ledger.events("s/1", 0, 100)) == len(kept)
    await ledger.close()

    again = await open_ledger(path, CLOCK)
    assert (await again.commit(WriteBatch([*one(b"x" * 20_000).writes, AuditAppend(DRAFT)]))).numbers == [len(kept) + 1]
    assert verify_records(await again.audit("t1", 0, 1_000), None).records == (await again.audit_head("t1"))[0]
    await again.close()


async def test_a_write_that_has_no_row_form_fails_alone(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    bad = WriteBatch([Append("s/1", "C", 0, object())])  # pyright: ignore[reportArgumentType]
    outcomes = await asyncio.gather(*(ledger.commit(batch) for batch in (one(), bad, one())), return_exceptions=True)
    assert [getattr(outcome, "numbers", None) for outcome in outcomes] == [[1], None, [2]]
    assert isinstance(outcomes[1], LedgerError)
    await ledger.close()


# --- kill -9 ---


@pytest.mark.req("C-4", "D-1", "S-1", "U-2")
async def test_what_was_acknowledged_survives_kill_9_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    program = Path(__file__).with_name("committing_process.py")
    acknowledged: dict[int, str] = {}
    for lines in (40, 400, 900):
        child = subprocess.Popen([sys.executable, str(program), str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        for line in said:
            if line.endswith("\n"):
                number, token = line.split()
                assert int(number) not in acknowledged
                acknowledged[int(number)] = token

    ledger = await open_ledger(path, CLOCK)
    head = await ledger.head("s/1")
    events = await ledger.events("s/1", 0, head + 10)
    assert [event.n for event in events] == list(range(1, head + 1))
    bodies = [event.body.decode() for event in events]
    assert len(set(bodies)) == len(bodies)
    assert {n: bodies[n - 1] for n in acknowledged} == acknowledged
    log = await ledger.audit("t1", 0, head + 10)
    assert verify_records(log, None).records == len(log) == head
    await ledger.close()
