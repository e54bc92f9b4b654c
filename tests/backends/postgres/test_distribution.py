"""Which tables could be distributed by tenant (Citus), read from a real PostgreSQL and held against the sizing page.

A distributed table enforces a unique or foreign key only if the key has the distribution column. What the page names as
missing is what a distributed form still needs; a table that is new, or that changes its keys, must be entered there.
"""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresConnection, PostgresSettings

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[3] / "docs/explanation/sizing.md"
SECTION = "## Past one PostgreSQL"
BY_TENANT = "keyed by tenant"
OTHER_KEY = "has the tenant, and a key without it"
NO_TENANT = "no tenant column"
SHARED = "of the whole cluster"

COLUMNS = """
SELECT c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace AND a.attnum > 0
  AND NOT a.attisdropped
GROUP BY c.relname
"""
KEYS = """
SELECT c.relname, array_agg(a.attname::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1])
WHERE i.indisunique AND c.relnamespace = current_schema()::regnamespace GROUP BY i.indexrelid, c.relname
"""
FOREIGN_KEYS = """
SELECT c.relname, array_agg(a.attname::text) FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(f.conkey)
WHERE f.contype = 'f' AND f.connamespace = current_schema()::regnamespace GROUP BY f.oid, c.relname
"""


async def found(connection: PostgresConnection) -> dict[str, str]:
    """Return for each table which of the page's rows it belongs to; a table without a tenant is left to the page."""
    keys: dict[str, list[set[str]]] = {}
    for name, columns in [*await connection.fetch(KEYS), *await connection.fetch(FOREIGN_KEYS)]:
        keys.setdefault(name, []).append(set(columns))
    kinds: dict[str, str] = {}
    for name, columns in await connection.fetch(COLUMNS):
        if "tenant_id" not in columns:
            kinds[name] = ""
        else:
            named = keys.get(name, [])
            kinds[name] = BY_TENANT if named and all("tenant_id" in key for key in named) else OTHER_KEY
    return kinds


def written() -> dict[str, str]:
    """Return the page's table: the name of each database table, and its row."""
    section = PAGE.read_text(encoding="utf-8").split(SECTION + "\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {name: kind for kind, names, *_ in rows for name in re.findall(r"`(\w+)`", names)}


def differing(kinds: dict[str, str], page: dict[str, str]) -> set[str]:
    """Return the tables of which schema and page disagree."""
    return {name for name in {*kinds, *page}
            if name not in page or name not in kinds
            or (page[name] not in (NO_TENANT, SHARED) if not kinds[name] else page[name] != kinds[name])}


async def test_the_page_names_what_keeps_each_table_from_being_distributed(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    kinds, foreign = await found(connection), await connection.fetch(FOREIGN_KEYS)
    await connection.close()
    assert foreign == [], "the page says that there are none"
    assert set(kinds.values()) == {"", BY_TENANT, OTHER_KEY}
    assert set(written().values()) == {BY_TENANT, OTHER_KEY, NO_TENANT, SHARED}
    assert differing(kinds, written()) == set()


async def test_a_table_with_a_unique_or_foreign_key_without_its_tenant_is_found(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("""
        CREATE TABLE whole (tenant_id text, id text, PRIMARY KEY (tenant_id, id));
        CREATE TABLE once (tenant_id text, id text, secret text UNIQUE, PRIMARY KEY (tenant_id, id));
        CREATE TABLE listed (tenant_id text, id text, PRIMARY KEY (id) INCLUDE (tenant_id));
        CREATE TABLE spoken (tenant_id text, id text, PRIMARY KEY (tenant_id, id));
        CREATE UNIQUE INDEX ON spoken (lower(id));
        CREATE TABLE shared (id text PRIMARY KEY);
        CREATE TABLE pointing (tenant_id text, id text REFERENCES shared, PRIMARY KEY (tenant_id, id));
        CREATE TABLE keyless (tenant_id text)
    """)
    kinds = await found(connection)
    await connection.close()
    assert kinds == {"whole": BY_TENANT, "once": OTHER_KEY, "listed": OTHER_KEY, "spoken": OTHER_KEY, "shared": "",
                     "pointing": OTHER_KEY, "keyless": OTHER_KEY}


def test_a_table_that_the_page_does_not_name_is_refused() -> None:
    assert differing({"command": OTHER_KEY, "added": BY_TENANT}, {"command": OTHER_KEY}) == {"added"}
    assert differing({"command": BY_TENANT}, {"command": OTHER_KEY, "gone": SHARED}) == {"command", "gone"}
    assert differing({"store": ""}, {"store": BY_TENANT}) == {"store"}
