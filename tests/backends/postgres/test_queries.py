"""Frequent queries cost no more in a store that has grown: the server finds it by an index that fits."""

from __future__ import annotations

import asyncpg
import pytest

from interlock.backends.postgres import entities, queries
from interlock.backends.postgres.database import PostgresSettings
from interlock.ports.entities import DELIVERIES

pytestmark = pytest.mark.anyio
GROWN = """
INSERT INTO command (id, tenant_id, session_id, state, agent_id, actor_id, ended_ms, type, created_ms, body)
SELECT 'c' || g, 't' || g % 4, 's' || g % 100, 'succeeded', 'a', 'p' || g % 5, g, 'execute', g, '{}'
FROM generate_series(1, 8000) AS g;
INSERT INTO delivery (id, tenant_id, state, due_ms, created_at, body)
SELECT 'd' || g, 't' || g % 4, 'delivered', NULL, to_char(g, 'FM000000'), '{}' FROM generate_series(1, 8000) AS g;
INSERT INTO audit (tenant_id, seq, hash, body)
SELECT 't' || g % 2, g, 'h', convert_to(repeat('{"a":"b"}', 40) || CASE g % 1000 WHEN 0 THEN '"row_sha256":"' WHEN 1
  THEN '"frames_of":"0123456789abcdef0123456789abcdef"' ELSE '' END, 'UTF8') FROM generate_series(1, 8000) AS g;
ANALYZE command, delivery, audit
"""
NEWEST = entities.select_sql(DELIVERIES, (("tenant_id", "="),), ("-place",), limited=True)
NEWEST_OF_STATE = entities.select_sql(DELIVERIES, (("tenant_id", "="), ("state", "=")), ("-place",), limited=True)
ASKED = {
    "a day's commands of a tenant": (queries.EXECUTES_SINCE, "'t1', NULL, 7900", "command_executed"),
    "a day's commands of a person": (queries.EXECUTES_SINCE, "'t1', 'p1', 7900", "command_executed"),
    "the newest deliveries": (NEWEST, "'t1', 50", "delivery_by_tenant"),
    "the newest deliveries of a state": (NEWEST_OF_STATE, "'t1', 'delivered', 50", "delivery_by"),
    "how many deliveries are old": (queries.OLD_DELIVERIES, "'t1', '000100'", "delivery_done"),
    "what an audit log says of rows": (queries.AUDIT_OF_ROWS, "'t1', 10", "audit_of_rows"),
    "what an audit log seals of a session": (queries.AUDIT_OF_SEALS, "'t1', 'f', 5", "audit_of_seals"),
    "a page of commands": (queries.commands((), paged=False), "'t1', 50", "command_by_tenant"),
}


async def test_frequent_queries_use_an_index_at_any_size(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(GROWN)
    # The plan that serves every value, as a statement has it that was asked a few times.
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    for what, (sql, values, index) in ASKED.items():
        await connection.execute(f"PREPARE asked AS {sql}")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE asked ({values})"))
        await connection.execute("DEALLOCATE asked")
        assert index in plan, f"{what}: {plan}"
        assert "Seq Scan" not in plan, f"{what}: {plan}"
    await connection.close()
