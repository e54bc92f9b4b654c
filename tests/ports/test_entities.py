"""One declaration is all that a further entity needs: every ledger makes its table, stores, lists and forgets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from interlock.backends.memory import entities as in_memory
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.postgres import entities as in_postgres
from interlock.backends.postgres import tables
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite import entities as in_sqlite
from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports import entities
from interlock.ports.entities import Entity, RowCondition, equal, number, text
from interlock.ports.ledger import (
    Change,
    Drop,
    Expire,
    Ledger,
    LedgerWrite,
    NameTaken,
    Put,
    Redeem,
    Spent,
    WriteBatch,
)
from interlock.protocol.records import Record

pytestmark = pytest.mark.anyio


class LabelRecord(Record, frozen=True, kw_only=True):
    """A record that no ledger knows without its declaration."""

    tenant_id: str
    name: str
    color: str = "red"
    ends_ms: int = 10
    used_ms: int = 0


class BadgeRecord(Record, frozen=True, kw_only=True):
    """One whose key is good once."""

    code: str
    tenant_id: str
    ends_ms: int = 10


LABELS = Entity(
    "label", LabelRecord, ("tenant_id", "name"), ordered=True, expires="ends_ms",
    columns=(text("tenant_id"), text("name"), text("color", unique="Another label has this color."),
             number("ends_ms"), number("used_ms", noted=True, kept=True)))
BADGES = Entity(
    "badge", BadgeRecord, ("code",), once="This badge is there already.", expires="ends_ms",
    missing="This badge is not there.", columns=(text("code"), text("tenant_id"), number("ends_ms")))


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare both."""
    added = (LABELS, BADGES)
    for module in (in_sqlite, in_postgres):
        monkeypatch.setattr(module, "DECLARED", added)
    monkeypatch.setattr(in_memory, "ENTITIES", (*entities.ENTITIES, *added))
    monkeypatch.setattr("interlock.backends.postgres.faults.ENTITIES", (*entities.ENTITIES, *added))
    monkeypatch.setattr("interlock.backends.postgres.transaction.TABLES", [*tables.TABLES, "label", "badge"])
    monkeypatch.setitem(vars(entities)["_BY_RECORD"], LabelRecord, LABELS)
    monkeypatch.setitem(vars(entities)["_BY_RECORD"], BadgeRecord, BADGES)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("empty_database") if request.param == "postgres" else request.param


@pytest.fixture
async def ledger(place: str, tmp_path: Path) -> AsyncIterator[Ledger]:
    opened: Ledger
    if place not in ("memory", "sqlite"):
        opened = await open_in_postgres(PostgresSettings(place), ManualClock())
    else:
        opened = MemoryLedger() if place == "memory" else await open_ledger(tmp_path / "l.db", ManualClock())
    yield opened
    await opened.close()


async def commit(ledger: Ledger, *writes: LedgerWrite) -> None:
    await ledger.commit(WriteBatch(writes))


async def test_a_declared_entity_is_put_replaced_listed_counted_and_dropped(ledger: Ledger) -> None:
    first = LabelRecord(tenant_id="t1", name="urgent")
    await commit(ledger, Put(first), Put(LabelRecord(tenant_id="t1", name="blue", color="blue")),
                 Put(LabelRecord(tenant_id="t2", name="urgent", color="green\0")))
    of_t1 = equal("tenant_id", "t1")
    assert [one.name for one in await ledger.rows(LABELS, of_t1)] == ["urgent", "blue"], "the oldest first"
    newest = await ledger.select(LABELS, (of_t1,), ("-place",), 1)
    assert [one.name for one in newest] == ["blue"]
    assert await ledger.count(LABELS, RowCondition("name", "in", ["urgent", "none"])) == 2
    changed = msgspec.structs.replace(first, color="black", ends_ms=20)
    await commit(ledger, Put(changed))
    assert await ledger.one(LABELS, of_t1, equal("name", "urgent")) == changed
    with pytest.raises(NameTaken, match=r"Another label has this color\."):
        await commit(ledger, Put(LabelRecord(tenant_id="t1", name="third", color="blue")))
    await commit(ledger, Drop(LABELS, ("t1", "blue")))
    assert [one.color for one in await ledger.rows(LABELS)] == ["black", "green\0"]
    await commit(ledger, Expire(LABELS, 10))
    assert await ledger.rows(LABELS) == [changed]


async def test_a_separately_noted_column_survives_a_later_put(ledger: Ledger) -> None:
    badge = BadgeRecord(code="c", tenant_id="t1")
    await commit(ledger, Put(badge))
    with pytest.raises(NameTaken, match=r"This badge is there already\."):
        await commit(ledger, Put(badge))
    await commit(ledger, Change(msgspec.structs.replace(badge, ends_ms=30)))
    with pytest.raises(Spent, match=r"This badge is not there\."):
        await commit(ledger, Change(msgspec.structs.replace(badge, tenant_id="t2")))
    for tenant_id, now_ms in (("t2", 1), ("t1", 30)):
        with pytest.raises(Spent):
            await commit(ledger, Redeem(BADGES, tenant_id, "c", now_ms))
    await commit(ledger, Redeem(BADGES, "t1", "c", 29))
    assert await ledger.count(BADGES) == 0


async def test_an_old_ledger_gets_the_table_and_an_old_program_still_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = in_sqlite.DECLARED
    monkeypatch.setattr(in_sqlite, "DECLARED", ())
    await (await open_ledger(tmp_path / "l.db", ManualClock())).close()
    monkeypatch.setattr(in_sqlite, "DECLARED", declared)
    newer = await open_ledger(tmp_path / "l.db", ManualClock())
    await commit(newer, Put(LabelRecord(tenant_id="t1", name="urgent")))
    await newer.close()
    monkeypatch.setattr(in_sqlite, "DECLARED", ())
    await (await open_ledger(tmp_path / "l.db", ManualClock())).close()
    monkeypatch.setattr(in_sqlite, "DECLARED", declared)
    again = await open_ledger(tmp_path / "l.db", ManualClock())
    assert await again.count(LABELS) == 1
    await again.close()
