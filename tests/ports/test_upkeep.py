"""One suite over every ledger: the guarantees of `interlock.ports.upkeep`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from interlock.backends import sql_upkeep
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports.ledger import Append, Ledger, Put, PutCommand, PutControl, PutFile, PutSession, WriteBatch
from interlock.ports.upkeep import Counts, PrunedRows
from interlock.protocol.clock import iso
from interlock.protocol.records import CommandRecord, ControlRecord, DeliveryRecord, FileRecord, SessionRecord
from interlock.protocol.resources import Actor, Command, Delivery, Target

pytestmark = pytest.mark.anyio
DAY = 24 * 60 * 60 * 1000
NOW = 1_700_000_000_000
BEFORE = NOW - 30 * DAY


@pytest.fixture(params=["memory", "sqlite", "postgres", "postgres_by_tenant"])
def place(request: pytest.FixtureRequest) -> str | PostgresSettings:
    return request.getfixturevalue(request.param) if request.param.startswith("postgres") else request.param


@pytest.fixture
async def ledger(place: str | PostgresSettings, tmp_path: Path) -> AsyncIterator[Ledger]:
    opened: Ledger
    if isinstance(place, PostgresSettings):
        opened = await open_in_postgres(place, ManualClock(NOW))
    else:
        opened = MemoryLedger() if place == "memory" else await open_ledger(tmp_path / "ledger.db", ManualClock(NOW))
    yield opened
    await opened.close()


def command(number: str, session_id: str, ended_ms: int | None) -> PutCommand:
    return PutCommand(CommandRecord(session_id=session_id, created_ms=NOW, command=Command(
        id=f"cmd_{number}", created_at=iso(NOW), updated_at=iso(ended_ms or NOW), tenant_id="t",
        actor=Actor(type="user", id="u"), type="execute", target=Target(agent_id="a"), timeout_ms=1,
        state="running" if ended_ms is None else "succeeded", payload=msgspec.Raw(b"{}"), payload_sha256="",
        idempotency_key="k" * 16, ended_at=iso(ended_ms) if ended_ms is not None else None)))


async def session(ledger: Ledger, name: str, ended_ms: int | None = BEFORE - 1, updated_ms: int = NOW) -> None:
    """A session whose one command ended then (None: it still runs), with three frames, a file and two controls."""
    machine = msgspec.json.encode({"control_acked": 1, "incoming": {"x": {"objects": [f"way-{name}"]}}})
    file = FileRecord(session_id=name, transfer_id="f", name="f", media_type="text/plain", size=1, sha256="",
                      purpose="output", created_ms=1, objects=[f"of-{name}"])
    await ledger.commit(WriteBatch([
        PutSession(SessionRecord(session_id=name, tenant_id="t", session_key="k", agent_id="a", runner_id="r",
                                 workspace="", state="idle", created_ms=1, updated_ms=updated_ms, deadline_ms=None,
                                 machine=machine, usage={})),
        command(name, name, ended_ms), PutFile(file, "t"),
        *(PutControl(ControlRecord(session_id=name, seq=seq, message_id=str(seq), body=b"{}"), "t") for seq in (1, 2)),
        *(Append("t", f"s/{name}", "C", 1, b"{}") for _ in range(3)),
        *(Append("t", f"c/cmd_{name}", "status", 1, b"{}") for _ in range(2)),
    ]))


@pytest.mark.req("G-5")
async def test_an_old_sessions_events_are_deleted_and_its_rows_and_numbers_kept(ledger: Ledger) -> None:
    for name in ("old", "young"):
        await session(ledger, name, BEFORE - 1 if name == "old" else BEFORE)
    assert await ledger.old_sessions("t", BEFORE, "", 10) == ["old"]
    assert await ledger.old_sessions("other", BEFORE, "", 10) == []
    assert await ledger.old_sessions("t", BEFORE, "old", 10) == []
    expected = PrunedRows(events=5, files=1, controls=1)
    assert await ledger.would_forget("other", "old") == PrunedRows()
    assert await ledger.forget_session("other", "old", BEFORE) == PrunedRows()
    assert await ledger.would_forget("t", "old") == expected
    assert await ledger.forget_session("t", "old", BEFORE) == expected
    assert await ledger.forget_session("t", "old", BEFORE) == PrunedRows()
    assert await ledger.old_sessions("t", BEFORE, "", 10) == []
    assert (await ledger.events("t", "s/old", 0, 9), await ledger.events("t", "c/cmd_old", 0, 9)) == ([], [])
    assert await ledger.file("old", "t", "f") is None
    assert [one.seq for one in await ledger.controls("old", "t", 0)] == [2]  # The runner has not confirmed it.
    assert await ledger.session("old") is not None
    assert await ledger.command("cmd_old", "t") is not None
    assert await ledger.head("t", "s/old") == 3
    assert (await ledger.commit(WriteBatch([Append("t", "s/old", "C", 1, b"{}")]))).numbers == [4]
    assert [event.n for event in await ledger.events("t", "s/old", 0, 9)] == [4]
    assert len(await ledger.events("t", "s/young", 0, 9)) == 3


@pytest.mark.req("G-5")
async def test_a_running_or_resumed_session_is_kept(ledger: Ledger) -> None:
    await session(ledger, "running", None)
    await session(ledger, "again")
    found = await ledger.old_sessions("t", BEFORE, "", 10)
    assert found == ["again"]
    await ledger.commit(WriteBatch([command("later", "again", None)]))  # Asked for after the session was found old.
    assert await ledger.forget_session("t", "again", BEFORE) == PrunedRows()
    assert len(await ledger.events("t", "s/again", 0, 9)) == 3


@pytest.mark.req("G-5")
async def test_a_session_without_commands_has_the_age_of_its_last_change(ledger: Ledger) -> None:
    for name, updated_ms in (("seen", BEFORE - 1), ("seeing", BEFORE)):
        await ledger.commit(WriteBatch([
            PutSession(SessionRecord(session_id=name, tenant_id="t", session_key="k", agent_id="a", runner_id="r",
                                     workspace="", state="idle", created_ms=1, updated_ms=updated_ms,
                                     deadline_ms=None, machine=b"{}", usage={})),
            Append("t", f"s/{name}", "C", 1, b"{}")]))
    assert await ledger.old_sessions("t", BEFORE, "", 10) == ["seen"]


@pytest.mark.req("G-5")
async def test_only_the_beginning_of_a_feed_is_deleted(ledger: Ledger) -> None:
    for at_ms in (BEFORE - 2, BEFORE - 1, BEFORE, BEFORE - 1):  # A clock that went back leaves no hole.
        await ledger.commit(WriteBatch([Append("t", "t/t", "feed", at_ms, b"{}"),
                                        Append("other", "t/other", "feed", at_ms, b"{}")]))
    assert await ledger.forget_feed("t", BEFORE, dry=True) == 2
    assert await ledger.forget_feed("t", BEFORE) == 2
    assert await ledger.forget_feed("t", BEFORE) == 0
    assert [event.n for event in await ledger.events("t", "t/t", 0, 9)] == [3, 4]
    assert len(await ledger.events("other", "t/other", 0, 9)) == 4
    assert await ledger.forget_feed("t", NOW) == 2
    assert await ledger.head("t", "t/t") == 4


@pytest.mark.req("G-5", "P-8")
async def test_ended_deliveries_are_deleted(ledger: Ledger) -> None:
    for number, (state, made) in enumerate((("delivered", BEFORE - 1), ("pending", BEFORE - 1), ("dead", BEFORE))):
        delivery = Delivery(id=f"dlv_{number}", tenant_id="t", channel="h", approval_id="a", state=state,  # type: ignore[arg-type]
                            created_at=iso(made))
        await ledger.commit(WriteBatch([Put(DeliveryRecord(delivery=delivery,
                                                           due_ms=NOW if state == "pending" else None))]))
    assert await ledger.forget_deliveries("t", BEFORE, dry=True) == 1
    assert await ledger.forget_deliveries("t", BEFORE) == 1
    assert [one.delivery.state for one in await ledger.deliveries("t", None, 9)] == ["dead", "pending"]
    assert await ledger.counts() == Counts({}, {}, {"pending": 1, "dead": 1}, 0)


@pytest.mark.req("G-5", "E-5")
async def test_objects_are_referenced_by_kept_files_and_by_files_in_transfer(ledger: Ledger) -> None:
    await session(ledger, "old")
    assert await ledger.named_objects() == {"of-old", "way-old"}
    await ledger.forget_session("t", "old", BEFORE)
    assert await ledger.named_objects() == {"way-old"}
    assert (await ledger.counts()).sessions == 1


@pytest.mark.req("G-5")
async def test_a_long_session_is_deleted_in_small_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_upkeep, "STEP_ROWS", 2)
    ledger = await open_ledger(tmp_path / "ledger.db", ManualClock(NOW))
    groups: list[int] = []
    await session(ledger, "old")
    ledger.measure(lambda batches, _seconds: groups.append(batches))
    assert await ledger.forget_session("t", "old", BEFORE) == PrunedRows(events=5, files=1, controls=1)
    assert len(groups) >= 4
    await ledger.close()


@pytest.mark.req("N-1")
async def test_the_current_sessions_of_an_agent_are_listed_by_key_and_in_pages(ledger: Ledger) -> None:
    def row(name: str, key: str, created_ms: int = 1, tenant_id: str = "t") -> PutSession:
        return PutSession(SessionRecord(session_id=name, tenant_id=tenant_id, session_key=key, agent_id="shell",
                                        runner_id="r", workspace="", state="idle", created_ms=created_ms, updated_ms=1,
                                        deadline_ms=None, machine=b"{}", usage={}))

    await ledger.commit(WriteBatch([
        row("1", "agent:shell:main"), row("2", "agent:shell:main", 2), row("3", "agent:shell:main", 2),
        row("4", "agent:shell:dm:ann"), row("5", "agent:shell-2:main"), row("6", "agent:she:main"),
        row("7", "agent:shell:zoe"), row("8", "agent:shell:main", 9, "other"),
    ]))
    assert [one.session_id for one in await ledger.current_sessions("t", "shell", "", 10)] == ["4", "3", "7"]
    first = await ledger.current_sessions("t", "shell", "", 2)
    assert [one.session_key for one in first] == ["agent:shell:dm:ann", "agent:shell:main"]
    assert [one.session_id for one in await ledger.current_sessions("t", "shell", "agent:shell:main", 2)] == ["7"]
    assert await ledger.current_sessions("t", "none", "", 2) == []


@pytest.mark.req("G-5")
@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_one_step_deletes_no_more_events_than_its_limit(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a session are in several streams, which share the limit."""
    monkeypatch.setattr(sql_upkeep, "STEP_ROWS", 3)
    assert isinstance(ledger, sql_upkeep.SqlUpkeep)
    await session(ledger, "old")
    steps = [await ledger._forget_step("t", "old", BEFORE) for _ in range(3)]
    assert [one.events for one in steps] == [3, 2, 0]


@pytest.mark.req("G-5")
@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_a_long_feed_is_deleted_completely_in_steps(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_upkeep, "STEP_ROWS", 2)
    assert isinstance(ledger, sql_upkeep.SqlUpkeep)
    await ledger.commit(WriteBatch([Append("t", "t/t", "feed", BEFORE - 1, b"{}")] * 5))
    delete, steps = ledger._delete, list[int]()

    async def counted(statement: str, *values: str | int) -> int:
        steps.append(await delete(statement, *values))
        return steps[-1]

    monkeypatch.setattr(ledger, "_delete", counted)
    assert await ledger.forget_feed("t", BEFORE) == 5
    assert steps == [2, 2, 1]
