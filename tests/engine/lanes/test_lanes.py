"""The shell of a lane: decide, commit, publish; nothing is published that did not become durable (D-1, E-3, C-4)."""

from __future__ import annotations

import asyncio
import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation import Table
from engine.within import Within
from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.live import RecentIds
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.engine.lanes.inbox import GROUP_BYTES, INBOX_BYTES, INBOX_JOBS, Job
from interlock.ports.ledger import Full, Put, Receipt, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.limits import RECENT_MESSAGE_IDS
from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


class Disk(MemoryLedger):
    """A ledger on a disk that a test can fill, and that can be held up while it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.commits = 0
        self.spinning = asyncio.Event()
        self.spinning.set()

    async def commit(self, batch: WriteBatch) -> Receipt:
        await self.spinning.wait()
        self.commits += 1
        if self.full:
            raise Full("no space left on the disk")
        return await super().commit(batch)


class Place(Table):
    """The engine's table over such a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.disk = Disk()
        self.begin()


@pytest.mark.req("D-1")
async def test_a_busy_lane_slows_the_link_that_feeds_it() -> None:
    table = Table()
    shell = await table.lane((await table.execute()).target.session_id)
    done: list[int] = []
    await shell.inbox.room()
    for number in range(INBOX_JOBS):
        shell.push(Job(Within(lambda _lane, number=number: done.append(number))))
    await shell.inbox.room()
    assert len(done) >= INBOX_JOBS // 2
    assert done == sorted(done)


@pytest.mark.req("D-3", "A-8")
async def test_a_lane_bounds_large_frames_by_bytes_and_processes_bounded_groups() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    large = INBOX_BYTES // 8
    before = table.disk.commits
    for _ in range(8):
        shell.push(Job(Within(lambda lane: lane.append("notice", b"{}")), size_bytes=large))
    assert shell.inbox.full
    await shell.inbox.room()
    await shell.call(StartLooked())
    assert not shell.inbox.full
    assert table.disk.commits - before >= INBOX_BYTES // GROUP_BYTES


@pytest.mark.req("C-4")
async def test_an_idle_lane_is_dropped_and_read_again() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="done"))
    await table.confirm(session_id, 10)
    assert table.engine.lanes.peek(session_id) is None
    assert (await table.execute(target=Target(session_id=session_id))).target.session_id == session_id
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("E-3", "D-6")
@given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_a_message_id_is_new_once(ids: list[str]) -> None:
    recent, known = RecentIds(["a"]), {"a"}
    for message_id in ids:
        assert recent.seen(message_id) == (message_id in known)
        known.add(message_id)


@pytest.mark.req("D-6")
def test_message_ids_are_stored_up_to_a_limit_and_the_oldest_is_dropped_first() -> None:
    recent = RecentIds([str(number) for number in range(RECENT_MESSAGE_IDS)])
    assert recent.seen("0")
    assert not recent.seen("new")
    assert recent.seen("1")
    assert not recent.seen("0"), "it was the oldest, and its seq recognises it"


@pytest.mark.req("D-6")
def test_similar_message_ids_are_distinct_and_thousands_need_little_memory() -> None:
    one = str(UUID(int=1))
    alike = [one, one[:-1] + " ", one[:-1] + "-", one.replace("-", ""), "0-" + one[2:], one[:-2] + "é1"]
    recent = RecentIds([])
    assert [recent.seen(name) for name in alike] == [False] * len(alike)
    assert all(recent.seen(name) for name in alike)
    tracemalloc.start()
    try:
        full = RecentIds([str(UUID(int=number)) for number in range(2 * RECENT_MESSAGE_IDS)][-RECENT_MESSAGE_IDS:])
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
    assert full.seen(str(UUID(int=RECENT_MESSAGE_IDS)))


@pytest.mark.req("D-6", "D-7")
async def test_message_ids_survive_a_restart() -> None:
    table = Table()
    session_id = (await table.execute()).target.session_id
    await table.opened(session_id)
    table.begin()
    assert (await table.lane(session_id)).lane.recent.seen("m1")
    assert not (await table.lane(session_id)).lane.recent.seen("m2")


@pytest.mark.req("K-1")
@pytest.mark.parametrize("kind", ["stored", "new", "tenant"])
async def test_no_lane_of_a_tenant_that_is_being_moved_is_taken(kind: str) -> None:
    table = Table()
    lanes = table.engine.lanes
    stored = (await table.execute()).target.session_id
    fresh = LaneState(session_id=str(UUID(int=7)), tenant_id="default", session_key="k", agent_id="shell",
                      runner_id="local", workspace="/w", permission="asks", created_ms=0) if kind == "new" else None
    session_id = {"stored": stored, "new": str(UUID(int=7)), "tenant": tenant_lane_id("default")}[kind]
    moving = TenantRecord(tenant_id="default", name="", created_ms=0, moving="https://there.example")
    await table.ledger.commit(WriteBatch([Put(moving)]))
    await lanes.learn_tenants()

    with pytest.raises(Problem, match="is being moved"):
        await lanes.lane(session_id, fresh)
    assert session_id not in lanes.shells
