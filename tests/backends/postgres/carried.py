"""The tables that a statement reaches without naming a tenant, according to PostgreSQL's plan for any values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.backends.postgres.database import PostgresConnection

CONDITIONS = ("Index Cond", "Recheck Cond", "Filter", "Hash Cond", "Merge Cond", "Join Filter")
KEYS = """
SELECT c.relname, i.indexrelid::regclass::text, array_agg(a.attname::text) FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
WHERE c.relnamespace = current_schema()::regnamespace GROUP BY 1, 2
"""


def tables_without_a_tenant(plan: Mapping[str, Any], keys: Mapping[str, list[str]]) -> set[str]:
    """Return the tables that a plan reads, changes or finds a conflict in by anything but one tenant's rows. `keys` has
    the columns of each index."""
    nodes = list(_nodes(plan))
    conditions = [one for node in nodes for name in CONDITIONS if name in node for one in _parts(node[name])]
    found = set[str]()
    for node in nodes:
        table, alias = node.get("Relation Name"), node.get("Alias", "")
        if table is None:
            continue
        if node["Node Type"] == "ModifyTable":
            found |= {table for index in node.get("Conflict Arbiter Indexes", ()) if "tenant_id" not in keys[index]}
        elif not any(re.search(rf"\b{alias}\.tenant_id\b", one) for one in conditions):
            found.add(table)
    return found


def tables(plan: Mapping[str, Any]) -> set[str]:
    """Return all tables that a plan reads or changes."""
    return {node["Relation Name"] for node in _nodes(plan) if "Relation Name" in node}


def indexes(plan: Mapping[str, Any], table: str) -> set[str | None]:
    """Return the indexes by which a plan reads a table; None if it reads all of its rows."""
    return {name for node in _nodes(plan) if node.get("Relation Name") == table
            for name in [one["Index Name"] for one in _nodes(node) if "Index Name" in one] or [None]}


async def generic_plan(connection: PostgresConnection, sql: str) -> dict[str, Any]:
    """Return the plan of a statement whatever its values are."""
    values = max((int(one) for one in re.findall(r"\$(\d+)", sql)), default=0)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE asked AS {sql}")
    called = f"({', '.join(['NULL'] * values)})" if values else ""
    explained = await connection.fetchval(f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE asked{called}")
    await connection.execute("DEALLOCATE asked")
    plan: dict[str, Any] = json.loads(explained)[0]["Plan"]
    return plan


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _parts(condition: str) -> list[str]:
    """Split a conjunction into its parts; an alternative (OR) yields no condition."""
    return [one for one in condition.split(" AND ") if " OR " not in one]
