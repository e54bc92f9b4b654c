"""A tenant that moves between two databases at work: complete, in one place at a time, whenever it is killed (K-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from app.data_migration.test_tenant_move import CLOCK, USER, Clusters, Killed, filled, recorded, seen
from interlock.app.data_migration import tenant_handover
from interlock.app.data_migration.report import MoveRefused, TenantReport
from interlock.app.data_migration.tenant_handover import HandoverOrder, hand_over
from interlock.app.data_migration.tenant_move import Destination
from interlock.app.data_migration.tenant_passes import TenantCopy
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.gateway.audit.audit_state import verify_ledger_file
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.entities import RUNNERS
from interlock.ports.leases import Instance
from interlock.ports.ledger import Append, DropControls, LedgerError, Note, Put, PutControl, PutTranscript, WriteBatch
from interlock.protocol.records import ControlRecord, KeyRecord, RunnerRecord, TenantRecord, TranscriptLine

pytestmark = [pytest.mark.anyio, pytest.mark.req("K-1", "U-2"), pytest.mark.long]
A, B = "https://a.example", "https://b.example"


class Pair(NamedTuple):
    """Two clusters; acme works at the first."""

    clusters: Clusters

    async def move(self, *, back: bool = False, dry_run: bool = False) -> TenantReport:
        one = self.clusters
        assert one.store is not None
        source, target = (one.store, one.dsn) if not back else (one.dsn, one.store)
        state, there = (one.source, one.there) if not back else (one.there, one.source)
        return await hand_over(HandoverOrder(source, state, "acme", Destination(
            target, A if back else B, load_or_make_key(there))), CLOCK, dry_run=dry_run)

    async def tenants(self) -> list[TenantRecord | None]:
        return [await self.clusters.tenant(), await self.clusters.tenant_there()]

    async def open_at(self) -> list[bool]:
        return [one is not None and one.moving is None and one.moved_to is None for one in await self.tenants()]

    async def verify(self) -> None:
        """Both audit logs verify with all their rows, as a move leaves them."""
        one = self.clusters
        for state, store in ((one.source, one.store), (one.there, one.dsn)):
            report = await asyncio.to_thread(verify_ledger_file, state, store)
            assert report.ok, (report.message, report.rows)


@pytest.fixture
async def pair(tmp_path: Path, empty_database: str, second_database: str) -> Pair:
    made = Clusters(tmp_path / "source", second_database, tmp_path / "there", empty_database)
    for dsn, state, names in ((second_database, made.source, ("acme", "stays")), (empty_database, made.there,
                                                                                  ("other",))):
        ledger = await open_ledger(read_settings(dsn), CLOCK, keeps_transcripts=True)
        await filled(ledger, state, *names)
        await ledger.close()
    return Pair(made)


async def test_a_tenant_is_the_same_there_and_returns_with_its_new_work(pair: Pair) -> None:
    async with pair.clusters.ledger() as ledger:
        before = await seen(ledger)
        ours = await ledger.gateway_id()
    planned = await pair.move(dry_run=True)
    assert await pair.open_at() == [True, False]
    report = await pair.move()
    assert report.rows == planned.rows | {"lane": 2}
    assert report.audit_root == planned.audit_root
    assert await pair.open_at() == [False, True]
    source, there = await pair.tenants()
    assert source is not None
    assert source.moved == f"The tenant acme was moved to {B}."
    assert there is not None
    assert there.known_as == ours, "its runners know the gateway by the id that they were paired with"
    async with pair.clusters.ledger_there() as ledger:
        assert await seen(ledger) == before
        await ledger.commit(WriteBatch([Append("acme", "s/S-acme", "C", 5, b"5", "m5"),
                                        DropControls("acme", "S-acme", 1)]))
        after = await seen(ledger)
    await pair.clusters.check()
    await pair.move(back=True)
    assert await pair.open_at() == [True, False]
    async with pair.clusters.ledger() as ledger:
        assert await seen(ledger) == after
        source = await ledger.tenant("acme")
        assert source is not None
        assert source.known_as is None, "it is at home"
        await ledger.commit(WriteBatch([Append("acme", "s/S-acme", "C", 5, b"6", "m6")]))
    await pair.clusters.check()
    await pair.move()
    assert await pair.open_at() == [False, True]
    await pair.clusters.check()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["commit_copy", "depart", "open_there"])
async def test_a_killed_move_leaves_the_tenant_in_one_place_and_is_completed_by_the_next(
    pair: Pair, step: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    do: Callable[..., Any] = getattr(tenant_handover, step)

    async def killed(*args: Any) -> None:
        if moment == "after":
            await do(*args)
        raise Killed

    async def nothing_more(*_: Any, **__: Any) -> Any:
        raise LedgerError("Whoever is killed cleans nothing up.")

    with monkeypatch.context() as broken:
        broken.setattr(tenant_handover, step, killed)
        broken.setattr(tenant_handover.tenant_moves, "thaw", nothing_more)
        with pytest.raises((Killed, LedgerError)):
            await pair.move()
    assert sum(await pair.open_at()) <= 1
    await pair.verify()
    report = await pair.move()
    assert await pair.move() == report or report.closed_ms, "once it is done, a further call changes nothing"
    assert await pair.open_at() == [False, True]
    await pair.clusters.check()


async def test_a_failed_move_leaves_the_tenant_open_at_its_source(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise LedgerError("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr(tenant_handover, "commit_copy", fails)
        with pytest.raises(LedgerError, match="disk is full"):
            await pair.move()
    assert await pair.open_at() == [True, False]
    await pair.clusters.check()
    await pair.move()
    assert await pair.open_at() == [False, True]


async def test_a_gateway_that_does_not_follow_aborts_the_move(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_handover, "ACKNOWLEDGE_S", 0.2)
    assert pair.clusters.store is not None
    leases = await open_leases(read_settings(pair.clusters.store))
    await leases.join(Instance("i_old", "host:1"), life_ms=600_000)  # It renews itself as any other does.
    with pytest.raises(MoveRefused, match=r"i_old \(host:1\) did not follow .* It is open at the source as before"):
        await pair.move()
    assert await pair.open_at() == [True, False]
    assert await leases.moves() == []
    await leases.close()


async def test_an_unknown_tenant_is_refused(pair: Pair) -> None:
    async with pair.clusters.ledger_there() as there:
        key = KeyRecord(key_sha256="h-acme", key_id="key_x", tenant_id="other", role="owner", principal=USER,
                        created_ms=1)
        await there.commit(WriteBatch(recorded(Put(key), key, "other")))
    with pytest.raises(MoveRefused, match="api_key_secret"):
        await pair.move()
    assert await pair.open_at() == [True, False]


@asynccontextmanager
async def copying(pair: Pair) -> AsyncIterator[TenantCopy]:
    source, target = await asyncpg.connect(pair.clusters.store), await asyncpg.connect(pair.clusters.dsn)
    await target.execute("BEGIN")
    try:
        yield TenantCopy(source, target, "acme")
    finally:
        await target.close()
        await source.close()


async def test_a_later_pass_copies_changed_rows_and_removes_deleted_ones(pair: Pair) -> None:
    async with copying(pair) as copy, pair.clusters.ledger() as ledger:
        whole = await copy.run()
        assert await copy.run() < whole / 10
        await ledger.commit(WriteBatch([
            DropControls("acme", "S-acme", 1),
            PutControl(ControlRecord(session_id="S-acme", seq=2, message_id="n", body=b"{}"), "acme"),
            Append("acme", "s/S-acme", "C", 5, b"5", "m5"), Append("acme", "c/cmd-new", "status", 5, b"{}"),
            Note(RUNNERS, "acme", "r-acme", 99),
            PutTranscript(TranscriptLine(tenant_id="acme", session_id="S-acme", entry_id="b",
                                         line=b'{"type":"custom","id":"b","parentId":null}'))]))
        changed = await copy.run(last=True)
        assert 0 < changed < 12
        assert await copy.run(last=True) < changed


async def test_a_name_that_another_tenant_took_is_not_overwritten(pair: Pair) -> None:
    async with pair.clusters.ledger_there() as there:
        await there.commit(WriteBatch([Put(RunnerRecord(
            runner_id="builder", tenant_id="other", device_name="h", created_ms=1, token_sha256="t-builder",
            last_seen_ms=2))]))
    async with copying(pair) as copy, pair.clusters.ledger() as ledger:
        await copy.run()
        await ledger.commit(WriteBatch([Put(RunnerRecord(
            runner_id="builder", tenant_id="acme", device_name="h", created_ms=1, token_sha256="t-ours",
            last_seen_ms=2))]))
        with pytest.raises(MoveRefused, match=r"a row of runner under the same name .* Name another cluster with --to"):
            await copy.run()
