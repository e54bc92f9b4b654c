"""An entity's declaration equals its table after the numbered migrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.backends.entity_rows import table_sql
from interlock.backends.sqlite.connect import open_writer
from interlock.ports.entities import MIGRATED, Entity


@pytest.mark.parametrize("entity", MIGRATED, ids=lambda one: one.table)
def test_the_declared_columns_and_keys_are_those_of_the_file(tmp_path: Path, entity: Entity[Any]) -> None:
    migrated = open_writer(tmp_path / "ledger.db")
    declared: Any = apsw.Connection(":memory:")
    declared.execute(table_sql(entity, "sqlite"))
    assert columns(declared, entity.table) == columns(migrated, entity.table)
    assert keys(declared, entity.table) == keys(migrated, entity.table)
    migrated.close()
    declared.close()


def columns(database: Any, table: str) -> set[tuple[Any, ...]]:
    found = database.execute("SELECT name, type, \"notnull\" OR pk FROM pragma_table_info(?)", (table,)).fetchall()
    return {tuple(row) for row in found}


def keys(database: Any, table: str) -> set[frozenset[str]]:
    """The sets of columns of which a table has no two rows alike, but for its `place`."""
    found = {frozenset(row[0] for row in database.execute("SELECT name FROM pragma_index_info(?)", (name,)))
             for name, in database.execute("SELECT name FROM pragma_index_list(?) WHERE \"unique\"", (table,))}
    return {one for one in found if one != {"place"}}
