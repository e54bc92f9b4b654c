"""The ledger's file: opening, migrations, refusals, triggers, a full disk, and kill -9."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import open_ledger
from interlock.command.audit.audit_check import verify_records
from interlock.ports.ledger import Append, AuditAppend, LaneName, PutIdempotency, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, IdempotencyRecord

pytestmark = pytest.mark.anyio


CLOCK = ManualClock()
DRAFT = AuditDraft(tenant_id="t1", at=iso(0), who={"id": "u", "role": "owner"}, action="enqueue")


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


@pytest.mark.req("C-4", "S-1", "D-5", "U-2")
async def test_everything_is_still_stored_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await open_ledger(path, CLOCK)
    name = await ledger.gateway_id()
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 0, b"1"), Append("t1", "s/2", "C", 0, b"2"),
                                    AuditAppend(DRAFT)]))
    assert await ledger.take(LaneName("", "lane")) == 1
    head = await ledger.audit_head("t1")
    await ledger.close()
    assert not path.with_name("ledger.db-wal").exists(), "a closed ledger is one file"

    again = await open_ledger(path, CLOCK)
    assert await again.gateway_id() == name
    assert await again.audit_head("t1") == head
    assert (await again.commit(WriteBatch([Append("t1", "s/3", "C", 0, b"3"), *one().writes,
                                           AuditAppend(DRAFT)]))).numbers == [1, 2]
    assert await again.take(LaneName("", "lane")) == 2
    assert [event.body for event in await again.events("t1", "s/2", 0, 9)] == [b"2"]
    await again.close()


@pytest.mark.req("M-1")
async def test_answers_of_an_earlier_run_are_found_once_their_scopes_are_loaded(tmp_path: Path) -> None:
    stored = [IdempotencyRecord(tenant_id="t1", scope=scope, fingerprint="f", status=202, headers={}, body=b"{}",
                                created_ms=0) for scope in ("first", "second")]
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    await ledger.commit(WriteBatch(list(map(PutIdempotency, stored))))
    await ledger.close()

    again = await open_ledger(tmp_path / "ledger.db", CLOCK)
    assert await again.idempotency("first", "t1") == stored[0], "while the scopes are being loaded"
    await asyncio.gather(*(task for task in asyncio.all_tasks() if "_learn_scopes" in repr(task)))
    assert [await again.idempotency(one.scope, "t1") for one in stored] == stored
    assert await again.idempotency("third", "t1") is None
    await again.close()


async def test_the_file_is_accessible_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch(0o644)
    ledger = await open_ledger(path, CLOCK)
    await ledger.commit(one())
    assert {entry.name: oct(entry.stat().st_mode & 0o777) for entry in tmp_path.iterdir()} == {
        "ledger.db": "0o600", "ledger.db-wal": "0o600", "ledger.db-shm": "0o600"
    }  # fmt: skip
    await ledger.close()


# --- migrations ---


# --- files that are not a ledger ---


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
async def test_the_audit_table_has_no_rowid_that_could_replace_a_record(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await (await open_ledger(path, CLOCK)).close()
    other = sqlite3.connect(path)
    with pytest.raises(sqlite3.OperationalError, match="no column named rowid"):
        other.execute("INSERT OR REPLACE INTO audit (rowid, tenant_id, seq, hash, body) VALUES (1, 't1', 9, 'x', x'')")
    other.close()


# --- a full disk ---


# --- kill -9 ---


@pytest.mark.req("C-4", "D-1", "S-1", "U-2")
async def test_acknowledged_batches_survive_kill_9_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    program = Path(__file__).with_name("committing_process.py")
    acknowledged: dict[int, str] = {}
    for lines in (40, 400, 900):
        child = subprocess.Popen([sys.executable, str(program), str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        printed = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        printed += child.stdout.readlines()
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        for line in printed:
            if line.endswith("\n"):
                number, token = line.split()
                assert int(number) not in acknowledged
                acknowledged[int(number)] = token

    ledger = await open_ledger(path, CLOCK)
    head = await ledger.head("t1", "s/1")
    events = await ledger.events("t1", "s/1", 0, head + 10)
    assert [event.n for event in events] == list(range(1, head + 1))
    bodies = [event.body.decode() for event in events]
    assert len(set(bodies)) == len(bodies)
    assert {n: bodies[n - 1] for n in acknowledged} == acknowledged
    log = await ledger.audit("t1", 0, head + 10)
    assert verify_records(log, None).records == len(log) == head
    await ledger.close()
