"""How the statements that read many lanes find what belongs to them, by the plans of a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from interlock.backends.postgres import queries
from interlock.backends.postgres.database import PostgresSettings

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]

RECORDS = 20_000
LANES = 32
FILLED = """
INSERT INTO audit (tenant_id, seq, hash, body)
SELECT 't', n, decode(repeat('00', 32), 'hex'),
       convert_to('{"action":"enqueue","command_id":"cmd_' || n || '","rest":"' || repeat('.', 400) || '"}', 'UTF8')
FROM generate_series(1, $1) AS n
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each node of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


async def test_the_records_of_many_lanes_commands_are_found_without_reading_the_whole_log(
    postgres: PostgresSettings,
) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(FILLED.replace("$1", str(RECORDS)))
    await connection.execute("ANALYZE audit; SET plan_cache_mode = force_custom_plan")
    places, tenants = list(range(LANES)), ["t"] * LANES
    names = [f"s/{number}" for number in places]
    commands = [f"cmd_{number + 1}" for number in places]
    asked = (places, names, [0] * LANES, 100, places, tenants, commands, [0], ["t"], ["apr_1"],
             places, tenants, [b"." * 32] * LANES, 3, tenants)
    row = await connection.fetchval("EXPLAIN (FORMAT JSON) " + queries.LANE_HISTORIES, *asked)
    found = await connection.fetch(queries.LANE_HISTORIES, *asked)
    await connection.close()
    whole = [one for one in nodes(json.loads(row)[0]["Plan"])
             if one["Node Type"] == "Seq Scan" and one.get("Relation Name") == "audit"]
    assert whole == []
    assert sorted(one[3] for one in found) == sorted(commands)
