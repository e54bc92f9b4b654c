"""The proof on an edited database, in a size that the ordinary suite can bear: python -m proof tamper-database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proof.audit.database_copies import PostgresStore, SqliteStore
from proof.audit.database_tampering import PARTS, table, trials

pytestmark = pytest.mark.anyio
FINDS = {"rows": ("api_key", "remembered_rule"), "seals": ("control", "session"), "binding": ("command", "approval")}
"""The tables whose edits a comparison finds."""


@pytest.mark.req("H-5")
async def test_no_edit_by_sql_changes_a_run_undetected(tmp_path: Path) -> None:
    found, wrong = await trials(SqliteStore(tmp_path), seed=7, rounds=20)

    print(table(found))
    assert wrong == []
    assert sum(one.edits for one in found.values()) == 20
    assert any(one.reported for one in found.values())


@pytest.mark.parametrize("part", PARTS)
async def test_the_proof_detects_a_disabled_comparison(part: str, tmp_path: Path) -> None:
    _, wrong = await trials(SqliteStore(tmp_path), seed=1, rounds=16, broken=part, tables=FINDS[part])

    assert wrong, "it prints FAILED and ends with 1"


@pytest.mark.req("H-5")
async def test_no_edit_by_sql_on_postgresql_changes_a_run_undetected(postgres_server: str) -> None:
    store = PostgresStore(postgres_server, f"tampered_{os.getpid()}")
    found, wrong = await trials(store, seed=7, rounds=9)

    print(table(found))
    assert wrong == []
    assert any(one.reported for one in found.values())


async def test_the_proof_on_postgresql_detects_rows_that_are_not_compared(postgres_server: str) -> None:
    store = PostgresStore(postgres_server, f"broken_{os.getpid()}")
    _, wrong = await trials(store, seed=1, rounds=8, broken="rows", tables=FINDS["rows"])

    assert wrong, "it prints FAILED and ends with 1"
