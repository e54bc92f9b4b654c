"""Entities in dicts: a batch that fails leaves every row, and their order, as they were."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.backends.memory.entities import MemoryEntities, Undo
from interlock.ports.entities import PAIRINGS, RUNNERS, SPENDING, RowCondition, equal
from interlock.ports.writes import Add, AuditAppend, Expire, Note, Put
from interlock.protocol.records import AuditDraft, PairingRecord, RunnerRecord, SpendingRecord

pytestmark = pytest.mark.anyio


def pairing(code: str, expires_ms: int) -> PairingRecord:
    return PairingRecord(code_sha256=code, tenant_id="t1", by={"id": "u", "role": "owner"}, created_ms=1,
                         expires_ms=expires_ms)


def runner(name: str, **changes: Any) -> RunnerRecord:
    return RunnerRecord(runner_id=name, tenant_id="t1", token_sha256=f"h-{name}", device_name="d", created_ms=1,
                        **{"last_seen_ms": 2, **changes})


async def test_an_undone_batch_keeps_the_rows_and_their_order() -> None:
    store, undo = MemoryEntities(), Undo()
    for record in (pairing("a", 10), pairing("b", 30), pairing("c", 10)):
        assert store.write_entity(Put(record), [])
    before = await store.select(PAIRINGS, (), ("place",), None)
    store.write_entity(Expire(PAIRINGS, 10), undo)
    store.write_entity(Put(pairing("d", 50)), undo)
    assert [one.code_sha256 for one in await store.rows(PAIRINGS)] == ["b", "d"]
    for step in reversed(undo):
        step()
    assert await store.select(PAIRINGS, (), ("place",), None) == before


async def test_rows_are_found_by_key_by_conditions_and_in_the_requested_order() -> None:
    store = MemoryEntities()
    for name in ("r2", "r1", "r3"):
        store.write_entity(Put(runner(name)), [])
    store.write_entity(Note(RUNNERS, "t1", "r1", 77), [])
    store.write_entity(Note(RUNNERS, "t2", "r2", 78), [])
    assert await store.one(RUNNERS, equal("runner_id", "r1")) == runner("r1", last_seen_ms=77)
    assert await store.one(RUNNERS, equal("runner_id", "r1"), equal("tenant_id", "t2")) is None
    assert await store.count(RUNNERS, RowCondition("last_seen_ms", ">", 2)) == 1
    by_sight = await store.select(RUNNERS, (), ("-last_seen_ms", "-place"), 2)
    assert [one.runner_id for one in by_sight] == ["r1", "r3"]


async def test_figures_are_added_and_other_writes_ignored() -> None:
    store = MemoryEntities()
    for micros in (3, 4):
        store.write_entity(Add(SpendingRecord(tenant_id="t1", budget="b", scope="", day=3, spent_micros=micros)), [])
    assert [one.spent_micros for one in await store.rows(SPENDING)] == [7]
    draft = AuditDraft(tenant_id="t1", at="", who={"id": "u", "role": "owner"}, action="enqueue")
    assert not store.write_entity(AuditAppend(draft), [])
