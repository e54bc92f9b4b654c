"""No query reads a whole table or sorts one: the cost of a page does not grow with the rows after it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

from backends.entity_reads import entity_reads
from interlock.backends.sqlite import entities, queries
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.queries import BufferedTable
from interlock.ports.entities import ENTITIES
from interlock.protocol.resources import UsageDimension

WHOLE_BY_INTENT = {"AUDIT_WITHOUT_TREE", "TRANSCRIPT_PENDING", "AUDIT_TENANTS", "DUE_SESSIONS", "LAST_STREAM_ID",
                   "drains()", "tenants()", "rules()", "rules(revoked)"}
"""These give all there is, each from an index in its order (or one end of it)."""

SORTED_BY_INTENT = {"COUNTS", "WOULD_FORGET", "NAMED_OBJECTS", "OLD_SESSIONS", "deliveries(tenant_id)"}
"""These count or gather for a scrape or for the daily round, over what is live or old: no one waits for a page. The
last one sorts a tenant's deliveries, of which those that have ended go after some days."""

NAMED = {name: sql for name, sql in vars(queries).items() if name.isupper() and isinstance(sql, str) and " " in sql
         and not name.endswith("COLUMNS") and not name.startswith("_")}
COLUMNS = ("state", "agent_id", "session_id", "actor_id")
MADE = {
    **{f"commands({'+'.join(filters)}{', paged' if paged else ''})": queries.commands(filters, paged=paged)
       for size in range(5) for filters in combinations(COLUMNS, size) for paged in (False, True)},
    **{f"approvals({by_state}, {paged})": queries.approvals(by_state=by_state, paged=paged)
       for by_state in (False, True) for paged in (False, True)},
    **{f"{name}, {rows} rows": table.statement(rows) for name, table in vars(queries).items()
       if isinstance(table, BufferedTable) for rows in (1, 64)},
    **{one.name: entities.count_sql(one.entity, one.where) if one.order is None else
       entities.select_sql(one.entity, one.where, one.order, limited=one.limited) for one in entity_reads()},
    **{f"{write.__name__} {entity.table}": write(entity) for entity in ENTITIES for write in (
        entities.put_sql, entities.drop_sql, *([entities.expire_sql] if entity.expires else []),
        *([entities.note_sql] if entity.noted else []), *([entities.redeem_sql] if entity.missing else []))},
}  # fmt: skip


def test_all_queries_are_examined() -> None:
    assert len(NAMED) > 25
    assert len(MADE) > 80


@pytest.mark.parametrize("name", [*NAMED, *MADE])
def test_the_plan_uses_an_index(tmp_path: Path, name: str) -> None:
    sql = {**NAMED, **MADE}[name]
    database = open_writer(tmp_path / "ledger.db")
    numbered = [int(mark) for mark in re.findall(r"\?(\d+)", sql)]
    bindings = [None] * (max(numbered) if numbered else sql.count("?"))
    plan = [str(row[3]) for row in database.execute("EXPLAIN QUERY PLAN " + sql, bindings).fetchall()]
    database.close()
    assert name in SORTED_BY_INTENT or not [step for step in plan if "TEMP B-TREE" in step], plan
    scans = [step for step in plan if step.startswith("SCAN") and "CONSTANT ROW" not in step and "VALUES" not in step
             and step != "SCAN v" and "SCAN json_each" not in step]  # The rows that a statement brings along.
    assert not scans or name in WHOLE_BY_INTENT | SORTED_BY_INTENT, plan


@pytest.mark.parametrize(("sql", "index"), [
    (queries.AUDIT_OF_COMMAND, "audit_by_command"), (queries.AUDIT_OF_APPROVAL, "audit_by_approval"),
    (queries.AUDIT_OF_ROWS, "audit_of_rows"), (queries.AUDIT_OF_SEALS, "audit_of_seals"),
])
def test_a_range_of_an_audit_log_is_read_by_its_own_index(tmp_path: Path, sql: str, index: str) -> None:
    database = open_writer(tmp_path / "ledger.db")
    (step,) = database.execute("EXPLAIN QUERY PLAN " + sql, [None] * (2 if "?2" in sql else sql.count("?"))).fetchall()
    database.close()
    assert f"USING INDEX {index} (" in str(step[3]), "the primary key reads all records of the tenant"


@pytest.mark.parametrize(("sql", "rewritten"), [
    (queries.PUT_COMMANDS.statement(1), {"command_by_state", "command_live"}),
    (queries.PUT_APPROVAL, {"approval_by_state", "approval_live"}),
])
def test_a_transition_rewrites_only_the_indexes_of_the_state(tmp_path: Path, sql: str, rewritten: set[str]) -> None:
    database = open_writer(tmp_path / "ledger.db")
    program = database.execute("EXPLAIN " + sql, [None] * sql.count("?")).fetchall()
    names = dict(database.execute("SELECT rootpage, name FROM sqlite_schema WHERE type = 'index'").fetchall())
    database.close()
    opened = {cursor: names[root] for _, opcode, cursor, root, *_ in program if opcode == "OpenWrite" and root in names}
    # An upsert that finds a row removes its entry from each index that it writes again.
    assert {opened[cursor] for _, opcode, cursor, *_ in program if opcode == "IdxDelete"} == rewritten


@pytest.mark.req("J-13")
@pytest.mark.parametrize("by", [frozenset[UsageDimension](), frozenset({"day", "agent"}), frozenset({"session"})])
def test_usage_reads_only_the_days_of_one_tenant(tmp_path: Path, by: frozenset[UsageDimension]) -> None:
    database = open_writer(tmp_path / "ledger.db")
    plan = [str(row[3]) for row in database.execute("EXPLAIN QUERY PLAN " + queries.usage(by), [None] * 8).fetchall()]
    database.close()
    assert "SEARCH daily_usage USING PRIMARY KEY (tenant_id=? AND day>? AND day<?)" in plan
