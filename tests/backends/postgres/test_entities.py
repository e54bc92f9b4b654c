"""An entity's declaration equals its table after the numbered migrations."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from interlock.backends.entity_rows import table_sql
from interlock.backends.postgres.database import PostgresConnection, PostgresSettings
from interlock.ports.entities import MIGRATED, Entity

pytestmark = pytest.mark.anyio
COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity::text FROM pg_attribute
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
"""
KEYS = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = $1::regclass AND i.indisunique GROUP BY i.indexrelid
"""


@pytest.mark.parametrize("entity", MIGRATED, ids=lambda one: one.table)
async def test_the_declared_columns_and_keys_are_those_of_the_database(postgres: PostgresSettings,
                                                                       entity: Entity[Any]) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    migrated = await described(connection, entity.table)
    await connection.execute("BEGIN; CREATE SCHEMA declared; SET LOCAL search_path TO declared")
    await connection.execute(table_sql(entity, "postgres"))
    declared = await described(connection, f"declared.{entity.table}")
    await connection.execute("ROLLBACK")
    await connection.close()
    assert declared == migrated


async def described(connection: PostgresConnection, table: str) -> tuple[set[tuple[Any, ...]], set[frozenset[str]]]:
    columns = {tuple(row) for row in await connection.fetch(COLUMNS, table)}
    return columns, {frozenset(row[0]) for row in await connection.fetch(KEYS, table)}
