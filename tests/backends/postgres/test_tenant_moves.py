"""A tenant that is frozen for its move: the database itself refuses every change of it (K-1, C-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import asyncpg
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import tenant_moves
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.ports.leases import Instance, MoveStep, TenantMove
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    BeginLane,
    Fenced,
    LaneName,
    Put,
    PutSession,
    TenantMoving,
    WriteBatch,
)
from interlock.protocol.records import AuditDraft, SessionRecord, TenantRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("K-1", "C-4")]
LIFE_MS = 60_000


def record(tenant_id: str) -> AuditAppend:
    return AuditAppend(AuditDraft(tenant_id=tenant_id, at="2026-01-01T00:00:00.000Z", who={"id": "u", "role": "owner"},
                                  action="policy_change"))


def session(tenant_id: str) -> PutSession:
    return PutSession(SessionRecord(
        session_id=f"S-{tenant_id}", tenant_id=tenant_id, session_key="agent:shell:main", agent_id="shell",
        runner_id="r", workspace="/w", state="idle", created_ms=1, updated_ms=2, deadline_ms=None, machine=b"{}",
        usage={}))


class Store:
    """A ledger with two tenants, of which each has a session that the instance i_1 owns."""

    def __init__(self, ledger: Any, leases: Any) -> None:
        self.ledger = ledger
        self.leases = leases
        self.epochs: dict[str, int] = {}

    async def fill(self) -> None:
        await self.leases.join(Instance("i_1", "here"))
        for name in ("acme", "other"):
            await self.ledger.commit(WriteBatch([
                Put(TenantRecord(tenant_id=name, name="", created_ms=1)), session(name), record(name)]))
            self.epochs[name] = (await self.leases.take(LaneName(name, f"S-{name}"), "i_1")).epoch

    async def freeze(self, life_ms: int = LIFE_MS, tenant_id: str = "acme") -> None:
        await self.ledger.transact(partial(tenant_moves.freeze, tenant_id=tenant_id, move_id="m_1", life_ms=life_ms))

    async def note(self, move_id: str, step: MoveStep, life_ms: int = LIFE_MS) -> None:
        await self.ledger.transact(partial(tenant_moves.note, tenant_id="acme", move_id=move_id, step=step,
                                           life_ms=life_ms))

    async def depart(self) -> None:
        await self.ledger.transact(partial(tenant_moves.depart, tenant_id="acme", move_id="m_1", place="https://b",
                                           gateway_id="gw_2"))

    async def thaw(self) -> bool:
        return await self.ledger.transact(partial(tenant_moves.thaw, tenant_id="acme", move_id="m_1"))

    async def missing(self, tenant_id: str = "acme", move_id: str = "m_1", step: MoveStep = "frozen") -> list[str]:
        """The gateways that have not acknowledged a step."""
        found = await self.ledger.transact(partial(tenant_moves.unacknowledged, tenant_id=tenant_id, move_id=move_id,
                                                   step=step))
        return [one.instance_id for one in found]

    async def append_event(self, name: str) -> None:
        """As a frame of the session's runner does."""
        await self.ledger.commit(WriteBatch([Append(name, f"s/S-{name}", "C", 5, b"{}")],
                                            [(LaneName(name, f"S-{name}"), self.epochs[name])]))

    async def tenant(self) -> TenantRecord:
        found = await self.ledger.tenant("acme")
        assert found is not None
        return found


@pytest.fixture
async def store(postgres: PostgresSettings) -> AsyncIterator[Store]:
    ledger = await open_ledger(postgres, ManualClock(), keeps_transcripts=True)
    leases = await open_leases(postgres)
    made = Store(ledger, leases)
    await made.fill()
    yield made
    await leases.close()
    await ledger.close()


async def test_nothing_of_a_frozen_tenant_is_written_and_others_continue(store: Store) -> None:
    await store.freeze()
    with pytest.raises(Fenced):
        await store.append_event("acme")
    for lane in (LaneName("acme", "S-acme"), LaneName("acme", tenant_lane_id("acme"))):
        with pytest.raises(TenantMoving, match="being moved"):
            await store.leases.take(lane, "i_1")
    with pytest.raises(TenantMoving, match="The tenant acme is being moved"):
        await store.ledger.commit(WriteBatch([record("acme")]))
    with pytest.raises(TenantMoving):  # A session that is new has no lane that could be frozen.
        await store.ledger.commit(WriteBatch([BeginLane(LaneName("acme", "S-new")), record("acme")]))
    await store.append_event("other")
    await store.ledger.commit(WriteBatch([record("other")]))
    assert (await store.leases.take(LaneName("other", "S-other"), "i_1")).instance_id == "i_1"
    assert (await store.ledger.audit_tree("acme"))[0] == 1
    assert await store.ledger.events("acme", "s/S-acme", 0, 9) == []


async def test_in_a_group_only_the_batch_of_the_frozen_tenant_is_refused(store: Store) -> None:
    await store.freeze()
    done = await asyncio.gather(*(store.ledger.commit(WriteBatch([record(name)])) for name in ("acme", "other") * 3),
                                return_exceptions=True)
    assert [isinstance(one, TenantMoving) for one in done] == [True, False] * 3


async def test_a_reopened_tenant_continues_under_newer_epochs(store: Store) -> None:
    await store.freeze()
    assert (await store.tenant()).moving == "m_1"
    assert await store.ledger.transact(partial(tenant_moves.thaw, tenant_id="acme", move_id="m_2")) is False
    assert await store.ledger.transact(partial(tenant_moves.thaw, tenant_id="acme", move_id="m_1")) is True
    assert (await store.tenant()).moving is None
    with pytest.raises(Fenced):
        await store.append_event("acme")
    assert sorted(await store.leases.orphans(9)) == [
        LaneName("acme", "S-acme"), LaneName("acme", tenant_lane_id("acme"))], "another gateway has its clocks"
    store.epochs["acme"] = (await store.leases.take(LaneName("acme", "S-acme"), "i_1")).epoch
    await store.append_event("acme")
    assert await store.leases.moves() == []


async def test_a_tenant_frozen_for_too_long_is_reopened_by_any_gateway(store: Store) -> None:
    await store.freeze(life_ms=0)
    assert await store.leases.moves() == []
    assert await store.leases.end_overdue_moves() == ["acme"]
    assert await store.leases.end_overdue_moves() == []
    with pytest.raises(tenant_moves.HandoverOver):
        await store.ledger.transact(partial(tenant_moves.depart, tenant_id="acme", move_id="m_1", place="https://b",
                                            gateway_id="gw_2"))
    assert (await store.tenant()).moved_to is None


async def test_a_tenant_recorded_as_moved_cannot_be_reopened_here(store: Store) -> None:
    await store.freeze()
    await store.ledger.transact(partial(tenant_moves.depart, tenant_id="acme", move_id="m_1", place="https://b",
                                        gateway_id="gw_2"))
    assert await store.ledger.transact(partial(tenant_moves.thaw, tenant_id="acme", move_id="m_1")) is False
    tenant = await store.tenant()
    assert (tenant.moved_to, tenant.moving) == ("https://b", None)
    with pytest.raises(TenantMoving):
        await store.leases.take(LaneName("acme", "S-acme"), "i_1")


async def test_a_step_waits_for_each_live_gateway(store: Store) -> None:
    await store.freeze()

    async def missing() -> list[str]:
        found = await store.ledger.transact(partial(tenant_moves.unacknowledged, tenant_id="acme", move_id="m_1",
                                                    step="frozen"))
        return [one.instance_id for one in found]

    assert await missing() == ["i_1"]
    move, = await store.leases.moves()
    await store.leases.acknowledge(move._replace(move_id="m_0"), "i_1")
    await store.leases.acknowledge(TenantMove("acme", "m_1", "announced", 0), "i_1")
    assert await missing() == ["i_1"], "of another move, or another step"
    await store.leases.acknowledge(move, "i_1")
    assert await missing() == []
    await store.leases.join(Instance("i_2", "here"))
    assert await missing() == ["i_2"]
    await store.leases.leave("i_2")
    assert await missing() == []


async def test_a_later_step_replaces_the_earlier_one(store: Store) -> None:
    await store.note("m_1", "announced", life_ms=1_000)
    before, = await store.leases.moves()
    await store.note("m_2", "frozen")
    after, = await store.leases.moves()
    assert after == TenantMove("acme", "m_2", "frozen", after.ends_ms)
    assert after.ends_ms > before.ends_ms + LIFE_MS // 2


async def test_an_acknowledgement_counts_for_its_tenant_move_and_step_only(store: Store) -> None:
    await store.freeze()
    await store.freeze(tenant_id="other")
    of_acme, _ = await store.leases.moves()
    await store.leases.acknowledge(of_acme, "i_1")
    assert await store.missing() == []
    assert await store.missing("other") == ["i_1"]
    assert await store.missing(move_id="m_2") == ["i_1"]
    assert await store.missing(step="arrived") == ["i_1"]
    for move_id, step in (("m_1", "arrived"), ("m_2", "arrived")):
        await store.note(move_id, step)  # type: ignore[arg-type]
        await store.leases.acknowledge((await store.leases.moves())[0], "i_1")
        assert await store.missing(move_id=move_id, step=step) == []  # type: ignore[arg-type]
        assert await store.missing() == ["i_1"], "of the last step only"


async def test_a_gateway_whose_lease_has_expired_is_not_waited_for(store: Store) -> None:
    await store.freeze()
    await store.leases.join(Instance("i_dead", "here"), 0)
    assert await store.missing() == ["i_1"]


async def test_a_reopened_tenant_leaves_moves_of_others_and_other_lanes_alone(store: Store) -> None:
    key = LaneName("acme", "key/acme/k")
    await store.leases.take(key, "i_1")
    await store.freeze()
    await store.freeze(tenant_id="other")
    for move in await store.leases.moves():
        await store.leases.acknowledge(move, "i_1")
    assert await store.thaw()
    assert [one.tenant_id for one in await store.leases.moves()] == ["other"]
    assert await store.missing("other") == []
    assert await store.leases.owner(key) == "i_1", "a key is held for a moment by the gateway that asked"
    await store.freeze()
    assert await store.missing() == ["i_1"], "it was acknowledged before it was opened"


@pytest.mark.parametrize("late", ["time", "step", "move", "tenant"])
async def test_a_tenant_departs_only_within_its_own_announced_time(store: Store, late: str) -> None:
    await store.freeze(0 if late in ("time", "tenant") else LIFE_MS)
    if late == "tenant":
        await store.freeze(tenant_id="other")
    elif late != "time":
        await store.note("m_1" if late == "step" else "m_2", "announced" if late == "step" else "frozen")
    with pytest.raises(tenant_moves.HandoverOver, match="within the time that was announced"):
        await store.depart()
    assert (await store.tenant()).moved_to is None


async def test_a_tenant_within_its_time_stays_frozen(store: Store) -> None:
    await store.freeze()
    assert await store.leases.end_overdue_moves() == []
    assert (await store.tenant()).moving == "m_1"


async def test_a_tenant_that_arrives_too_slowly_is_not_opened_here(store: Store) -> None:
    """Only a part of its rows is here; its source opens it."""
    closed = TenantRecord(tenant_id="acme", name="", created_ms=1, moving="m_1")
    await store.ledger.transact(partial(tenant_moves.arrive, closed=closed, source="gw_1"))
    await store.note("m_1", "arriving", life_ms=0)
    assert await store.leases.end_overdue_moves() == []
    assert (await store.tenant()).moving == "m_1"


async def is_blocked(by: asyncpg.Connection, watcher: asyncpg.Connection) -> bool:
    """Return whether a connection waits for a lock of `by`."""
    return bool(await watcher.fetchval(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))", by.get_server_pid()))


async def test_an_overdue_move_that_another_gateway_ends_is_not_waited_for(
        store: Store, postgres: PostgresSettings, other: asyncpg.Connection) -> None:
    await store.freeze(life_ms=0)
    ending = await asyncpg.connect(postgres.dsn)
    async with ending.transaction():
        assert await tenant_moves.thaw_overdue(ending) == ["acme"]
        asked = asyncio.create_task(store.leases.end_overdue_moves())
        while not asked.done() and not await is_blocked(ending, other):
            await asyncio.sleep(0)
        was_done = asked.done()
    await ending.close()
    assert await asked == []
    assert was_done


async def test_a_move_that_becomes_overdue_while_its_tenant_departs_is_left_to_it(
        store: Store, postgres: PostgresSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one locks the tenant, the other the move, and each waits for the other's."""
    await store.freeze()
    put, ended = tenant_moves._put, list[list[str]]()
    ending = await asyncpg.connect(postgres.dsn, server_settings={"lock_timeout": "5s"})

    async def put_late(*values: Any) -> None:
        monkeypatch.setattr(tenant_moves, "_put", put)
        async with ending.transaction():
            ended.append(await tenant_moves.thaw_overdue(ending))
        await put(*values)

    monkeypatch.setattr(tenant_moves, "_OVERDUE", tenant_moves._OVERDUE.replace("<= interlock_now_ms()", "> 0"))
    monkeypatch.setattr(tenant_moves, "_put", put_late)
    await store.depart()
    await ending.close()
    assert ended == [[]]
    assert (await store.tenant()).moved_to == "https://b"


async def test_only_one_of_two_concurrent_moves_freezes_a_tenant(
        store: Store, postgres: PostgresSettings, other: asyncpg.Connection) -> None:
    first = await asyncpg.connect(postgres.dsn)
    async with first.transaction():
        await tenant_moves.freeze(first, "acme", "m_2", LIFE_MS)
        second = asyncio.create_task(store.freeze())
        while not second.done() and not await is_blocked(first, other):
            await asyncio.sleep(0)
    await first.close()
    with pytest.raises(tenant_moves.HandoverOver, match="being moved already"):
        await second
    assert (await store.tenant()).moving == "m_2"
