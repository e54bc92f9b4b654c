"""Which tables could be distributed by tenant (Citus), read from a real PostgreSQL and held against the sizing page.

A distributed table enforces a unique or foreign key only if the key has the distribution column. What the page names as
missing is what a distributed form still needs; a table that is new, or that changes its keys, must be entered there.
Statements are held to the same rule, by lists of those that do not keep it yet.
"""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import msgspec
import pytest

from backends.postgres import carried
from backends.postgres.statements import all_statements
from interlock.backends.postgres.database import PostgresConnection, PostgresSettings
from interlock.backends.postgres.transaction import AuditHead, CommitGroup
from interlock.command.audit.audit import FIRST_PREV
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    LaneName,
    PutCommand,
    PutControl,
    PutIdempotency,
    PutSession,
    WriteBatch,
)
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, CommandRecord, ControlRecord, IdempotencyRecord, SessionRecord
from interlock.protocol.resources import Actor, Command, Target
from servers import by_tenant

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[3] / "docs/explanation/sizing.md"
SECTION = "## Beyond one PostgreSQL"
BY_TENANT = "keyed by tenant"
OTHER_KEY = "has the tenant, and a key without it"
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

TRIGGERS = """
SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
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
            or page[name] != (kinds[name] or SHARED)}


async def test_the_page_names_the_obstacles_to_distributing_each_table(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    kinds, foreign = await found(connection), await connection.fetch(FOREIGN_KEYS)
    await connection.close()
    assert foreign == [], "the page says that there are none"
    assert set(kinds.values()) == {"", BY_TENANT, OTHER_KEY}
    assert set(written().values()) == {BY_TENANT, OTHER_KEY, SHARED}
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


async def test_the_suites_run_on_tables_with_the_tenant_in_every_key_and_no_trigger(
    postgres_by_tenant: PostgresSettings,
) -> None:
    connection = await asyncpg.connect(postgres_by_tenant.dsn)
    kinds = await found(connection)
    triggers = {row[0] for row in await connection.fetch(TRIGGERS)}
    await connection.close()
    assert {name for name, kind in kinds.items() if kind == OTHER_KEY} == set(by_tenant.OF_THE_CLUSTER)
    assert triggers <= set(by_tenant.OF_THE_CLUSTER)
    assert {name for name, kind in kinds.items() if kind} == {
        name for name, kind in written().items() if kind in (BY_TENANT, OTHER_KEY)}, "no table was left out"


def test_a_table_that_the_page_does_not_name_is_refused() -> None:
    assert differing({"command": OTHER_KEY, "added": BY_TENANT}, {"command": OTHER_KEY}) == {"added"}
    assert differing({"command": BY_TENANT}, {"command": OTHER_KEY, "gone": SHARED}) == {"command", "gone"}
    assert differing({"store": ""}, {"store": BY_TENANT}) == {"store"}


# --- statements ---
BY_KEY = {
    "entities.key_by_id(key_id)",
    "entities.signing_key(key_id)", "queries.SESSION_OF_ANY_TENANT",
}
"""Statements that find a tenant's row by a key without its tenant. What a distributed form still needs: the list may
only get shorter."""
BEFORE_ITS_TENANT = {"entities.browser_login(id)", "entities.key(key_sha256)", "entities.pairing(code_sha256)",
                     "entities.runner_by_token(token_sha256)"}
"""Statements that find out whose a credential is."""
OF_ALL_TENANTS = {
    "audit_rows.SESSIONS", "audit_rows.TENANTS", "entities.deliveries_due(due_ms)", "entities.drains()",
    "entities.expire browser_login", "entities.expire daily_usage", "entities.expire pairing",
    "entities.expire spending", "entities.next_delivery_ms(due_ms)", "entities.rules()", "entities.rules(revoked)",
    "entities.spending(day)", "entities.tenants()", "leases.ORPHANS", "leases.SINCE",
    "leases.SURVEY", "queries.AUDIT_TENANTS",
    "queries.COUNTS", "queries.DUE_SESSIONS", "queries.FILE_OBJECTS", "queries.PRUNE_IDEMPOTENCY",
    "queries.TRANSCRIPT_PENDING", "queries.UNDER_WAY", "tenant_moves.MOVES",
}
"""Statements about all tenants together. They belong to no command."""
BY_PLAN = {"queries.IF_OLD", "queries.OLD_SESSIONS"}
"""Statements that name the tenant; a plan that hashes a part of them reads that part of all tenants."""


LOCKS = re.compile(r"\bFOR (NO KEY )?(UPDATE|SHARE)\b")
OF_ONE_TENANT = re.compile(r"\btenant_id = \$\d\b")
LOCK_SEVERAL = {"lane_takeover.HOLD", "lane_takeover.CLAIM", "statements.HOLD_HEADS", "statements.HOLD_LANES"}
"""Statements that lock rows of several tenants, which a distributed form takes for one tenant at a time alone."""


async def reaching(connection: PostgresConnection, asked: dict[str, str]) -> set[str]:
    """Return the statements that reach a tenant's table by anything but the tenant."""
    keys = {index: columns for _, index, columns in await connection.fetch(carried.KEYS)}
    with_tenant = {name for name, columns in await connection.fetch(COLUMNS) if "tenant_id" in columns}
    found = set[str]()
    for name, sql in asked.items():
        plan = await carried.generic_plan(connection, sql)
        if carried.tables_without_a_tenant(plan, keys) & with_tenant:
            found.add(name)
    return found


async def test_no_further_statement_reaches_a_tenants_table_without_its_tenant(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    found = await reaching(connection, all_statements(("audit_rows", "tenant_moves")))
    await connection.close()
    known = BY_KEY | BEFORE_ITS_TENANT | OF_ALL_TENANTS
    assert found - known - BY_PLAN == set(), "name the tenant in the statement, for each of its tables that has one"
    assert known - found == set(), "these carry their tenant by now: take them off the list, and say so on the page"
    assert f"{len(BY_KEY)} statements" in PAGE.read_text(encoding="utf-8").split(SECTION + "\n")[1]


async def test_no_further_statement_locks_rows_of_several_tenants(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    with_tenant = {name for name, columns in await connection.fetch(COLUMNS) if "tenant_id" in columns}
    found = set[str]()
    for name, sql in all_statements(("audit_rows", "tenant_moves")).items():
        if LOCKS.search(sql) and not OF_ONE_TENANT.search(sql):
            plan = await carried.generic_plan(connection, sql)
            if carried.tables(plan) & with_tenant:
                found.add(name)
    await connection.close()
    assert found == LOCK_SEVERAL


async def test_a_statement_without_the_tenant_is_found(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("""
        CREATE TABLE item (tenant_id text, id text, body text, PRIMARY KEY (tenant_id, id));
        CREATE TABLE part (tenant_id text, id text, item_id text, PRIMARY KEY (id))
    """)
    both = "SELECT * FROM item JOIN part ON part.item_id = item.id"
    carry = {
        "one row": "SELECT body FROM item WHERE tenant_id = $1 AND id = $2",
        "joined": f"{both} AND part.tenant_id = item.tenant_id WHERE item.tenant_id = $1",
        "insert": "INSERT INTO item VALUES ($1, $2, $3) ON CONFLICT (tenant_id, id) DO UPDATE SET body = $3",
        "update": "UPDATE item SET body = $3 WHERE tenant_id = $1 AND id = $2",
    }
    leave_out = {
        "by id": "SELECT body FROM item WHERE id = $1",
        "perhaps": "SELECT body FROM item WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2)",
        "half": f"{both} WHERE item.tenant_id = $1",
        "conflict": "INSERT INTO part VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
        "delete": "DELETE FROM part WHERE id = $1",
        "within": "SELECT 1 FROM item WHERE tenant_id = $1 AND id IN (SELECT item_id FROM part)",
    }
    found = await reaching(connection, carry | leave_out)
    await connection.close()
    assert found == set(leave_out)


async def test_a_commands_transaction_leaves_its_tenant_only_as_documented(
    postgres: PostgresSettings,
) -> None:
    group = CommitGroup()
    group.add(command_taken_in())
    single = group.single("w", 1, {LaneName("t1", "S1"): 1}, {"t1": AuditHead(0, FIRST_PREV, b"", None)})
    connection = await asyncpg.connect(postgres.dsn)
    plan = await carried.generic_plan(connection, single.sql())
    await connection.close()
    reached, page = carried.tables(plan), written()
    assert {one for one in reached if page[one] == SHARED} == {"writer"}
    assert {"lane", "command", "session", "control", "idempotency", "audit", "audit_head", "stream",
            "event"} <= reached


def command_taken_in() -> WriteBatch:
    """The writes of a lane that accepts a command and sends its prompt."""
    command = Command(id="cmd_1", created_at=iso(1), updated_at=iso(1), tenant_id="t1",
                      actor=Actor(type="user", id="u"), type="execute", target=Target(agent_id="shell"),
                      state="queued", timeout_ms=5, payload=msgspec.Raw(b"{}"))
    session = SessionRecord(session_id="S1", tenant_id="t1", session_key="k", agent_id="shell", runner_id="r",
                            workspace="/w", state="running", created_ms=1, updated_ms=2, deadline_ms=None,
                            machine=b"{}", usage={})
    answer = IdempotencyRecord(tenant_id="t1", scope="s", fingerprint="f", status=202, headers={}, body=b"",
                               created_ms=1)
    return WriteBatch([
        PutCommand(CommandRecord(command=command, session_id="S1", created_ms=1)), PutSession(session),
        PutControl(ControlRecord(session_id="S1", seq=1, message_id="m", body=b"{}"), "t1"),
        Append("t1", "s/S1", "M", 1, b"{}"), Append("t1", "t/t1", "feed", 1, b"{}"), PutIdempotency(answer),
        AuditAppend(AuditDraft(tenant_id="t1", at=iso(1), who={"id": "u", "role": "owner"}, action="enqueue")),
    ], [(LaneName("t1", "S1"), 1)])
