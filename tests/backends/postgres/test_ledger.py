"""The ledger on PostgreSQL: links that break during a commit, several writers, and its triggers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends.postgres.proxy import Break, Proxy, proxied
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import database, statements, writer
from interlock.backends.postgres.database import PostgresSettings, read_settings
from interlock.backends.postgres.faults import LINK_FAULTS, DatabaseUnavailable, NotReached, is_away
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.backends.postgres.single import HELD
from interlock.backends.postgres.transcripts import PostgresTranscripts
from interlock.command.audit.audit import leaf_hash
from interlock.ports import trips
from interlock.ports.leases import Instance
from interlock.ports.ledger import (
    FIRST_EPOCH,
    Append,
    AuditAppend,
    EraseAudit,
    Fenced,
    LaneName,
    LedgerError,
    NameTaken,
    OutcomeUnknown,
    PutFact,
    PutIdempotency,
    PutSession,
    PutTranscript,
    WriteBatch,
)
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, IdempotencyRecord, SessionRecord, TranscriptLine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ledger(postgres: PostgresSettings) -> AsyncIterator[PostgresLedger]:
    opened = await open_ledger(postgres, ManualClock())
    yield opened
    await opened.close()


@pytest.fixture
async def other(postgres: PostgresSettings, ledger: PostgresLedger) -> AsyncIterator[PostgresLedger]:
    opened = await open_ledger(postgres, ManualClock())
    yield opened
    await opened.close()


@pytest.fixture
async def proxy(postgres: PostgresSettings, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with proxied(postgres, tmp_path) as between:
        yield between


def append(stream: str = "s/1", body: bytes = b"{}") -> Append:
    return Append("t1", stream, "C", 5, body, "")


def draft(tenant_id: str = "t1", **fields: Any) -> AuditDraft:
    return AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": "u", "role": "owner"}, action="enqueue", **fields)


def answer(scope: str) -> IdempotencyRecord:
    return IdempotencyRecord(tenant_id="t1", scope=scope, fingerprint="f", status=202, headers={}, body=b"",
                             created_ms=1)


def session(session_id: str = "S1", **changes: Any) -> SessionRecord:
    fields: dict[str, Any] = {
        "session_id": session_id, "tenant_id": "t1", "session_key": "k", "agent_id": "shell", "runner_id": "r1",
        "workspace": "/w", "state": "open", "created_ms": 1, "updated_ms": 1, "deadline_ms": None,
        "machine": b"{}", "usage": {},
    }  # fmt: skip
    return SessionRecord(**{**fields, **changes})


def line(entry_id: str, session_id: str = "S1") -> TranscriptLine:
    return TranscriptLine(tenant_id="t1", session_id=session_id, entry_id=entry_id,
                          line=b'{"type":"custom","id":"%s","parentId":null}' % entry_id.encode())


@pytest.mark.req("D-1", "C-4")
@pytest.mark.parametrize("breaks", [["after"], ["before"], ["after", "before", "before", "after"]])
async def test_a_link_broken_during_a_commit_neither_loses_nor_duplicates_it(
    proxy: Proxy, breaks: list[Break], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    await ledger.commit(WriteBatch([append(body=b"0"), AuditAppend(draft())]))
    proxy.on_commit = breaks
    receipts = [await ledger.commit(WriteBatch([append(body=str(number).encode()), AuditAppend(draft())]))
                for number in range(1, 6)]
    assert [(receipt.numbers, receipt.audit_seqs) for receipt in receipts] == [([n], [n]) for n in range(2, 7)]
    assert [event.body for event in await ledger.events("t1", "s/1", 0, 99)] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (await ledger.audit_head("t1"))[0] == 6
    assert not proxy.on_commit
    await ledger.close()


@pytest.mark.req("D-1", "G-1")
@pytest.mark.parametrize("breaks", ["after", "before"])
async def test_closing_does_not_wait_for_a_server_with_a_commit_in_doubt(
    proxy: Proxy, breaks: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    monkeypatch.setattr(writer, "CLOSING_WAIT_S", 0.05)
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    proxy.on_commit = [breaks]
    proxy.down = True  # Only for later connections.
    in_doubt = [asyncio.ensure_future(ledger.commit(WriteBatch([append()]))) for _ in range(2)]
    while proxy.on_commit:
        await asyncio.sleep(0)

    await asyncio.wait_for(ledger.close(), database.WAIT_FOR_SERVER_S / 3)

    for each in in_doubt:
        with pytest.raises(OutcomeUnknown, match="PostgreSQL is away"):
            await each


@pytest.mark.req("D-1", "C-4")
@pytest.mark.parametrize("breaks", ["late", "stalled"])
async def test_a_commit_that_arrives_after_it_was_abandoned_has_no_effect(
    proxy: Proxy, breaks: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    monkeypatch.setattr(database, "CALL_TIMEOUT_S", 1.0)
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    await ledger.commit(WriteBatch([append(body=b"0"), AuditAppend(draft())]))
    proxy.on_commit = [breaks]
    assert (await ledger.commit(WriteBatch([append(body=b"1")]))).numbers == [2]
    proxy.late.set()
    await asyncio.wait_for(proxy.arrived.wait(), 20)
    assert [event.body for event in await ledger.events("t1", "s/1", 0, 99)] == [b"0", b"1"]
    await ledger.close()


@pytest.mark.req("D-1", "C-4")
async def test_a_commit_in_doubt_is_decided_before_anything_else_on_the_next_connection(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    monkeypatch.setattr(writer, "WAIT_FOR_SERVER_S", 0.01)
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    epoch = await ledger.take(LaneName("t1", "s/1"))
    proxy.on_commit = ["late"]
    proxy.down = True
    with pytest.raises(OutcomeUnknown):
        await ledger.commit(WriteBatch([append(body=b"in doubt")]))
    proxy.down = False

    assert await ledger.take(LaneName("t1", "s/2")) == 1  # Any later statement.
    proxy.late.set()
    await asyncio.wait_for(proxy.arrived.wait(), 20)

    assert await ledger.head("t1", "s/1") == 0
    assert (await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), epoch)]))).numbers == [1]
    await ledger.close()


@pytest.mark.req("D-1")
async def test_requests_during_an_outage_wait_for_the_server(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    await ledger.commit(WriteBatch([append()]))
    assert await ledger.head("t1", "s/1") == 1
    proxy.down = True
    proxy.cut()
    waiting = asyncio.gather(ledger.commit(WriteBatch([append()])), ledger.head("t1", "s/2"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    proxy.down = False
    receipt, head = await asyncio.wait_for(waiting, 20)
    assert (receipt.numbers, head) == ([2], 0)
    await ledger.close()


@pytest.mark.req("D-1")
async def test_a_long_outage_is_reported_and_the_ledger_continues_after_it(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    monkeypatch.setattr("interlock.backends.postgres.writer.WAIT_FOR_SERVER_S", 0.01)
    proxy.down = True
    proxy.cut()
    with pytest.raises(OutcomeUnknown):  # The link broke while it was sent.
        await ledger.commit(WriteBatch([append(body=b"in doubt")]))
    with pytest.raises(DatabaseUnavailable, match="nothing of this batch was kept"):
        await ledger.commit(WriteBatch([append(body=b"lost")]))
    proxy.down = False
    assert (await ledger.commit(WriteBatch([append(body=b"kept")]))).numbers == [1]
    await ledger.close()


async def test_a_response_is_found_by_its_tenant_or_without_one(ledger: PostgresLedger, postgres: PostgresSettings
                                                                ) -> None:
    await ledger.commit(WriteBatch([PutIdempotency(answer("k")), PutIdempotency(answer("older"))]))
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute("UPDATE idempotency SET tenant_id = '' WHERE scope = 'older'")
    await connection.close()
    assert await ledger.idempotency("k", "t1") == answer("k")
    assert await ledger.idempotency("k", "t2") is None
    assert await ledger.idempotency("older", "t1") == answer("older")


@pytest.mark.req("C-4")
async def test_a_failing_batch_does_not_fail_the_others_of_its_group(ledger: PostgresLedger) -> None:
    epoch = await ledger.take(LaneName("t1", "s/1"))
    await ledger.commit(WriteBatch([PutIdempotency(answer("k"))]))
    results = await asyncio.gather(
        ledger.commit(WriteBatch([append(), append("t/t")], [(LaneName("t1", "s/1"), epoch)])),
        ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), epoch - 1)])),
        ledger.commit(WriteBatch([append(), PutIdempotency(answer("k")), AuditAppend(draft())])),
        ledger.commit(WriteBatch([append(), PutIdempotency(answer("k2")), AuditAppend(draft())],
                                 [(LaneName("t1", "s/1"), epoch)])),
        ledger.commit(WriteBatch([append(), PutIdempotency(answer("k2"))])),
        ledger.commit(WriteBatch([AuditAppend(draft(meta={"a": 1.5}))])),
        ledger.commit(WriteBatch([PutFact("a", "b")], [(LaneName("t1", "s/never"), 1)])),
        ledger.commit(WriteBatch([append("x" * 3), append()])), return_exceptions=True)
    kinds = [type(one).__name__ if isinstance(one, LedgerError) else one for one in results]
    assert kinds == [([1, 1], []), "Fenced", "NameTaken", ([2], [1]), "NameTaken", "LedgerError", "Fenced",
                     ([1, 3], [])]
    assert await ledger.head("t1", "s/1") == 3
    assert await ledger.fact("a") is None


@pytest.mark.req("C-4")
async def test_a_repeated_key_does_not_split_the_commit_of_its_group(
    ledger: PostgresLedger
) -> None:
    """One by one, in one transaction, they held the tenant's log for 26 s at a round trip of 10 ms."""
    await ledger.commit(WriteBatch([PutIdempotency(answer("k")), AuditAppend(draft())]))
    batches = [WriteBatch([append(f"s/{number}"), AuditAppend(draft()), PutIdempotency(answer(f"k{number}"))])
               for number in range(96)]
    batches[60] = WriteBatch([append("s/60"), AuditAppend(draft()), PutIdempotency(answer("k"))])
    with trips.counting() as spent:
        results = await asyncio.gather(*map(ledger.commit, batches), return_exceptions=True)
    assert isinstance(results[60], NameTaken)
    assert [one for one in results if isinstance(one, BaseException)] == [results[60]]
    assert await ledger.head("t1", "s/59") == 1
    assert await ledger.head("t1", "s/60") == 0
    assert spent.in_a_row < 60, "two statements for each halving, and the steps of the one that is refused"


@pytest.mark.req("C-4")
async def test_a_gateway_is_fenced_from_the_instant_another_has_the_lane(
    ledger: PostgresLedger, other: PostgresLedger
) -> None:
    first = await ledger.take(LaneName("t1", "s/1"))
    await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), first)]))
    second = await other.take(LaneName("t1", "s/1"))
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), first)]))
    assert (await other.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), second)]))).numbers == [2]


@pytest.mark.req("C-4")
async def test_a_taker_of_a_lane_waits_a_bounded_time_for_open_transactions(
    postgres: PostgresSettings, ledger: PostgresLedger
) -> None:
    await ledger.take(LaneName("t1", "s/1"))
    stopped = await asyncpg.connect(postgres.dsn)
    await stopped.execute(statements.BEGIN.format(
        statement_timeout_ms=1_000, idle_timeout_ms=200, writer_id="w_stopped").format(number=1))
    await stopped.fetch(statements.HOLD_LANES, ["t1"], ["s/1"])
    taking = asyncio.create_task(ledger.take(LaneName("t1", "s/1")))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(taking), 0.05)
    assert await asyncio.wait_for(taking, 10) == 2
    with pytest.raises(LINK_FAULTS) as ended:
        await stopped.execute("COMMIT")
    assert is_away(ended.value)


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.mark.req("C-4")
async def test_a_lane_begins_with_the_first_epoch(ledger: PostgresLedger) -> None:
    assert [await ledger.take(LaneName("t1", "s/1")) for _ in range(2)] == [FIRST_EPOCH, FIRST_EPOCH + 1]


@pytest.mark.req("C-4")
async def test_a_lane_that_another_gateway_creates_meanwhile_is_taken_under_the_next_epoch(
    postgres: PostgresSettings, ledger: PostgresLedger
) -> None:
    quicker, watcher = await asyncpg.connect(postgres.dsn), await asyncpg.connect(postgres.dsn)
    async with quicker.transaction():
        await quicker.execute("INSERT INTO lane (tenant_id, name, epoch) VALUES ('t1', 's/1', 7)")
        taking = asyncio.create_task(ledger.take(LaneName("t1", "s/1")))
        while not taking.done() and not await watcher.fetchval(WAITING):
            await asyncio.sleep(0)
    assert await taking == 8
    assert await watcher.fetchval("SELECT count(*) FROM lane") == 1
    await quicker.close()
    await watcher.close()


@pytest.mark.req("C-4")
async def test_a_lane_that_an_older_gateway_created_without_a_tenant_continues_its_epochs(
    postgres: PostgresSettings, ledger: PostgresLedger
) -> None:
    older = await asyncpg.connect(postgres.dsn)
    await older.execute("INSERT INTO lane (name, epoch) VALUES ('s/1', 4)")
    assert await ledger.take(LaneName("t1", "s/1")) == 5
    assert [tuple(row) for row in await older.fetch("SELECT tenant_id, name FROM lane")] == [("t1", "s/1")]
    await older.close()


@pytest.fixture
async def blocking(postgres: PostgresSettings, ledger: PostgresLedger, other: PostgresLedger) -> AsyncIterator[Any]:
    """A connection that holds locks. It ends before the ledgers, which may wait for it."""
    connection: Any = await asyncpg.connect(postgres.dsn)
    yield connection
    await connection.close()


async def until_waiting(connection: Any, count: int, *without: asyncio.Task[Any]) -> None:
    """Return when the given number of connections waits for a lock; none of these tasks has ended before."""
    while await connection.fetchval(WAITING) < count:
        await connection.execute("SELECT pg_stat_clear_snapshot()")  # Else a transaction sees the same of it each time.
        assert not any(one.done() for one in without)


@pytest.mark.req("C-4")
async def test_a_taker_of_a_lane_waits_for_a_one_statement_commit_of_the_former_epoch(
    ledger: PostgresLedger, other: PostgresLedger, blocking: Any
) -> None:
    """Else the new owner would read the lane without what is committed a moment later."""
    lane = LaneName("t1", "s/1")
    epoch = await ledger.take(lane)
    await ledger.commit(WriteBatch([append()], [(lane, epoch)]))
    held = blocking.transaction()
    await held.start()
    await blocking.execute("SELECT * FROM stream WHERE name = 's/1' FOR UPDATE")
    committing = asyncio.create_task(ledger.commit(WriteBatch([append()], [(lane, epoch)])))
    await until_waiting(blocking, 1, committing)
    taking = asyncio.create_task(other.take(lane))
    await until_waiting(blocking, 2, committing, taking)
    await held.rollback()
    assert (await committing).numbers == [2]
    assert await taking == epoch + 1


@pytest.mark.req("C-4")
@pytest.mark.parametrize(("sql", "epochs"), [(statements.HOLD_LANES, []), (HELD, [[1, 1]])], ids=["steps", "at once"])
async def test_a_commit_locks_its_lanes_in_the_order_of_their_names(
    postgres: PostgresSettings, ledger: PostgresLedger, blocking: Any, sql: str, epochs: list[list[int]]
) -> None:
    """One that takes them locks them in this order too: in another, the two would wait for each other."""
    for name in ("s/2", "s/1"):
        await ledger.take(LaneName("t1", name))
    committing: Any = await asyncpg.connect(postgres.dsn)
    held = blocking.transaction()
    await held.start()
    await blocking.execute("SELECT * FROM lane WHERE name = 's/1' FOR UPDATE")
    locking = asyncio.create_task(committing.fetch(sql, ["t1", "t1"], ["s/2", "s/1"], *epochs))
    await until_waiting(blocking, 1, locking)
    await blocking.execute("SELECT * FROM lane WHERE name = 's/2' FOR UPDATE NOWAIT")
    await held.rollback()
    assert len(await locking) == 2
    await committing.close()


@pytest.mark.req("C-4")
def test_a_connection_ended_unnoticed_counts_as_ended() -> None:
    assert is_away(asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"))
    assert not is_away(asyncpg.InterfaceError("cannot perform operation: another operation is in progress"))


@pytest.mark.req("C-4", "D-1")
async def test_a_connection_ended_by_the_server_and_not_closed_yet_is_replaced(
    proxy: Proxy, postgres: PostgresSettings
) -> None:
    """The driver has the server's last word and no end of the link: it refuses each further statement ("cannot switch
    to state 12"), and nothing of that may reach a caller or run twice."""
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    await ledger.commit(WriteBatch([append()]))
    assert await ledger.head("t1", "s/1") == 1
    proxy.keeps_ends = True
    other = await asyncpg.connect(postgres.dsn)
    ended = await other.fetch("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                              "WHERE datname = current_database() AND pid <> pg_backend_pid()")
    await other.close()
    assert len(ended) >= 2
    assert (await ledger.commit(WriteBatch([append()]))).numbers == [2]
    assert await ledger.head("t1", "s/1") == 2
    await ledger.close()


@pytest.mark.req("C-4", "U-2")
async def test_gateways_that_write_to_the_same_streams_and_logs_leave_no_gap_and_one_chain(
    ledger: PostgresLedger, other: PostgresLedger
) -> None:
    def batch(number: int) -> WriteBatch:
        streams = ["t/1", "t/2", f"s/{number}"] if number % 2 else [f"s/{number}", "t/2", "t/1"]
        tenants = ["t1", "t2"] if number % 2 else ["t2", "t1"]
        return WriteBatch([*(append(stream) for stream in streams),
                           *(AuditAppend(draft(tenant)) for tenant in tenants)])

    await asyncio.gather(*((ledger if number % 3 else other).commit(batch(number)) for number in range(200)))
    for stream in ("t/1", "t/2"):
        assert [event.n for event in await ledger.events("t1", stream, 0, 500)] == list(range(1, 201))
    for tenant in ("t1", "t2"):
        records = await ledger.audit(tenant, 0, 500)
        assert [record.seq for record in records] == list(range(1, 201))
        previous = "0" * 64
        for record in records:
            assert f'"prev":"{previous}"'.encode() in record.body
            previous = record.hash
            assert leaf_hash(record.body) == record.hash
        assert await ledger.audit_head(tenant) == (200, previous)


@pytest.mark.req("U-2", "U-4")
async def test_the_database_itself_refuses_to_change_audit_records(
    postgres: PostgresSettings, ledger: PostgresLedger
) -> None:
    await ledger.commit(WriteBatch([AuditAppend(draft(personal={"reason": "10.0.0.1\0"}))]))
    connection = await asyncpg.connect(postgres.dsn)
    for statement in ("UPDATE audit SET body = ''", "DELETE FROM audit", "TRUNCATE audit",
                      "UPDATE audit_personal SET value = ''"):
        with pytest.raises(asyncpg.RaiseError, match="never changed"):
            await connection.execute(statement)
    (record,) = await ledger.audit("t1", 0, 9)
    assert record.personal["reason"][1] == "10.0.0.1\0"
    await ledger.commit(WriteBatch([EraseAudit("t1", (1,))]))
    assert (await ledger.audit("t1", 0, 9))[0].personal == {}
    await connection.close()


@pytest.mark.req("X-3")
async def test_a_transcript_is_written_in_the_transaction_that_creates_it(postgres: PostgresSettings) -> None:
    ledger = await open_ledger(postgres, ManualClock(), keeps_transcripts=True)
    transcripts = PostgresTranscripts(ledger, ManualClock())
    epoch = await ledger.take(LaneName("t1", "S1"))
    await ledger.commit(WriteBatch([PutTranscript(line("a")), PutSession(session()), PutTranscript(line("b"))],
                                   [(LaneName("t1", "S1"), epoch)]))
    assert await ledger.transcript_pending() == []
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "b"}
    assert await transcripts.ids("S1", "shell", "t2") == set()
    header, *lines = await transcripts.read("S1", "shell", "t1")
    assert b'"cwd":"/w"' in header
    assert lines == [line("a").line, line("b").line]
    results = await asyncio.gather(
        ledger.commit(WriteBatch([PutTranscript(line("c"))], [(LaneName("t1", "S1"), epoch - 1)])),
        ledger.commit(WriteBatch([PutTranscript(line("d")), PutTranscript(line("a"))])),
        ledger.commit(WriteBatch([PutTranscript(line("x", "S9"))])),
        ledger.commit(WriteBatch([PutTranscript(TranscriptLine(tenant_id="t1", session_id="S1", entry_id="e",
                                                               line=b"{}"))])),
        ledger.commit(WriteBatch([PutTranscript(line("f")), PutSession(session("S2")),
                                  PutTranscript(line("g", "S2"))])),
        return_exceptions=True)
    assert [isinstance(one, LedgerError) for one in results] == [True, False, True, True, False]
    assert [one.split(b'"')[7] for one in (await transcripts.read("S1", "shell", "t1"))[1:]] == [b"a", b"b", b"d", b"f"]
    assert await transcripts.leaf("S2", "shell", "t1") == "g"
    await ledger.close()


@pytest.mark.req("D-1")
async def test_text_that_postgresql_cannot_store_is_read_back_unchanged(ledger: PostgresLedger) -> None:
    odd = "a\0b\U0010fffe0\U0010fffe"
    await ledger.commit(WriteBatch([PutSession(session(odd, session_key=odd, workspace=odd)),
                                    Append("t1", f"s/{odd}", "C", 1, b"\0", odd), PutFact(odd, odd)]))
    found = await ledger.session(odd)
    assert found is not None
    assert (found.session_id, found.session_key, found.workspace) == (odd, odd, odd)
    assert [event.message_id for event in await ledger.events("t1", f"s/{odd}", 0, 9)] == [odd]
    assert await ledger.fact(odd) == odd


def test_an_address_declares_a_pool_in_front_of_the_server() -> None:
    assert read_settings("postgresql://a/b") == PostgresSettings("postgresql://a/b")
    assert read_settings("postgresql://a/b?pooled=1") == PostgresSettings("postgresql://a/b", pooled=True)
    assert read_settings("postgresql:///b?host=/s&pooled=0&port=1") == PostgresSettings("postgresql:///b?host=/s&port=1")


async def test_behind_a_pool_nothing_is_prepared(postgres: PostgresSettings) -> None:
    ledger = await open_ledger(postgres._replace(pooled=True), ManualClock())
    await ledger.commit(WriteBatch([append(), AuditAppend(draft())]))
    assert [event.n for event in await ledger.events("t1", "s/1", 0, 9)] == [1]
    count = "SELECT count(*) FROM pg_prepared_statements"
    assert await ledger.transact(lambda connection: connection.fetchval(count)) == 0
    await ledger.close()


async def test_an_unreachable_address_is_one_sentence_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(NotReached) as refused:
        await open_ledger(PostgresSettings(f"postgresql://who:secret@/db?host={tmp_path}&sslpassword=secret"),
                          ManualClock())
    assert "secret" not in str(refused.value)
    assert "who@/db" in str(refused.value)
    with pytest.raises(NotReached):
        await open_ledger(PostgresSettings("no address"), ManualClock())


@pytest.mark.req("C-4")
async def test_one_of_two_concurrent_gateways_gets_the_lane(
    postgres: PostgresSettings, ledger: PostgresLedger
) -> None:
    stores = [await open_leases(postgres) for _ in range(3)]
    for number, store in enumerate(stores):
        await store.join(Instance(f"i{number}", ""))
    for lane in (LaneName("t1", str(number)) for number in range(20)):
        leases = await asyncio.gather(*(store.take(lane, f"i{number}") for number, store in enumerate(stores)))
        assert len(set(leases)) == 1
        assert leases[0].epoch == 1
        await ledger.commit(WriteBatch([append()], [(lane, 1)]))
    for store in stores:
        await store.close()


@pytest.mark.req("M-1")
async def test_one_of_two_gateways_stores_a_response(ledger: PostgresLedger, other: PostgresLedger) -> None:
    results = await asyncio.gather(*(one.commit(WriteBatch([PutIdempotency(answer("k")), append()]))
                                     for one in (ledger, other)), return_exceptions=True)
    assert sum(isinstance(one, NameTaken) for one in results) == 1
    assert await ledger.head("t1", "s/1") == 1


async def test_a_stream_of_another_tenant_is_not_appended_to(ledger: PostgresLedger) -> None:
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 5, b"{}")]))
    with pytest.raises(NameTaken):
        await ledger.commit(WriteBatch([Append("t2", "s/1", "C", 5, b"{}")]))
    assert await ledger.head("t1", "s/1") == 1


async def test_a_stream_of_another_tenant_is_not_read(ledger: PostgresLedger) -> None:
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 5, b"{}", "m")]))
    for tenant_id, there in (("t1", 1), ("t2", 0)):
        assert len(await ledger.events(tenant_id, "s/1", 0, 9)) == there
        assert len(await ledger.tail(tenant_id, "s/1", 0, 9)) == there
        assert await ledger.head(tenant_id, "s/1") == there
        assert await ledger.recent_message_ids(tenant_id, "s/1", 9) == ["m"] * there
