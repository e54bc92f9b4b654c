"""Every table that moves has a condition on its tenant's rows, in both databases' own words."""

from __future__ import annotations

import apsw
import pytest

from interlock.app.data_migration.tables import TABLES
from interlock.app.data_migration.tenant_rows import NOT_MOVED_WITH_TENANT, TENANT_TABLES, where
from interlock.backends.sqlite.connect import open_writer


def test_all_tables_except_the_gateways_own_move() -> None:
    assert {table.name for table in TABLES} - {table.name for table in TENANT_TABLES} == NOT_MOVED_WITH_TENANT


def test_each_condition_fits_the_schema_and_takes_the_tenant_as_its_parameter(tmp_path: object) -> None:
    connection = open_writer(tmp_path / "ledger.db")  # type: ignore[operator]
    try:
        for table in TENANT_TABLES:
            sql = f"SELECT count(*) FROM {table.name} WHERE {where(table, 'sqlite')}"
            assert connection.execute(sql, ("t1",)).get == 0, table.name
    finally:
        connection.close()


@pytest.mark.parametrize("table", TENANT_TABLES, ids=lambda table: table.name)
def test_the_two_databases_differ_only_in_the_parameter_except_for_events(table: object) -> None:
    sqlite, postgres = where(table, "sqlite"), where(table, "postgres")  # type: ignore[arg-type]

    assert "{" not in sqlite + postgres
    assert "?1" not in postgres
    if table.name != "event":  # type: ignore[attr-defined]
        assert postgres == sqlite.replace("?1", "$1::text")


def test_a_condition_finds_only_the_tenants_own_session_streams() -> None:
    database = apsw.Connection(":memory:")
    database.execute("CREATE TABLE session (session_id, tenant_id); CREATE TABLE command (id, tenant_id);"
                     "CREATE TABLE stream (id, name);"
                     "INSERT INTO session VALUES ('a', 't1'), ('b', 't2'); INSERT INTO command VALUES ('x', 't1');"
                     "INSERT INTO stream VALUES (1, 's/a'), (2, 's/b'), (3, 'c/x'), (4, 't/t1'), (5, 't/t2')")
    stream = next(table for table in TENANT_TABLES if table.name == "stream")
    found = database.execute(f"SELECT id FROM stream WHERE {where(stream, 'sqlite')}", ("t1",)).fetchall()
    database.close()

    assert [row[0] for row in found] == [1, 3, 4]
