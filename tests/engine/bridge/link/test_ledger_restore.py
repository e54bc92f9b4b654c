"""A real dump is restored: commands that its runner has ended since then are closed, not run again (D-5, C-5)."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from engine.conversation import USAGE
from gateway.audit.test_ledger_restore import TURN, approved, put_back, running
from gateway.raw_runner import Server
from interlock.app.own_servers import postgres_programs
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite.ledger import open_ledger
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.link.ledger_restore import CODE
from interlock.protocol import payloads as p

RESOLVED = p.InteractionResolved(interaction_id="x", outcome="denied", decided_at="2027-01-15T08:00:00Z")
pytestmark = pytest.mark.anyio


class Store(NamedTuple):
    """A ledger, how it is dumped, and how the dump becomes a ledger again."""

    ledger: Any
    dump: Callable[[], None]
    restored: Callable[[], Awaitable[Any]]


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest) -> tuple[PostgresSettings, str] | None:
    """A database for the ledger and an empty one for its dump; None is SQLite."""
    if request.param == "sqlite":
        return None
    return request.getfixturevalue("postgres"), request.getfixturevalue("empty_database")


@pytest.fixture
async def store(databases: tuple[PostgresSettings, str] | None, tmp_path: Path) -> AsyncIterator[Store]:
    made = await (in_sqlite(tmp_path) if databases is None else in_postgres(tmp_path / "dump", *databases))
    yield made
    await made.ledger.close()


async def in_sqlite(tmp_path: Path) -> Store:
    place, dumped = tmp_path / "ledger.db", tmp_path / "dump.db"

    def dump() -> None:
        database = apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READONLY)
        database.execute("VACUUM INTO ?", (str(dumped),))
        database.close()

    return Store(await open_ledger(place, ManualClock()), dump, lambda: open_ledger(dumped, ManualClock()))


async def in_postgres(dumped: Path, settings: PostgresSettings, empty: str) -> Store:
    def dump() -> None:
        subprocess.run([postgres_programs() / "pg_dump", "--format=custom", f"--file={dumped}", settings.dsn],
                       check=True)

    async def restored() -> Any:
        subprocess.run([postgres_programs() / "pg_restore", "--exit-on-error", f"--dbname={empty}", dumped], check=True)
        return await open_in_postgres(PostgresSettings(empty), ManualClock())

    return Store(await open_in_postgres(settings, ManualClock()), dump, restored)


@pytest.mark.req("C-5", "C-7", "D-5")
async def test_a_session_forgotten_after_the_dump_does_not_run_again(store: Store) -> None:
    server = Server(policy=RuleSet([Rule(name="ask", effect="ask")]))
    server.ledger = store.ledger
    server.begin()
    await server.pair()
    async with server.attached() as runner:
        first = await approved(server)
        session_id = first.target.session_id
        await running(server, runner, session_id)
        waiting = await server.execute("again", target=first.target)
        store.dump()
        runner.send("x-interlock.interaction.resolved", RESOLVED,
                    session_id=session_id, seq=4)
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"), session_id=session_id, seq=5)
        runner.send("session.usage", USAGE, session_id=session_id, seq=6)
        runner.send("session.closed", p.SessionClosed(reason="idle"), session_id=session_id, seq=7)
        await runner.acked(7)
        assert await server.state(first.id) == "succeeded"
    older = await store.restored()
    try:
        await put_back(server, older)
        assert [await server.state(one.id) for one in (first, waiting)] == ["running", "pending_approval"]
        async with server.attached(forgotten=[p.ForgottenSession(session_id=session_id, acked_seq=7, control_seq=2)]):
            records = [await older.command(one.id, "default") for one in (first, waiting)]
            assert [(one.command.state, one.command.error.code) for one in records] == [
                ("failed", CODE), ("canceled", CODE)]
            assert not await older.approvals("default", "pending", None, 10)
    finally:
        await server.engine.stop()
        await older.close()
