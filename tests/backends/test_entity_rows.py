"""An entity's declaration becomes columns and back, and the parts of SQL that both databases share."""

from __future__ import annotations

import pytest

from interlock.backends.entity_rows import changed_by_put, names, on_conflict, record_of, row_of, searched, table_sql
from interlock.ports.entities import ENTITIES, KEYS, RUNNERS, SPENDING
from interlock.protocol.records import RunnerRecord, SpendingRecord

RUNNER = RunnerRecord(runner_id="r", tenant_id="t", token_sha256="h", device_name="d", created_ms=1, last_seen_ms=2)


def test_a_record_is_read_from_its_row_with_the_noted_column_over_the_body() -> None:
    *_, noted, body = row_of(RUNNERS, RUNNER, "sqlite")
    assert noted == 2
    assert record_of(RUNNERS, (body, 9)).last_seen_ms == 9
    assert record_of(RUNNERS, (body, 0)) == RUNNER, "a row from before the column has 0 there"
    pot = SpendingRecord(tenant_id="t", budget="b", scope="", day=3, spent_micros=5)
    assert record_of(SPENDING, row_of(SPENDING, pot, "postgres")) == pot
    assert searched(RUNNERS, "sqlite", RUNNER) == ("r", "t", "h")


def test_a_replaced_row_keeps_its_tenant_and_its_separately_noted_column() -> None:
    assert changed_by_put(KEYS, "sqlite") == ["key_sha256", "body"]
    assert "ON CONFLICT (tenant_id, key_id)" in on_conflict(KEYS, "postgres")
    assert on_conflict(KEYS, "sqlite").endswith("WHERE api_key.tenant_id = excluded.tenant_id")
    assert "spent_micros = spending.spent_micros + excluded.spent_micros" in on_conflict(SPENDING, "sqlite")


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda one: one.table)
def test_every_table_has_its_columns_and_an_index_by_its_tenant(entity: object) -> None:
    declared = next(one for one in ENTITIES if one is entity)
    for engine in ("sqlite", "postgres"):
        sql = table_sql(declared, engine)
        assert all(name in sql for name in names(declared, engine))
        assert any(f"{kind} (tenant_id" in sql for kind in ("KEY", "UNIQUE", f"ON {declared.table}"))
