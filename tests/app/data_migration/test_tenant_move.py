"""One tenant that moves into a cluster that has others: its rows, its order and its audit chain are as before (U-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from interlock.app.data_migration import tenant_move
from interlock.app.data_migration.into_postgres import move_into_postgres
from interlock.app.data_migration.report import MoveRefused, TenantReport
from interlock.app.data_migration.tenant_move import Destination, move_tenant
from interlock.app.data_migration.tenant_source import open_source
from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.postgres.transcripts import PostgresTranscripts
from interlock.backends.sqlite.ledger import open_ledger
from interlock.backends.sqlite.lock import AlreadyRunning, lock_state
from interlock.command.audit.register import BoundRecord, bound, row_of
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.rows import RowAudit
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME, verify_ledger_file
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.leases import Instance
from interlock.ports.ledger import (
    Add,
    Append,
    AuditAppend,
    LaneName,
    Ledger,
    LedgerWrite,
    Put,
    PutCommand,
    PutControl,
    PutFact,
    PutFile,
    PutIdempotency,
    PutSession,
    WriteBatch,
)
from interlock.ports.transcripts import TranscriptHeader
from interlock.ports.usage import UsageQuery
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.clock import iso
from interlock.protocol.records import (
    AuditDraft,
    CommandRecord,
    ControlRecord,
    FileRecord,
    IdempotencyRecord,
    KeyRecord,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    TranscriptLine,
    UsageRecord,
)
from interlock.protocol.resources import Actor, Command, RememberedRule, SigningKey, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("U-2"), pytest.mark.long]
DAY = "2026-01-01T00:00:00.000Z"
PLACE = "https://b.example"
USER = Actor(type="user", id="u")


class Killed(BaseException):
    """As a kill would: nothing catches it."""


CLOCK = ManualClock()


def draft(tenant_id: str, **fields: Any) -> AuditAppend:
    return AuditAppend(AuditDraft(tenant_id=tenant_id, at=DAY, who={"id": "u", "role": "owner"},
                                  **{"action": "policy_change", **fields}))


def recorded(write: LedgerWrite, record: BoundRecord, log: str) -> list[LedgerWrite]:
    """A row with the audit record that binds it."""
    return [write, draft(log, meta=bound(record))]


def tenant(tenant_id: str, *, suspended: bool = False) -> list[LedgerWrite]:
    record = TenantRecord(tenant_id=tenant_id, name=tenant_id.upper(), created_ms=1, suspended=suspended)
    return recorded(Put(record), record, OWNER_TENANT)


def rows_of(tenant_id: str) -> list[LedgerWrite]:
    """A row of every kind that a tenant has."""
    session_id = f"S-{tenant_id}"
    machine = LaneState(session_id=session_id, tenant_id=tenant_id, session_key="agent:shell:main", agent_id="shell",
                        runner_id=f"r-{tenant_id}", workspace="/w\0", permission="asks", created_ms=1,
                        control_seq=1, input_tokens=1)
    command = Command(id=f"cmd-{tenant_id}", created_at=iso(1), updated_at=iso(2), tenant_id=tenant_id, actor=USER,
                      type="execute", target=Target(agent_id="shell", session_id=session_id), state="succeeded",
                      timeout_ms=5, payload=msgspec.Raw(b"{}"), ended_at=iso(5))
    key = KeyRecord(key_sha256=f"h-{tenant_id}", key_id=f"key_{tenant_id}", tenant_id=tenant_id, role="owner",
                    principal=USER, created_ms=1)
    runner = RunnerRecord(runner_id=f"r-{tenant_id}", tenant_id=tenant_id, device_name="h", created_ms=1,
                          token_sha256=f"t-{tenant_id}", last_seen_ms=2)
    rule = RuleRecord(rule=RememberedRule(id=f"rule-{tenant_id}", tenant_id=tenant_id, approval_id="a", rule={},
                                          created_at=DAY, created_by="u"))
    signing = SigningKeyRecord(key=SigningKey(key_id=f"sk-{tenant_id}", tenant_id=tenant_id, owner=USER,
                                              public_key="x", created_at=DAY))
    return [
        PutSession(SessionRecord(
            session_id=session_id, tenant_id=tenant_id, session_key="agent:shell:main", agent_id="shell",
            runner_id=f"r-{tenant_id}", workspace="/w\0", state="idle", created_ms=1, updated_ms=2, deadline_ms=3,
            machine=msgspec.json.encode(machine), usage={"input_tokens": 1})),
        PutCommand(CommandRecord(command=command, session_id=session_id, created_ms=1)),
        PutControl(ControlRecord(session_id=session_id, seq=1, message_id="m", body=b'{"type":"session.usage"}'),
                   tenant_id),
        PutFile(FileRecord(session_id=session_id, transfer_id="f", name="f", media_type="x", size=1, sha256="",
                           purpose="in", created_ms=1, objects=["ab" * 32]), tenant_id),
        PutIdempotency(IdempotencyRecord(tenant_id=tenant_id, scope=f"scope-{tenant_id}", fingerprint="f", status=202,
                                         headers={}, body=b"", created_ms=1, command_id=command.id)),
        PutFact(f"cron/{tenant_id}/daily", "{}"),
        Add(SpendingRecord(tenant_id=tenant_id, budget="b", scope="", day=3, spent_micros=5)),
        Add(UsageRecord(tenant_id=tenant_id, day=3, agent_id="shell", person="user:ann", turns=1)),
        *(Append(tenant_id, f"s/{session_id}", "C", 5, b"%d" % number, f"m{number}") for number in range(5)),
        Append(tenant_id, f"c/{command.id}", "state", 5, b"{}"), Append(tenant_id, f"t/{tenant_id}", "feed", 5, b"{}"),
        *recorded(Put(key), key, tenant_id), *recorded(Put(runner), runner, tenant_id),
        *recorded(Put(rule), rule, tenant_id), *recorded(Put(signing), signing, tenant_id),
        *(draft(tenant_id, action="enqueue", personal={"reason": f"because {number}"}) for number in range(300)),
    ]


def signer(state: Path, ledger: Ledger, gateway_id: str) -> CheckpointSigner:
    return CheckpointSigner(ledger, load_or_make_key(state), gateway_id, CheckpointFiles(state / CHECKPOINTS_NAME))


async def filled(ledger: Ledger, state: Path, *tenants: str, suspended: str = "") -> None:
    """A ledger on which a gateway has worked, with signed logs."""
    state.mkdir(exist_ok=True)
    await RowAudit(ledger, CLOCK).adopt()
    for name in tenants:
        await ledger.commit(WriteBatch([*tenant(name, suspended=name == suspended), *rows_of(name)]))
    await signer(state, ledger, await ledger.gateway_id()).sign()


class Clusters(NamedTuple):
    """The source's state directory and database, or "", and the destination's."""

    source: Path
    store: str | None
    there: Path
    dsn: str

    async def move(self, tenant_id: str = "acme", place: str = PLACE, *, dry_run: bool = False) -> TenantReport:
        source = await open_source(self.source, self.store, CLOCK)
        try:
            return await move_tenant(source, self.source, tenant_id,
                                     Destination(self.dsn, place, load_or_make_key(self.there)), CLOCK,
                                     dry_run=dry_run)
        finally:
            await source.close()

    @asynccontextmanager
    async def ledger(self) -> AsyncIterator[Ledger]:
        """The source's."""
        opened: Any = (await open_ledger(self.source / "ledger.db", CLOCK) if self.store is None
                       else await open_in_postgres(read_settings(self.store), CLOCK, keeps_transcripts=True))
        yield opened
        await opened.close()

    @asynccontextmanager
    async def ledger_there(self) -> AsyncIterator[Any]:
        opened = await open_in_postgres(read_settings(self.dsn), CLOCK, keeps_transcripts=True)
        yield opened
        await opened.close()

    async def tenant(self) -> TenantRecord | None:
        async with self.ledger() as ledger:
            return await ledger.tenant("acme")

    async def tenant_there(self) -> TenantRecord | None:
        async with self.ledger_there() as ledger:
            return await ledger.tenant("acme")

    async def check(self) -> None:
        """Both audit logs verify with all their rows, and gateways continue to sign them."""
        async with self.ledger() as ledger, self.ledger_there() as there:
            for state, one in ((self.source, ledger), (self.there, there)):
                made = signer(state, one, await one.gateway_id())
                await made.sign()
                assert not made.signing.reason("acme")
        for state, store in ((self.source, self.store), (self.there, self.dsn)):
            report = await asyncio.to_thread(verify_ledger_file, state, store)
            assert report.ok, (report.message, report.rows)


@pytest.fixture(params=["a file", "a database"])
async def clusters(request: pytest.FixtureRequest, tmp_path: Path, empty_database: str,
                   second_database: str) -> Clusters:
    source, there = tmp_path / "source", tmp_path / "there"
    source.mkdir()
    ledger = await open_ledger(source / "ledger.db", CLOCK)
    await filled(ledger, source, "acme", "stays", suspended="acme")
    await ledger.take(LaneName("acme", "S-acme"))
    await ledger.close()
    transcripts = JsonlTranscripts(source, CLOCK)
    for name in ("acme", "stays"):
        await transcripts.append(TranscriptHeader(f"S-{name}", "shell", "/w", DAY, name), [
            TranscriptLine(tenant_id=name, session_id=f"S-{name}", entry_id="a",
                           line=b'{"type":"custom","id":"a","parentId":null}')])
    await transcripts.close()
    store = None
    if request.param == "a database":
        store = second_database
        await move_into_postgres(source, store, CLOCK)
    ledger_there = await open_in_postgres(read_settings(empty_database), CLOCK, keeps_transcripts=True)
    await filled(ledger_there, there, "other")
    await ledger_there.close()
    return Clusters(source, store, there, empty_database)


async def seen(ledger: Any) -> dict[str, Any]:
    """What anyone can read of the tenant."""
    sessions = await ledger.sessions("acme", 10)
    return {
        "sessions": sessions, "command": await ledger.command("cmd-acme", "acme"),
        "controls": await ledger.controls("S-acme", "acme", 0),
        "files": await ledger.file("S-acme", "acme", "f"),
        "kept": await ledger.idempotency("scope-acme", "acme"), "cron": await ledger.fact("cron/acme/daily"),
        "streams": [await ledger.events("acme", name, 0, 99) for name in ("s/S-acme", "c/cmd-acme", "t/acme")],
        "keys": await ledger.keys("acme"), "runners": await ledger.runners("acme"),
        "rules": list(await ledger.rules("acme")), "signing": await ledger.signing_keys("acme"),
        "usage": await ledger.usage(UsageQuery("acme", 0, 9, frozenset({"day", "person"}))),
        "spending": [one for one in await ledger.spending(3) if one.tenant_id == "acme"],
        "audit": await ledger.audit("acme", 0, 1_000), "tree": await ledger.audit_tree("acme"),
        "personal": await ledger.audit_personal("acme", None, 1_000),
    }


@pytest.mark.req("U-3", "H-5", "K-1", "X-3")
async def test_a_tenant_is_the_same_at_its_destination_and_the_source_names_it(clusters: Clusters) -> None:
    async with clusters.ledger() as ledger:
        before = await seen(ledger)
    planned = await clusters.move(dry_run=True)
    assert await clusters.tenant_there() is None
    report = await clusters.move()
    assert report == msgspec.structs.replace(planned, dry_run=False)
    assert (report.rows["event"], report.rows["stream"], report.objects, report.audit_records) == (7, 3, 1, 304)

    async with clusters.ledger_there() as there:
        assert await seen(there) == before
        lines = PostgresTranscripts(there, CLOCK)
        assert await lines.ids("S-acme", "shell", "acme") == {"a"}
        assert await lines.ids("S-stays", "shell", "stays") == set()
        assert await there.session("S-stays") is None
        # New numbers follow the moved ones.
        receipt = await there.commit(WriteBatch([Append("acme", "s/S-acme", "C", 5, b"5", "m5"), draft("acme")]))
        assert (receipt.numbers, receipt.audit_seqs) == ([6], [305])
    moved, opened = await clusters.tenant(), await clusters.tenant_there()
    assert moved is not None
    assert moved.moved == f"The tenant acme was moved to {PLACE}."
    assert opened == TenantRecord(tenant_id="acme", name="ACME", created_ms=1)
    await clusters.check()


@pytest.mark.req("G-1")
@pytest.mark.parametrize(("moment", "step"), [
    ("before", "mark_source"), ("before", "commit_copy"), ("before", "open_at_destination"),
    ("after", "open_at_destination")])
async def test_a_move_killed_at_any_commit_is_completed_by_the_next_call(
    clusters: Clusters, step: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    do: Callable[..., Any] = getattr(tenant_move, step)

    async def killed(*args: Any) -> None:
        if moment == "after":
            await do(*args)
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(tenant_move, step, killed)
        with pytest.raises(Killed):
            await clusters.move()
    source, there = await clusters.tenant(), await clusters.tenant_there()
    assert source is not None
    assert source.suspended or there is None or there.suspended, "both accept the tenant"
    if there is not None:
        assert source.moved
    report = await clusters.move()
    assert await clusters.move() == report, "once it is done, a further call changes nothing"
    opened = await clusters.tenant_there()
    assert opened is not None
    assert not opened.suspended
    await clusters.check()


async def test_an_impossible_move_is_refused_with_one_sentence(clusters: Clusters) -> None:
    for name, sentence in (("stays", "is not suspended"), ("nobody", "There is no tenant nobody")):
        with pytest.raises(MoveRefused, match=sentence):
            await clusters.move(name)
    async with clusters.ledger() as ledger:
        owner = TenantRecord(tenant_id=OWNER_TENANT, name="", created_ms=1)
        await ledger.commit(WriteBatch(recorded(Put(owner), owner, OWNER_TENANT)))
    with pytest.raises(MoveRefused, match="the owner's own"):
        await clusters.move(OWNER_TENANT)
    async with clusters.ledger_there() as there:
        await there.commit(WriteBatch(tenant("acme")))
    with pytest.raises(MoveRefused, match=r"has a tenant acme already, .* Name another cluster with --to"):
        await clusters.move()
    source = await clusters.tenant()
    assert source is not None
    assert not source.moved


async def test_a_row_with_a_name_taken_at_the_destination_stops_the_move(clusters: Clusters) -> None:
    async with clusters.ledger_there() as there:
        key = KeyRecord(key_sha256="h-acme", key_id="key_x", tenant_id="other", role="owner", principal=USER,
                        created_ms=1)
        await there.commit(WriteBatch(recorded(Put(key), key, "other")))
    with pytest.raises(MoveRefused, match="api_key_secret"):
        await clusters.move()
    assert await clusters.tenant_there() is None
    source = await clusters.tenant()
    assert source is not None
    assert not source.moved


async def test_a_tenant_with_running_work_is_not_moved(clusters: Clusters) -> None:
    async with clusters.ledger() as ledger:
        found = await ledger.command("cmd-acme", "acme")
        assert found is not None
        running = msgspec.structs.replace(found.command, id="cmd-runs", state="queued", ended_at=None)
        await ledger.commit(WriteBatch([PutCommand(msgspec.structs.replace(found, command=running))]))
    with pytest.raises(MoveRefused, match="1 commands, 0 approvals and 0 deliveries have not ended"):
        await clusters.move()


async def test_a_running_source_is_not_moved_from(clusters: Clusters) -> None:
    if clusters.store is None:
        lock = lock_state(clusters.source)
        with pytest.raises(AlreadyRunning):
            await clusters.move()
        lock.release()
        return
    leases = await open_leases(read_settings(clusters.store))
    await leases.join(Instance("i_1", "here"))
    with pytest.raises(MoveRefused, match="Gateways work on the ledger"):
        await clusters.move()
    await leases.close()


@pytest.mark.req("U-3")
async def test_a_modified_log_is_not_moved(clusters: Clusters) -> None:
    checkpoints = clusters.source / CHECKPOINTS_NAME / "acme.checkpoints"
    checkpoints.write_bytes(checkpoints.read_bytes().replace(b"304", b"303"))
    with pytest.raises(MoveRefused, match="does not verify"):
        await clusters.move()


@pytest.mark.req("H-5")
async def test_rows_that_only_the_owners_log_binds_are_bound_at_the_destination(clusters: Clusters) -> None:
    key = KeyRecord(key_sha256="h-old", key_id="key_old", tenant_id="acme", role="viewer", principal=USER,
                    created_ms=1)
    row = row_of(key)
    async with clusters.ledger() as ledger:
        await ledger.commit(WriteBatch([Put(key), draft(OWNER_TENANT, action="adopted", meta={
            "row": "adopted", "row_sha256": "", "rows": {row.name: row.sha256}, "denials": []})]))
    await clusters.move()
    await clusters.check()
