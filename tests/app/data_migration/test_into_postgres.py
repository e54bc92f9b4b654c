"""A ledger that moves into PostgreSQL and back is the same ledger: rows, order, transcripts, and an unbroken chain."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from interlock.app.data_migration import into_files, into_postgres
from interlock.app.data_migration.into_files import move_into_files
from interlock.app.data_migration.into_postgres import move_into_postgres
from interlock.app.data_migration.report import MoveRefused
from interlock.app.data_migration.tables import TABLES
from interlock.app.stores import open_stores
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.audit_rows import audit_rows
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.faults import NotAPostgresLedger
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.postgres.transcripts import PostgresTranscripts
from interlock.backends.sqlite.connect import connect
from interlock.backends.sqlite.ledger import open_ledger
from interlock.backends.sqlite.lock import AlreadyRunning, lock_state
from interlock.command.audit.audit_check import verify_records
from interlock.config import ClusterSection
from interlock.engine.lanes.rows import RowAudit
from interlock.gateway.audit.row_state import compare_rows
from interlock.ports.leases import Instance
from interlock.ports.ledger import (
    Add,
    Append,
    AuditAppend,
    EraseAudit,
    LaneName,
    LedgerError,
    Put,
    PutApproval,
    PutCommand,
    PutControl,
    PutFile,
    PutIdempotency,
    PutSession,
    PutTranscript,
    WriteBatch,
)
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    BrowserLoginRecord,
    CommandRecord,
    ControlRecord,
    DeliveryRecord,
    DrainRecord,
    FileRecord,
    IdempotencyRecord,
    KeyRecord,
    PairingRecord,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    TranscriptLine,
    UsageRecord,
)
from interlock.protocol.resources import Actor, Approval, Command, Delivery, RememberedRule, SigningKey, Target

pytestmark = pytest.mark.anyio
DAY = "2026-01-01T00:00:00.000Z"


class Broken(BaseException):
    """As a kill would: nothing catches it."""


CLOCK = ManualClock()


def line(entry_id: str, session_id: str = "S1") -> TranscriptLine:
    return TranscriptLine(tenant_id="t1", session_id=session_id, entry_id=entry_id,
                          line=b'{"type":"custom","id":"%s","parentId":null}' % entry_id.encode())


def session(session_id: str) -> PutSession:
    return PutSession(SessionRecord(
        session_id=session_id, tenant_id="t1", session_key="agent:shell:main", agent_id="shell", runner_id="r1",
        workspace="/w\0", state="idle", created_ms=1, updated_ms=2, deadline_ms=3, machine=b"\x00\xff", usage={"a": 1}))


def everything() -> list[Any]:
    """A row of every kind, some of them twice."""
    user = Actor(type="user", id="u")
    command = Command(id="c1", created_at=iso(1), updated_at=iso(2), tenant_id="t1", actor=user, type="execute",
                      target=Target(agent_id="shell"), state="succeeded", timeout_ms=5, payload=msgspec.Raw(b"{}"),
                      ended_at=iso(5))
    approval = Approval(id="a1", tenant_id="t1", door="tool", state="pending", created_at=iso(1), expires_at=iso(9),
                        title="x", agent_id="shell", session_id="S1", digest="00", input=msgspec.Raw(b"{}"), rule="all")
    return [
        session("S1"), session("S2"), PutCommand(CommandRecord(command=command, session_id="S1", created_ms=17)),
        PutApproval(ApprovalRecord(approval=approval, expires_ms=9)),
        PutControl(ControlRecord(session_id="S1", seq=4, message_id="m", body=b"\x00"), "t1"),
        PutFile(FileRecord(session_id="S1", transfer_id="f", name="f", media_type="x", size=1, sha256="", purpose="in",
                           created_ms=1, objects=["o1", "o2"]), "t1"),
        PutIdempotency(IdempotencyRecord(tenant_id="t1", scope="k", fingerprint="f", status=202, headers={},
                                         body=b"\xff", created_ms=1)),
        Put(RunnerRecord(runner_id="r1", tenant_id="t1", token_sha256="h", device_name="d", created_ms=1,
                         last_seen_ms=2)),
        Put(BrowserLoginRecord(
            id="brs_1", form="session", tenant_id="t1", principal=user, role="owner", key_id="k1", key_sha256="h",
            created_ms=1, expires_ms=9, last_used_ms=3)),
        Put(PairingRecord(code_sha256="p", tenant_id="t1", by={"id": "u", "role": "owner"}, created_ms=1,
                          expires_ms=2)),
        Put(KeyRecord(key_sha256="h", key_id="k1", tenant_id="t1", role="owner", principal=user, created_ms=1)),
        Put(RuleRecord(rule=RememberedRule(id="ru", tenant_id="t1", approval_id="a1", rule={}, created_at=DAY,
                                           created_by="u", revoked_at=DAY))),
        Put(SigningKeyRecord(key=SigningKey(key_id="s", tenant_id="t1", owner=user, public_key="x",
                                            created_at=DAY))),
        Put(TenantRecord(tenant_id="t1", name="one", created_ms=1)),
        Put(DeliveryRecord(delivery=Delivery(id="d", tenant_id="t1", channel="h", approval_id="a1",
                                             state="pending", created_at=DAY), due_ms=5)),
        Put(DrainRecord(tenant_id="", drain=Drain(scope="gateway", at=DAY, by="u"))),
        Add(SpendingRecord(tenant_id="t1", budget="b", scope="", day=3, spent_micros=5)),
        Add(UsageRecord(tenant_id="t1", day=3, agent_id="shell", person="user:ann", turns=1)),
        *(Append("t1", "s/S1", "C", 5, b"%d" % number, f"m{number}") for number in range(5)),
        Append("t1", "t/t1", "feed", 5, b"{}"),
        *(AuditAppend(AuditDraft(tenant_id=tenant, at=DAY, who={"id": "u", "role": "owner"}, action="enqueue",
                                 personal={"reason": f"because {number}"}))
          for number in range(300) for tenant in ("t1", "t2")),
        PutTranscript(line("c")), PutTranscript(line("d")), PutTranscript(line("x", "S2")),
    ]


@pytest.fixture
async def state(tmp_path: Path) -> Path:
    """A state directory with something of everything: a transcript with entries in the file and others on their way."""
    directory = tmp_path / "state"
    directory.mkdir()
    ledger = await open_ledger(directory / "ledger.db", CLOCK)
    await ledger.take(LaneName("t1", "S1"))
    await ledger.commit(WriteBatch(everything()))
    await ledger.commit(WriteBatch([EraseAudit("t1", (7,))]))
    transcripts = JsonlTranscripts(directory, CLOCK)
    await transcripts.append(TranscriptHeader("S1", "shell", "/w", DAY, "t1"), [line("a"), line("b"), line("c")])
    await transcripts.close()
    await ledger.close()
    return directory


def dump(path: Path) -> dict[str, list[Any]]:
    database = connect(path, read_only=True)
    found = {table.name: database.execute(
        f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {table.order}").fetchall() for table in TABLES}
    database.close()
    return found


@pytest.mark.req("U-2", "X-3")
async def test_a_round_trip_gives_the_same_ledger(state: Path, empty_database: str, tmp_path: Path) -> None:
    before = dump(state / "ledger.db")
    assert all(before.values()), "a row of every table is moved here"
    moved = await move_into_postgres(state, empty_database, CLOCK)
    assert moved.audit_records == 600
    assert (moved.transcripts, moved.transcript_lines) == (2, 7)
    assert moved.rows["event"] == 6
    assert not (state / "ledger.db").exists()
    assert Path(moved.left).exists()

    ledger = await open_in_postgres(PostgresSettings(empty_database), CLOCK, keeps_transcripts=True)
    transcripts = PostgresTranscripts(ledger, CLOCK)
    assert await ledger.gateway_id() == moved.gateway_id
    assert [event.body for event in await ledger.events("t1", "s/S1", 2, 9)] == [b"2", b"3", b"4"]
    assert (await transcripts.read("S1", "shell", "t1"))[1:] == [line(one).line for one in "abcd"]
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "b", "c", "d"}
    assert await transcripts.leaf("S2", "shell", "t1") == "x"
    assert (await ledger.audit("t1", 6, 1))[0].personal == {}
    found = await ledger.session("S1")
    assert found is not None
    assert found.workspace == "/w\0"
    # Later rows continue the numbers.
    assert (await ledger.commit(WriteBatch([Append("t1", "s/S1", "C", 6, b"5"), session("S3"),
                                            PutTranscript(line("y", "S3"))]))).numbers == [6]
    assert [one.session_id for one in await ledger.runner_sessions("r1", "t1")] == ["S1", "S2", "S3"]
    assert await ledger.take(LaneName("t1", "S1")) == 2
    await ledger.close()

    back = tmp_path / "back"
    back.mkdir()
    again = await move_into_files(back, empty_database, CLOCK)
    assert again.gateway_id == moved.gateway_id
    assert again.transcripts == 3
    after = dump(back / "ledger.db")
    for name, rows in before.items():
        if name not in ("event", "stream", "session", "lane"):
            assert after[name] == rows, name
    assert after["event"][:5] == before["event"][:5]
    reopened = await open_ledger(back / "ledger.db", CLOCK)
    assert [event.body for event in await reopened.events("t1", "s/S1", 4, 9)] == [b"4", b"5"]
    assert (await reopened.commit(WriteBatch([Append("t1", "s/S1", "C", 6, b"6")]))).numbers == [7]
    assert verify_records(await reopened.audit("t1", 0, 1_000), None).records == 300
    await reopened.close()
    files = JsonlTranscripts(back, CLOCK)
    assert (await files.read("S1", "shell", "t1"))[1:] == [line(one).line for one in "abcd"]
    await files.close()
    with pytest.raises(NotAPostgresLedger, match="was moved to"):
        await open_in_postgres(PostgresSettings(empty_database), CLOCK)
    assert not (back / "moving").exists()


async def test_a_database_that_is_not_empty_is_refused(state: Path, empty_database: str) -> None:
    ledger = await open_in_postgres(PostgresSettings(empty_database), CLOCK)
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 1, b"")]))
    await ledger.close()
    before = dump(state / "ledger.db")
    with pytest.raises(MoveRefused, match=r"is not empty .* Name another database .* with --to; or, .*dropdb"):
        await move_into_postgres(state, empty_database, CLOCK)
    assert dump(state / "ledger.db") == before


async def test_a_running_gateway_is_not_moved(state: Path, empty_database: str, tmp_path: Path) -> None:
    lock = lock_state(state)
    with pytest.raises(AlreadyRunning):
        await move_into_postgres(state, empty_database, CLOCK)
    lock.release()
    await move_into_postgres(state, empty_database, CLOCK)
    leases = await open_leases(PostgresSettings(empty_database))
    await leases.join(Instance("i", ""), 60_000)
    with pytest.raises(MoveRefused, match="stop them first"):
        await move_into_files(tmp_path, empty_database, CLOCK)
    await leases.leave("i")
    await leases.close()
    await move_into_files(tmp_path, empty_database, CLOCK)
    assert (await move_into_files(tmp_path, empty_database, CLOCK)).already


async def test_a_modified_log_is_not_moved(state: Path, empty_database: str) -> None:
    database = connect(state / "ledger.db")
    database.execute("DROP TRIGGER audit_never_updated")
    changed = "CAST(replace(CAST(body AS TEXT), 'enqueue', 'cancel') AS BLOB)"
    database.execute(f"UPDATE audit SET body = {changed} WHERE seq = 3")
    database.close()
    with pytest.raises(MoveRefused, match="was changed, so nothing was moved"):
        await move_into_postgres(state, empty_database, CLOCK)
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()


async def test_a_move_that_breaks_off_at_its_end_is_continued(
    state: Path, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr(into_postgres, "agree", breaks)
        with pytest.raises(Broken):
            await move_into_postgres(state, empty_database, CLOCK)
    with monkeypatch.context() as patched:  # The database has all of it; only the file's new name is missing.
        patched.setattr(Path, "rename", breaks)
        with pytest.raises(Broken):
            await move_into_postgres(state, empty_database, CLOCK)
    moved = await move_into_postgres(state, empty_database, CLOCK)
    assert moved.audit_records == 600
    assert not (state / "ledger.db").exists()

    back = tmp_path / "back"
    back.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(into_files, "_place", breaks)
        with pytest.raises(Broken):
            await move_into_files(back, empty_database, CLOCK)
    assert not (back / "ledger.db").exists()
    with pytest.raises(LedgerError, match="run `interlock migrate --from` with its database"):
        await open_stores(back, ClusterSection(), CLOCK)
    remove = shutil.rmtree

    def breaks_at_the_draft(path: Path, **how: bool) -> None:
        if path == back / "moving":
            raise Broken
        remove(path, **how)

    for removing in (breaks, breaks_at_the_draft):  # Everything is in its place; only the draft is not removed.
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", removing)
            with pytest.raises(Broken):
                await move_into_files(back, empty_database, CLOCK)
        assert (back / "ledger.db").exists()
    assert [path.name for path in (back / "moving").iterdir()] == ["ready.json"]
    assert (await move_into_files(back, empty_database, CLOCK)).audit_records == 600
    assert not (back / "moving").exists()
    assert len(dump(back / "ledger.db")["audit"]) == 600


async def test_a_directory_with_its_ledger_in_a_database_starts_no_other(
    state: Path, empty_database: str, tmp_path: Path
) -> None:
    await move_into_postgres(state, empty_database, CLOCK)

    sentence = r'was moved to .*: set store = "postgresql://.* below \[cluster\]'
    with pytest.raises(LedgerError, match=sentence) as refused:
        await open_stores(state, ClusterSection(), CLOCK)
    assert str(state / "interlock.toml") in str(refused.value)
    assert not (state / "ledger.db").exists()
    (state / "ledger.db.moved").unlink()  # As a move of an earlier version left it.
    with pytest.raises(LedgerError, match="was moved to a database"):
        await open_stores(state, ClusterSection(), CLOCK)

    back = tmp_path / "back"
    back.mkdir()
    await move_into_files(back, empty_database, CLOCK)
    await (await open_stores(back, ClusterSection(), CLOCK)).close()


async def test_while_a_move_may_be_committed_the_file_is_not_used(
    state: Path, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", breaks)
        with pytest.raises(Broken):
            await move_into_postgres(state, empty_database, CLOCK)
    with pytest.raises(LedgerError, match="did not finish"):
        await open_stores(state, ClusterSection(), CLOCK)
    await move_into_postgres(state, empty_database, CLOCK)
    with pytest.raises(LedgerError, match="was moved to postgresql://"):
        await open_stores(state, ClusterSection(), CLOCK)
    with pytest.raises(MoveRefused, match="was moved to postgresql://"):
        await move_into_postgres(state, empty_database, CLOCK)


async def test_without_a_ledger_nothing_is_moved(empty_database: str, tmp_path: Path) -> None:
    with pytest.raises(MoveRefused, match="nothing to move"):
        await move_into_postgres(tmp_path, empty_database, CLOCK)
    with pytest.raises(MoveRefused, match="nothing to move"):
        await move_into_files(tmp_path, empty_database, CLOCK)


def test_the_log_in_the_database_is_verified_separately(postgres: PostgresSettings) -> None:
    with audit_rows(postgres) as rows:
        assert rows.tenants() == []
        assert list(rows.records("t1")) == []


@pytest.mark.req("H-5", "U-5")
def test_rows_in_the_database_are_compared_with_its_log(postgres: PostgresSettings) -> None:
    def key(name: str, **changes: Any) -> KeyRecord:
        return msgspec.structs.replace(KeyRecord(
            key_sha256=name, key_id=f"key_{name}", tenant_id="default", role="viewer", created_ms=1,
            principal=Actor(type="user", id="ann")), **changes)

    async def prepare() -> None:
        ledger = await open_in_postgres(postgres, CLOCK)
        try:
            await ledger.commit(WriteBatch([Put(key("good")), Put(key("bad"))]))
            await RowAudit(ledger, CLOCK).adopt()
            await ledger.commit(WriteBatch([Put(key("bad", role="owner")), Put(key("new"))]))
        finally:
            await ledger.close()

    asyncio.run(prepare())
    with audit_rows(postgres) as rows:
        assert sorted(compare_rows(rows)) == [
            "the stored row of the API key key_bad is not the one in the audit record of its last change",
            "the stored row of the API key key_new has no audit record: it was not written by a gateway",
        ]
