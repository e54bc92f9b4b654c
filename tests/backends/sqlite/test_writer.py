"""The one writer thread: its jobs are written in order, together, and also if the caller is cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite import transaction, writer
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.ledger import SqliteLedger, open_ledger
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.writer import SqliteWriter
from interlock.command.audit.audit_check import verify_records
from interlock.ports.ledger import Append, AuditAppend, Full, LedgerError, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.anyio


CLOCK = ManualClock()
DRAFT = AuditDraft(tenant_id="t1", at=iso(0), who={"id": "u", "role": "owner"}, action="enqueue")


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


async def test_batches_submitted_before_the_close_are_stored(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    commits = [asyncio.ensure_future(ledger.commit(one())) for _ in range(300)]
    await asyncio.sleep(0)
    await ledger.close()
    assert [receipt.numbers for receipt in await asyncio.gather(*commits)] == [[n] for n in range(1, 301)]
    ledger.close_now()


async def test_a_commit_completes_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    commit = asyncio.ensure_future(ledger.commit(one()))
    await asyncio.sleep(0)
    commit.cancel()
    assert (await ledger.commit(one())).numbers == [2]
    await ledger.close()


async def test_more_batches_than_the_queue_holds_wait_in_order(
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


async def test_requests_of_one_loop_iteration_are_submitted_together(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    sizes: list[int] = []
    ledger.measure(lambda batches, _seconds: sizes.append(batches))
    await asyncio.gather(*(ledger.commit(one()) for _ in range(40)))
    await ledger.commit(one())
    assert sizes == [40, 1]
    await ledger.close()


async def test_requests_before_the_close_are_done_and_none_after(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    asked = [asyncio.ensure_future(ledger.commit(one())) for _ in range(3)]
    await asyncio.sleep(0)
    ledger.close_now()  # Before the loop had a turn to hand them over.
    assert [receipt.numbers for receipt in await asyncio.gather(*asked)] == [[1], [2], [3]]
    with pytest.raises(LedgerError):
        await ledger.commit(one())


@pytest.mark.req("C-4", "U-1")
async def test_a_full_disk_fails_the_batch_and_the_ledger_continues(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = open_writer(path)
    pages = int(database.pragma("page_count"))
    database.pragma("max_page_count", pages + 40)
    ledger = SqliteLedger("gw_test", SqliteWriter(database), SqliteReaders(path))
    outcomes: list[Any] = await asyncio.gather(
        *(ledger.commit(WriteBatch([Append("t1", "s/1", "C", 0, b"x" * 20_000), AuditAppend(DRAFT)]))
          for _ in range(60)),
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
    assert await ledger.head("t1", "s/1") == len(kept)
    assert len(await ledger.events("t1", "s/1", 0, 100)) == len(kept)
    await ledger.close()

    again = await open_ledger(path, CLOCK)
    assert (await again.commit(WriteBatch([*one(b"x" * 20_000).writes, AuditAppend(DRAFT)]))).numbers == [len(kept) + 1]
    assert verify_records(await again.audit("t1", 0, 1_000), None).records == (await again.audit_head("t1"))[0]
    await again.close()
