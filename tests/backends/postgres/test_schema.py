"""The schema: created once by the first gateway, refused if it is another's, and usable by an older gateway beside
it."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends.postgres.statements import all_statements
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import schema
from interlock.backends.postgres.database import PostgresConnection, PostgresSettings
from interlock.backends.postgres.faults import NotAPostgresLedger, WrongSchema
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.backends.postgres.schema import migrate, migrations
from interlock.ports.leases import Instance, Lease
from interlock.ports.ledger import Append, BeginLane, Fenced, LaneName, WriteBatch

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
STATEMENTS = {int(path.stem[-4:]): path for path in HERE.glob("statements_*.json")}
TAKES_AWAY = re.compile(r"\b(DROP|RENAME|TRUNCATE|SET NOT NULL|ALTER COLUMN|DELETE)\b", re.IGNORECASE)
ADDS_COLUMN = re.compile(r"\bADD COLUMN\b([^;]*)", re.IGNORECASE)


async def test_gateways_started_together_on_an_empty_database_create_one_ledger(empty_database: str) -> None:
    ledgers = await asyncio.gather(*(open_ledger(PostgresSettings(empty_database), ManualClock()) for _ in range(4)))
    assert len({await ledger.gateway_id() for ledger in ledgers}) == 1
    for ledger in ledgers:
        await ledger.close()


async def test_a_migration_step_may_exceed_the_statement_timeout(
        empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To fill a column of every row takes as long as there are rows: neither the limit of the user's statements nor
    that of a call ends it."""
    bounds = list[float | None]()
    execute = asyncpg.Connection.execute

    async def noted(self: Any, sql: str, *values: Any, timeout: float | None = None) -> str:
        if "LIKE" in sql or "advisory" in sql:
            bounds.append(timeout)
        return await execute(self, sql, *values, timeout=timeout)

    monkeypatch.setattr(asyncpg.Connection, "execute", noted)
    monkeypatch.setattr(schema, "migrations", lambda: [*made, schema.Migration(
        "LIKE", "CREATE TABLE seen AS SELECT current_setting('statement_timeout') AS bound -- LIKE", 1)])
    made = migrations()
    connection = await asyncpg.connect(empty_database, command_timeout=20)
    await connection.execute("SET statement_timeout = '20s'")
    await migrate(connection, empty_database)
    assert await connection.fetchval("SELECT bound FROM seen") == "0"
    assert await connection.fetchval("SHOW statement_timeout") == "20s", "it is the migration's alone"
    assert bounds == [schema.STEP_TIMEOUT_S] * 2
    await connection.close()


async def test_a_user_who_may_not_migrate_gets_the_remedy_and_changes_nothing(empty_database: str) -> None:
    with pytest.raises(WrongSchema, match="start a gateway of this version on it once"):
        await open_ledger(PostgresSettings(empty_database), ManualClock(), may_migrate=False)
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()


async def test_another_programs_database_is_refused(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("CREATE TABLE theirs (a int)")
    with pytest.raises(NotAPostgresLedger, match="name an empty one"):
        await open_ledger(PostgresSettings(empty_database), ManualClock())
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 1
    await connection.close()


async def test_a_newer_schema_is_refused_only_if_it_is_incompatible(empty_database: str) -> None:
    newest = len(migrations())
    await (await open_ledger(PostgresSettings(empty_database), ManualClock())).close()
    connection = await asyncpg.connect(empty_database)
    await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", newest + 1, newest)
    await (await open_ledger(PostgresSettings(empty_database), ManualClock())).close()
    await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", newest + 2, newest + 1)
    with pytest.raises(WrongSchema, match="use the newer program"):
        await open_ledger(PostgresSettings(empty_database), ManualClock())
    await connection.close()


async def test_a_user_who_may_not_create_tables_gets_an_error(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
    with pytest.raises(WrongSchema, match="Grant it CREATE"):
        await open_ledger(PostgresSettings(empty_database.replace("interlock@", "reader@")), ManualClock())
    await connection.close()


@pytest.mark.parametrize("version", sorted(STATEMENTS))
async def test_statements_of_an_older_program_work_on_the_newest_schema(postgres: PostgresSettings,
                                                                        version: int) -> None:
    oldest = migrations()[-1].oldest
    connection = await asyncpg.connect(postgres.dsn)
    for name, sql in json.loads(STATEMENTS[version].read_text()).items():
        if version >= oldest:
            assert (await connection.prepare(sql)) is not None, name
    await connection.close()


async def test_every_statement_of_this_program_fits_the_schema(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    found = all_statements()
    assert len(found) > 100
    for sql in found.values():
        await connection.prepare(sql)
    await connection.close()


COMMAND = """
INSERT INTO command (id, tenant_id, session_id, state, actor_id, type, created_ms, body)
VALUES ($1, $2, '', '', '', '', 0, '')
"""
ANSWER = """
INSERT INTO idempotency (scope, fingerprint, status, headers, body, created_ms, command_id)
VALUES ($1, '', 0, '', '', 0, $2)
"""


async def test_a_response_stored_by_an_older_program_gets_its_commands_tenant(
    empty_database: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = await asyncpg.connect(empty_database)
    monkeypatch.setattr(schema, "migrations", lambda: migrations()[:14])
    await schema.migrate(connection, empty_database)
    await connection.execute(COMMAND, "c1", "t1")
    await connection.execute(ANSWER, "before", "c1")
    await connection.execute(ANSWER, "about nothing before", None)
    monkeypatch.undo()
    await schema.migrate(connection, empty_database)
    await connection.execute(ANSWER, "later", "c1")
    await connection.execute(ANSWER, "about nothing", None)
    together = COMMAND.replace("$2", "$3").replace("$1", "$2")
    await connection.execute(f"WITH one AS ({ANSWER}), other AS ({together}) SELECT $1", "together", "c2", "t2")
    found = dict(await connection.fetch("SELECT scope, tenant_id FROM idempotency"))
    await connection.close()
    assert found == {"before": "t1", "later": "t1", "together": "t2", "about nothing before": "", "about nothing": ""}


SESSION = """
INSERT INTO session (session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms,
                     usage, machine) VALUES ($1, $2, '', '', '', '', '', 0, 0, '', '')
"""
OF_SESSIONS = {
    "control": "INSERT INTO control (session_id, seq, message_id, body) VALUES ($1, $2, '', '')",
    "transcript_pending": "INSERT INTO transcript_pending (session_id, entry_id, line) "
                          "VALUES ($1, $2::bigint::text, '')",
    "transcript": "INSERT INTO transcript (session_id, kept, agent_id, lines) VALUES ($1, $2::bigint::text, '', 0)",
    "transcript_line": "INSERT INTO transcript_line (session_id, n, line) VALUES ($1, $2, '')",
    "file": "INSERT INTO file (session_id, transfer_id, objects, body) VALUES ($1, $2::bigint::text, '{}', '')",
}
"""How a program of before the tenant stood in these tables writes a row of a session."""


@pytest.mark.parametrize("table", OF_SESSIONS)
async def test_a_row_written_by_an_older_program_gets_its_sessions_tenant(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, table: str,
) -> None:
    connection, insert = await asyncpg.connect(empty_database), OF_SESSIONS[table]
    monkeypatch.setattr(schema, "migrations", lambda: migrations()[:14])
    await schema.migrate(connection, empty_database)
    await connection.execute(SESSION, "S1", "t1")
    await connection.execute(insert, "S1", 1)
    monkeypatch.undo()
    await schema.migrate(connection, empty_database)
    await connection.execute(insert, "S1", 2)
    together = SESSION.replace("$1", "$3").replace("$2", "$4")
    await connection.execute(f"WITH one AS ({insert}), other AS ({together}) SELECT $1", "S2", 1, "S2", "t2")
    found = await connection.fetch(f"SELECT session_id, tenant_id FROM {table} ORDER BY session_id")
    await connection.close()
    assert [tuple(row) for row in found] == [("S1", "t1"), ("S1", "t1"), ("S2", "t2")]


def test_a_migration_keeps_everything_that_an_older_gateway_uses() -> None:
    for number, step in enumerate(migrations()[1:], 2):
        if step.oldest == number:
            continue
        assert not TAKES_AWAY.search(step.sql), f"{step.name}: version {step.oldest} still works on this schema"
        for column in ADDS_COLUMN.findall(step.sql):
            assert "NOT NULL" not in column.upper() or "DEFAULT" in column.upper(), f"{step.name}: {column}"


PUT_OLD_SESSION = """
INSERT INTO session (session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms,
                     usage, machine) VALUES ($1, $2, 'k', 'a', 'r', '/w', 'idle', 1, 1, '', '')
"""
PUT_OLD_COMMAND = """
INSERT INTO command (id, tenant_id, session_id, state, actor_id, type, created_ms, body)
VALUES ($1, $2, 's', 'queued', 'u', 'execute', 1, '')
"""
TENANTS_OF_EVENTS = """
SELECT stream.name, stream.tenant_id, array_agg(event.tenant_id) FROM stream JOIN event ON event.stream_id = stream.id
GROUP BY 1, 2 ORDER BY 1
"""


async def append_as_before(connection: PostgresConnection, *names: str) -> None:
    """Append an event to each stream as a program of the first schema does, which names no tenant."""
    count = len(names)
    await connection.fetch(json.loads(STATEMENTS[1].read_text())["statements.APPEND"], list(names), [1] * count,
                           list(names), [0] * count, ["C"] * count, [5] * count, [""] * count, [b"{}"] * count)


async def test_existing_streams_get_the_tenant_of_their_session_or_command(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    steps = migrations()
    for number, step in enumerate(steps[:17], 1):
        await connection.execute(step.sql)
        await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", number, step.oldest)
    await connection.execute(PUT_OLD_SESSION, "S1", "acme")
    await connection.execute(PUT_OLD_COMMAND, "cmd_1", "other")
    await append_as_before(connection, "c/cmd_1", "s/S1", "t/acme")
    await migrate(connection, empty_database)
    await append_as_before(connection, "c/cmd_1", "s/S1", "t/acme")
    assert [tuple(row) for row in await connection.fetch(TENANTS_OF_EVENTS)] == [
        ("c/cmd_1", "other", ["other"] * 2), ("s/S1", "acme", ["acme"] * 2), ("t/acme", "acme", ["acme"] * 2)]
    await connection.close()


async def test_a_concurrent_older_gateway_appends_to_the_streams_of_each_tenant(postgres: PostgresSettings
                                                                                ) -> None:
    ledger = await open_ledger(postgres, ManualClock())
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(PUT_OLD_SESSION, "S1", "acme")
    await connection.execute(PUT_OLD_COMMAND, "cmd_1", "other")
    names = {"c/cmd_1": "other", "s/S1": "acme", "t/acme": "acme"}
    await append_as_before(connection, *names)
    for name, tenant_id in names.items():
        assert (await ledger.commit(WriteBatch([Append(tenant_id, name, "C", 5, b"{}")]))).numbers == [2]
    await append_as_before(connection, *names)
    assert [tuple(row) for row in await connection.fetch(TENANTS_OF_EVENTS)] == [
        (name, tenant_id, [tenant_id] * 3) for name, tenant_id in names.items()]
    await connection.close()
    await ledger.close()


OLD_BEGIN_LANE = """
INSERT INTO lane (name, epoch) SELECT name, 1 FROM unnest($1::text[]) AS name
ON CONFLICT (name) DO NOTHING RETURNING name
"""
LANES = "SELECT name, tenant_id FROM lane ORDER BY name"


async def test_existing_lanes_get_the_tenant_of_their_session(
    empty_database: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = await asyncpg.connect(empty_database)
    monkeypatch.setattr(schema, "migrations", lambda: migrations()[:18])
    await schema.migrate(connection, empty_database)
    await connection.execute(SESSION, "S1", "t1")
    await connection.execute(OLD_BEGIN_LANE, ["S1", "S2", "duty/retention", "house:t3"])
    monkeypatch.undo()
    await schema.migrate(connection, empty_database)
    found = dict(await connection.fetch(LANES))
    assert found == {"S1": "t1", "S2": "", "duty/retention": "", "house:t3": "t3"}
    await connection.execute(SESSION, "S2", "t2")  # It is begun only now.
    assert dict(await connection.fetch(LANES)) == found | {"S2": "t2"}
    await connection.close()


async def test_a_lane_added_by_a_concurrent_older_gateway_is_found_by_its_tenant(postgres: PostgresSettings) -> None:
    ledger, connection = await open_ledger(postgres, ManualClock()), await asyncpg.connect(postgres.dsn)
    leases = await open_leases(postgres)
    await leases.join(Instance("i_1", ""))
    await connection.execute(SESSION, "S1", "t1")
    await connection.execute(OLD_BEGIN_LANE, ["S1", "S2", "S3", "S4", "S5"])
    assert await ledger.take(LaneName("t1", "S1")) == 2
    assert await ledger.take(LaneName("t1", "S2")) == 2, "it has no session yet"
    assert await leases.take(LaneName("t1", "S3"), "i_1") == Lease(2, "i_1")
    assert not await leases.begin(LaneName("t1", "S4"), "i_1", "r")
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([BeginLane(LaneName("t1", "S5"))]))
    begin = OLD_BEGIN_LANE.replace("$1", "$3")
    await connection.execute(f"WITH one AS ({begin}), other AS ({SESSION}) SELECT 1", "S6", "t2", ["S6"])
    assert await ledger.take(LaneName("t2", "S6")) == 2
    assert dict(await connection.fetch(LANES)) == {
        **dict.fromkeys(("S1", "S2", "S3", "S4"), "t1"), "S5": "", "S6": "t2"}
    await leases.close()
    await ledger.close()
    await connection.close()


async def test_an_older_gateway_begins_a_session_and_its_stream_in_one_statement(postgres: PostgresSettings) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    append = json.loads(STATEMENTS[1].read_text())["statements.APPEND"].strip().removeprefix("WITH ")
    parts, _, _ = append.rpartition("SELECT name, head FROM grown")
    put = PUT_OLD_SESSION.replace("$1", "'S1'").replace("$2", "'acme'")
    await connection.fetch(f"WITH step_0 AS ({put} RETURNING 1), {parts} SELECT (SELECT count(*) FROM step_0), "
                           "(SELECT array_agg(head) FROM grown)", ["s/S1"], [2], ["s/S1"] * 2, [1, 0], ["C"] * 2,
                           [5] * 2, [""] * 2, [b"{}"] * 2)
    assert [tuple(row) for row in await connection.fetch(TENANTS_OF_EVENTS)] == [("s/S1", "acme", ["acme"] * 2)]
    await connection.close()


OLD_ROWS = {
    "control": "INSERT INTO control SELECT 'S' || n % 3, n, '', '' FROM generate_series(1, 30) AS n",
    "file": "INSERT INTO file (session_id, transfer_id, objects, body) "
            "SELECT 'S' || n % 3, n::text, '{}', '' FROM generate_series(1, 30) AS n",
    "idempotency": "INSERT INTO idempotency SELECT n::text, '', 200, '', 0, 'cmd_' || n % 3, '' "
                   "FROM generate_series(1, 30) AS n",
    "stream": "INSERT INTO stream (name, head) SELECT 's/S' || n % 3, 9 FROM generate_series(0, 2) AS n",
    "event": "INSERT INTO event SELECT (SELECT min(id) FROM stream) + n % 3, n, '', 0, '', '' "
             "FROM generate_series(1, 30) AS n",
    "transcript_pending": "INSERT INTO transcript_pending (session_id, entry_id, line) "
                          "SELECT 'S' || n % 3, n::text, '' FROM generate_series(1, 30) AS n",
    "transcript": "INSERT INTO transcript SELECT 'S' || n % 3, n::text, '', 0 FROM generate_series(1, 30) AS n",
    "transcript_line": "INSERT INTO transcript_line SELECT 'S' || n % 3, '', n, null, '' "
                       "FROM generate_series(1, 30) AS n",
    "lane": "INSERT INTO lane (name, epoch) SELECT 'S' || n % 3, 1 FROM generate_series(0, 2) AS n",
}
"""Rows of the sessions S0, S1 and S2, as a program of schema 14 has written them."""
LARGE = ("control", "file", "idempotency", "event", "transcript_line", "transcript_pending", "transcript")


async def of_schema_14(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fill a database of schema 14 with OLD_ROWS; returns a connection to it."""
    connection = await asyncpg.connect(url)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: migrations()[:14])
        await migrate(connection, url)
    for number in range(3):
        await connection.execute(SESSION, f"S{number}", f"t{number}")
        await connection.execute(PUT_OLD_COMMAND, f"cmd_{number}", f"t{number}")
    for sql in OLD_ROWS.values():
        await connection.execute(sql)
    return connection


async def tenants(connection: Any) -> dict[str, dict[str, int]]:
    """Count the rows of each tenant, by table."""
    return {table: dict(await connection.fetch(f"SELECT tenant_id, count(*) FROM {table} GROUP BY 1"))
            for table in OLD_ROWS}


FILLED = {table: {f"t{number}": 10 if table in LARGE else 1 for number in range(3)} for table in OLD_ROWS}


@pytest.mark.parametrize("table", LARGE)
async def test_a_large_tables_column_is_filled_in_batches_beside_an_older_gateway(
        table: str, empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction fills FILL_ROWS rows at the most, and between two of them others write to the table."""
    connection, beside = await of_schema_14(empty_database, monkeypatch), await asyncpg.connect(empty_database)
    monkeypatch.setattr(schema, "FILL_ROWS", 4)
    execute, filled = asyncpg.Connection.execute, list[int]()

    async def committed(self: Any, sql: str, *values: Any, timeout: float | None = None) -> str:
        done = await execute(self, sql, *values, timeout=timeout)
        if self is connection and sql == "COMMIT":
            added = await beside.fetchval("SELECT count(*) FROM information_schema.columns WHERE table_name = $1 "
                                          "AND column_name = 'tenant_id'", table)
            if added:
                filled.append(await beside.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id <> ''"))
                await beside.execute(f"UPDATE stream SET head = head + 1; LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
        return done

    monkeypatch.setattr(asyncpg.Connection, "execute", committed)
    await migrate(connection, empty_database)
    steps = [later - before for before, later in itertools.pairwise(filled)]
    assert max(steps) == 4
    assert filled[-1] == 30
    assert await tenants(connection) == FILLED
    await beside.close()
    await connection.close()


async def test_a_migration_killed_between_two_batches_is_continued(
        empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whichever commit it ends, the next gateway brings it to the same end."""
    connection = await of_schema_14(empty_database, monkeypatch)
    monkeypatch.setattr(schema, "FILL_ROWS", 7)
    execute, commits, deaths = asyncpg.Connection.execute, 0, 0

    async def killed(self: Any, sql: str, *values: Any, timeout: float | None = None) -> str:
        nonlocal commits
        if sql == "COMMIT":
            commits += 1
            if deaths < 5 and commits == 2 + 3 * deaths:
                self.terminate()
                raise asyncpg.ConnectionDoesNotExistError("killed")
        return await execute(self, sql, *values, timeout=timeout)

    monkeypatch.setattr(asyncpg.Connection, "execute", killed)
    while True:
        victim = await asyncpg.connect(empty_database)
        commits = 0
        try:
            await migrate(victim, empty_database)
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            deaths += 1
        else:
            break
    await victim.close()
    assert deaths == 5
    assert await tenants(connection) == FILLED
    assert await connection.fetchval("SELECT max(version) FROM schema_version") == len(migrations())
    await connection.close()


async def test_gateways_started_together_fill_the_same_columns(
        empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await of_schema_14(empty_database, monkeypatch)
    monkeypatch.setattr(schema, "FILL_ROWS", 3)
    gateways = [await asyncpg.connect(empty_database) for _ in range(3)]
    await asyncio.gather(*(migrate(gateway, empty_database) for gateway in gateways))
    assert await tenants(connection) == FILLED
    for one in (*gateways, connection):
        await one.close()
