"""Which groups of batches are committed by one statement, and that the others are counted with their reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from backends.postgres.test_ledger import answer, append, draft, line, session
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import statements
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import PostgresLedger, open_ledger
from interlock.backends.postgres.single import NOTED_CHANGE, Single
from interlock.backends.postgres.transaction import CommitGroup
from interlock.command.audit.audit import CHECKPOINT_FACT, write_noted
from interlock.ports.ledger import (
    AuditAppend,
    BeginLane,
    DropTranscript,
    Fenced,
    LaneName,
    NameTaken,
    PutFact,
    PutIdempotency,
    PutSession,
    PutTranscript,
    WriteBatch,
)
from interlock.ports.trips import counting
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "D-1")]


Opening = Callable[[], Awaitable[tuple[PostgresLedger, list[str]]]]


@pytest.fixture
async def gateway(postgres: PostgresSettings) -> AsyncIterator[Opening]:
    """Open one more gateway's ledger on the same database; its step-by-step commits are in its `reasons`."""
    opened: list[PostgresLedger] = []

    async def open_one() -> tuple[PostgresLedger, list[str]]:
        made, reasons = await open_ledger(postgres, ManualClock()), list[str]()
        made.measure(lambda _batches, _seconds: None, reasons.append)
        opened.append(made)
        return made, reasons

    yield open_one
    for one in opened:
        await one.close()


async def trips_of(ledger: PostgresLedger, batch: WriteBatch) -> int:
    with counting() as spent:
        await ledger.commit(batch)
    return spent.in_a_row


async def test_all_writes_of_a_turn_are_one_round_trip(gateway: Opening) -> None:
    ledger, reasons = await gateway()
    epoch = await ledger.take(LaneName("t1", "S1"))
    await ledger.commit(WriteBatch([AuditAppend(draft())]))  # Begins the log.
    reasons.clear()
    batch = WriteBatch([append("s/1"), append("t/1"), append("s/1"), PutSession(session()), PutFact("a", "b"),
                        PutTranscript(line("e1")), PutIdempotency(answer("k")), BeginLane(LaneName("t1", "S2")),
                        AuditAppend(draft())], [(LaneName("t1", "S1"), epoch)])
    assert await trips_of(ledger, batch) == 1
    assert reasons == []
    assert [event.n for event in await ledger.events("t1", "s/1", 0, 9)] == [1, 2]
    assert (await ledger.audit_head("t1"))[0] == 2
    assert await ledger.session("S1") == session()
    assert await ledger.take(LaneName("t1", "S2")) == 2


async def test_a_log_advanced_by_another_gateway_costs_two_more_round_trips(gateway: Opening) -> None:
    here, reasons = await gateway()
    there, _ = await gateway()
    for one in (here, there, here, there):
        await one.commit(WriteBatch([AuditAppend(draft())]))
    reasons.clear()
    assert await trips_of(here, WriteBatch([append(), AuditAppend(draft())])) == 3
    assert reasons == []
    assert (await here.audit_head("t1"))[0] == 5
    assert [event.n for event in await here.events("t1", "s/1", 0, 9)] == [1]


async def test_gateways_that_write_one_log_concurrently_lose_and_duplicate_nothing(gateway: Opening) -> None:
    ledgers = [(await gateway())[0] for _ in range(3)]
    receipts = await asyncio.gather(*(ledger.commit(WriteBatch([append(f"s/{place}"), AuditAppend(draft())]))
                                      for _ in range(8) for place, ledger in enumerate(ledgers)))
    assert sorted(receipt.audit_seqs[0] for receipt in receipts) == list(range(1, 25))
    assert [await ledgers[0].head("t1", f"s/{place}") for place in range(3)] == [8, 8, 8]


@pytest.mark.parametrize(("batch", "raised", "reason"), [
    (WriteBatch([append()], [(LaneName("t1", "S1"), 7)]), Fenced, "fenced"),
    (WriteBatch([append()], [(LaneName("t1", "never"), 1)]), Fenced, "fenced"),
    (WriteBatch([BeginLane(LaneName("t1", "S1"))]), Fenced, "refused"),
    (WriteBatch([append(), PutIdempotency(answer("k"))]), NameTaken, "refused"),
], ids=["epoch", "no lane", "begun lane", "taken name"])
async def test_a_refused_batch_raises_the_same_error_as_step_by_step(
    gateway: Opening, batch: WriteBatch, raised: type[Exception], reason: str
) -> None:
    ledger, reasons = await gateway()
    await ledger.take(LaneName("t1", "S1"))
    await ledger.commit(WriteBatch([PutIdempotency(answer("k"))]))
    reasons.clear()
    with pytest.raises(raised):
        await ledger.commit(batch)
    assert reasons == [reason]
    assert await ledger.head("t1", "s/1") == 0


async def test_dependent_writes_are_done_one_after_another(gateway: Opening) -> None:
    ledger, reasons = await gateway()
    await ledger.commit(WriteBatch([PutTranscript(line("e1")), DropTranscript("t1", "S1", ("e1",))]))
    assert reasons == ["writes"]
    assert await ledger.transcript_pending(("S1", "t1")) == []


async def test_a_lane_take_and_other_writes_have_separate_transactions(gateway: Opening) -> None:
    ledger, reasons = await gateway()
    await ledger.take(LaneName("t1", "S1"))
    assert reasons == ["work"]


async def test_lines_for_another_gateways_transcript_are_one_look_and_one_statement(
    postgres: PostgresSettings
) -> None:
    here, there = [await open_ledger(postgres, ManualClock(), keeps_transcripts=True) for _ in range(2)]
    reasons = list[str]()
    there.measure(lambda _batches, _seconds: None, reasons.append)
    await here.commit(WriteBatch([PutSession(session())]))
    await here.commit(WriteBatch([PutTranscript(line("e1"))]))
    trips = [await trips_of(there, WriteBatch([append(), PutTranscript(line(entry))])) for entry in ("e2", "e3")]
    await here.close()
    await there.close()
    assert (trips, reasons) == ([2, 1], [])


@pytest.mark.req("U-3")
async def test_batches_without_room_wait_for_one_signature_and_delay_no_other(gateway: Opening
                                                                              ) -> None:
    ledger, reasons = await gateway()
    signed = list[int]()

    async def sign(tenant_id: str) -> None:
        signed.append((await ledger.audit_head(tenant_id))[0])
        await ledger.commit(WriteBatch([PutFact(CHECKPOINT_FACT + tenant_id, write_noted(signed[-1], b"a line"))]))

    await sign("t1")
    ledger.bound_audit(sign)
    full = UNSIGNED_RECORDS_MAX - 5
    await ledger.commit(WriteBatch([AuditAppend(draft()) for _ in range(full)]))
    reasons.clear()
    signed.clear()
    receipts = await asyncio.gather(*(ledger.commit(WriteBatch([append(f"s/{at}"), AuditAppend(draft())]))
                                      for at in range(40)))
    assert [one.audit_seqs for one in receipts] == [[full + 1 + at] for at in range(40)]
    assert signed == [UNSIGNED_RECORDS_MAX]
    assert reasons == [], "none was tried by itself"


@pytest.mark.req("U-3")
async def test_more_concurrent_batches_than_one_signature_allows_are_all_written(gateway: Opening) -> None:
    ledger, _ = await gateway()

    async def sign(tenant_id: str) -> None:
        size = (await ledger.audit_head(tenant_id))[0]
        await ledger.commit(WriteBatch([PutFact(CHECKPOINT_FACT + tenant_id, write_noted(size, b"a line"))]))

    await sign("t1")
    ledger.bound_audit(sign)
    each, batches = 300, 10
    await asyncio.gather(*(ledger.commit(WriteBatch([AuditAppend(draft()) for _ in range(each)]))
                           for _ in range(batches)))
    assert (await ledger.audit_head("t1"))[0] == each * batches > 2 * UNSIGNED_RECORDS_MAX


def a_batch(number: int) -> Single:
    """The transaction of a batch as one statement, under this number."""
    group = CommitGroup()
    group.add(WriteBatch([append()]))
    return group.single("w_1", number, {}, {})


def a_change(number: int) -> Single:
    """A statement that changes rows, under this number."""
    single = Single()
    single.add([("changed", "DELETE FROM instance WHERE instance_id = $1 RETURNING 1")], ["i_1"])
    single.add([("noted", NOTED_CHANGE)], ["w_1", number])
    single.check("decided", "noted", 1)
    return single


@pytest.mark.parametrize(("made", "after"), [(a_batch, (1, 1)), (a_change, (0, 0))])
async def test_a_statement_that_arrives_after_its_number_was_abandoned_changes_nothing(
        gateway: Opening, other: asyncpg.Connection, made: Callable[[int], Single], after: tuple[int, int]) -> None:
    ledger, _ = await gateway()

    async def rows() -> tuple[int, int]:
        return await ledger.head("t1", "s/1"), await other.fetchval("SELECT count(*) FROM instance")

    await other.execute("INSERT INTO instance (instance_id, address, expires_ms) VALUES ('i_1', '', 0)")
    await other.execute(statements.DECIDE_WRITER, "w_1", 7)
    for number in (6, 7):
        late = made(number)
        with pytest.raises(asyncpg.InvalidTextRepresentationError, match='"decided"'):
            await other.fetchrow(late.sql(), *late.values)
    assert await rows() == (0, 1)
    next_ = made(8)
    await other.fetchrow(next_.sql(), *next_.values)
    assert await rows() == after


async def test_a_committed_statement_is_found_by_a_later_decision_of_its_number(
        gateway: Opening, other: asyncpg.Connection) -> None:
    await gateway()
    sent = a_batch(7)
    await other.fetchrow(sent.sql(), *sent.values)
    await other.execute(statements.DECIDE_WRITER, "w_1", 7)
    assert await other.fetchval(statements.HEADS_OF_WRITER, "w_1", 7) == [1]
    assert await other.fetchval(statements.HEADS_OF_WRITER, "w_1", 6) is None, "these are of another number"
    await other.execute(statements.DECIDE_WRITER, "w_1", 8)
    assert await other.fetchval(statements.HEADS_OF_WRITER, "w_1", 8) is None


async def test_the_outcome_of_a_transaction_under_way_is_waited_for(
        postgres: PostgresSettings, gateway: Opening, other: asyncpg.Connection) -> None:
    """A link that breaks during COMMIT leaves the transaction running at the server: its number is not the last one
    yet, and the caller would receive that nothing was committed."""
    await gateway()
    await other.execute(statements.NOTE_WRITER, "w_1", 4)
    under_way, looking = await asyncpg.connect(postgres.dsn), await asyncpg.connect(postgres.dsn)
    try:
        transaction = under_way.transaction()
        await transaction.start()
        await under_way.execute(statements.NOTE_WRITER, "w_1", 5)
        found = asyncio.create_task(looking.fetchval(statements.LAST_OF_WRITER, "w_1"))
        while not found.done() and not await other.fetchval("SELECT pg_blocking_pids($1) <> '{}'",
                                                            looking.get_server_pid()):
            await asyncio.sleep(0)
        await transaction.commit()
        assert await found == 5
    finally:
        await under_way.close()
        await looking.close()
