"""One suite over every store of leases: the guarantees of `interlock.ports.leases`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interlock.backends.memory.leases import MemoryLeases
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.postgres.database import PostgresSettings, connect
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.ports.leases import (
    INSTANCE_LIFE_MS,
    Gone,
    Instance,
    Lease,
    Leases,
    Overtaken,
    RunnerLocation,
)
from interlock.ports.ledger import Append, Fenced, LaneName, Ledger, NameTaken, WriteBatch

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
T = TypeVar("T")


class Time:
    """Time that moves only when a test advances it."""

    def __init__(self) -> None:
        self.at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


class Store(NamedTuple):
    ledger: Ledger
    leases: Leases
    time: Time

    async def writes(self, lane: LaneName, epoch: int) -> bool:
        """Whether a commit under this epoch goes through."""
        try:
            await self.ledger.commit(WriteBatch([Append("t", "s/1", "C", 1, b"{}")], [(lane, epoch)]))
        except Fenced:
            return False
        return True


class ServerTime(Time):
    """The server's clock, which the leases in PostgreSQL go by: a test moves it too."""

    def __init__(self, settings: PostgresSettings) -> None:
        super().__init__()
        self.settings = settings
        self.shown_ms = 0

    async def show(self) -> None:
        if self.shown_ms != self.at_ms:
            self.shown_ms = self.at_ms
            connection = await connect(self.settings)
            await connection.execute(NOW.format(f"{self.at_ms}::bigint"))
            await connection.close()


class InServerTime:
    """Leases, each call of which is at the test's time."""

    def __init__(self, leases: Leases, time: ServerTime) -> None:
        self.leases = leases
        self.time = time

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any) -> Any:
            await self.time.show()
            return await getattr(self.leases, name)(*values)

        return call


NOW = "CREATE OR REPLACE FUNCTION interlock_now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT {} $$"
SERVERS_OWN = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


@pytest.fixture(params=["memory", "postgres", "postgres_by_tenant"])
def place(request: pytest.FixtureRequest) -> str | PostgresSettings:
    return request.getfixturevalue(request.param) if request.param.startswith("postgres") else request.param


@pytest.fixture
async def store(place: str | PostgresSettings) -> AsyncIterator[Store]:
    async with AsyncExitStack() as ends:
        if isinstance(place, PostgresSettings):
            time: Time = ServerTime(place)
            ledger: Any = await open_in_postgres(place, time)
            leases: Any = await open_leases(place)
            ends.push_async_callback(set_servers_own_time, place)
            ends.push_async_callback(leases.close)
            leases = InServerTime(leases, time)  # type: ignore[arg-type]
        else:
            time = Time()
            ledger = MemoryLedger()
            leases = MemoryLeases(ledger.lanes, time)
        ends.push_async_callback(ledger.close)
        for name in ("a", "b"):
            await leases.join(Instance(name, f"http://{name}"))
        yield Store(ledger, leases, time)


async def set_servers_own_time(settings: PostgresSettings) -> None:
    connection = await connect(settings)
    await connection.execute(NOW.format(SERVERS_OWN))
    await connection.close()


def link(instance_id: str, link_id: str = "l1", runner_id: str = "r1", tenant_id: str = "t1",
         present: bytes = b"{}") -> RunnerLocation:
    return RunnerLocation(runner_id, tenant_id, instance_id, link_id, present)


async def attached(store: Store) -> list[RunnerLocation]:
    """The links that have not closed, by runner."""
    return sorted((await store.leases.links_since(0)).links)


def named(name: str, tenant_id: str = "t1") -> LaneName:
    return LaneName(tenant_id, name)


async def test_a_lane_of_a_live_instance_cannot_be_taken_by_another(store: Store) -> None:
    mine = await store.leases.take(named("s/1"), "a")
    assert mine == Lease(1, "a")
    assert await store.leases.take(named("s/1"), "b") == mine
    assert await store.writes(named("s/1"), 1)
    assert await store.leases.owner(named("s/1")) == "a"
    again = await store.leases.take(named("s/1"), "a")
    assert again == Lease(2, "a")
    assert not await store.writes(named("s/1"), 1), "the same instance fences its own earlier hold"


async def test_a_lane_is_found_by_its_tenant(store: Store) -> None:
    mine, others = named("s/1"), named("s/1", "t2")
    await store.leases.take(mine, "a")
    assert await store.leases.owner(others) is None
    assert not await store.writes(others, 1)
    for give_back in (store.leases.release, store.leases.pass_on):
        await give_back([(others, 1)], "a")
    assert await store.leases.owner(mine) == "a"
    assert await store.writes(mine, 1)
    await store.leases.leave("a")
    assert await store.leases.claim([(others, None)], "b") == {}
    assert await store.leases.claim([(mine, None)], "b") == {mine: 2}


async def test_a_survey_lists_live_instances_with_start_time_and_lane_count(store: Store) -> None:
    joined = store.time.at_ms
    for lane in (named("s/1"), named("s/2")):
        await store.leases.take(lane, "a")
    store.time.at_ms += INSTANCE_LIFE_MS - 1
    assert await store.leases.renew("a")
    found = await store.leases.survey()
    assert found.version
    mine, other = found.members
    assert (mine.instance_id, mine.address, mine.lanes) == ("a", "http://a", 2)
    assert (other.instance_id, other.lanes) == ("b", 0)
    assert mine.renewed_ms - other.renewed_ms >= INSTANCE_LIFE_MS - 1
    assert mine.since_ms == other.renewed_ms or abs(mine.since_ms - joined) < 60_000, "by the store's clock"
    store.time.at_ms += 2
    assert [one.instance_id for one in (await store.leases.survey()).members] == ["a"], "the dead are not shown"
    await store.leases.leave("a")
    assert (await store.leases.survey()).members == []


async def test_of_two_concurrent_takers_of_a_lane_one_gets_it(store: Store) -> None:
    both = await asyncio.gather(store.leases.take(named("s/1"), "a"), store.leases.take(named("s/1"), "b"))
    assert both[0] == both[1]


async def test_an_instance_that_was_not_renewed_is_dead_and_stays_dead(store: Store) -> None:
    await store.leases.take(named("s/1"), "a")
    store.time.at_ms += INSTANCE_LIFE_MS - 1
    assert await store.leases.renew("b")
    assert [one.instance_id for one in await store.leases.instances()] == ["a", "b"]
    assert await store.leases.orphans(10) == []
    store.time.at_ms += 1
    assert await store.leases.instances() == [Instance("b", "http://b")]
    assert not await store.leases.renew("a")
    assert await store.leases.owner(named("s/1")) is None
    assert await store.leases.orphans(10) == [named("s/1")]
    with pytest.raises(Gone):
        await store.leases.take(named("s/2"), "a")
    with pytest.raises(Gone):
        await store.leases.attach(link("a"))
    assert await store.writes(named("s/1"), 1), "as long as no one has taken the lane its last owner may write"
    assert await store.leases.take(named("s/1"), "b") == Lease(2, "b")
    assert not await store.writes(named("s/1"), 1), "a paused owner that wakes can write nothing once it was replaced"
    assert await store.leases.orphans(10) == []
    with pytest.raises(NameTaken):
        await store.leases.join(Instance("a", ""))


async def test_an_instances_lease_is_counted_from_its_last_renewal(store: Store) -> None:
    for _ in range(3):
        assert await store.leases.renew("a")
    store.time.at_ms += INSTANCE_LIFE_MS
    assert await store.leases.instances() == []


async def test_instances_that_take_lanes_concurrently_each_get_their_own(store: Store) -> None:
    asked = [(named(f"s/{at}"), "ab"[at % 2]) for at in range(6)]
    leases = await asyncio.gather(*(store.leases.take(lane, one) for lane, one in asked))
    assert leases == [Lease(1, one) for _, one in asked]
    assert [await store.leases.owner(lane) for lane, _ in asked] == [one for _, one in asked]


async def test_an_instance_that_leaves_is_dead_immediately(store: Store) -> None:
    await store.leases.take(named("s/1"), "a")
    await store.leases.attach(link("a"))
    await store.leases.leave("a")
    assert await store.leases.take(named("s/1"), "b", "r1") == Lease(2, "b")


async def test_a_released_lane_has_no_owner_and_its_epochs_continue(store: Store) -> None:
    await store.leases.take(named("s/1"), "a")
    await store.leases.take(named("s/2"), "a")
    await store.leases.release([(named("s/1"), 1), (named("s/2"), 7)], "a")
    assert await store.leases.owner(named("s/1")) is None
    assert await store.leases.owner(named("s/2")) == "a", "under another epoch it is another hold"
    await store.leases.release([(named("s/2"), 1)], "b")
    assert await store.leases.owner(named("s/2")) == "a"
    await store.leases.leave("a")
    assert await store.leases.orphans(10) == [named("s/2")]
    assert await store.leases.take(named("s/1"), "b") == Lease(2, "b")


async def test_the_next_expiry_is_that_of_the_live_instance_that_renewed_first(store: Store) -> None:
    for name in ("a", "b"):
        await store.leases.leave(name)
    assert await store.leases.next_expiry_ms() is None
    await store.leases.join(Instance("late", ""), 2 * INSTANCE_LIFE_MS)
    await store.leases.join(Instance("soon", ""), INSTANCE_LIFE_MS)
    expiry_ms = await store.leases.next_expiry_ms()
    assert expiry_ms is not None
    assert 0 < expiry_ms <= INSTANCE_LIFE_MS
    await store.leases.leave("soon")
    expiry_ms = await store.leases.next_expiry_ms()
    assert expiry_ms is not None
    assert INSTANCE_LIFE_MS < expiry_ms <= 2 * INSTANCE_LIFE_MS


async def test_orphans_are_claimed_together_and_other_lanes_are_not(store: Store) -> None:
    await store.leases.join(Instance("c", ""))
    for lane in (named("s/1"), named("s/2"), named("s/3"), named("s/4")):
        await store.leases.take(lane, "a")
    await store.leases.take(named("s/5"), "b")
    await store.leases.take(named("s/6"), "c")
    await store.leases.release([(named("s/4"), 1)], "a")
    await store.leases.attach(link("b", runner_id="r1"))
    await store.leases.attach(link("c", runner_id="r3"))
    await store.leases.leave("a")
    claimed = await store.leases.claim(
        [(named("s/1"), "r1"), (named("s/2"), None), (named("s/3"), "r3"),
         *((named(f"s/{at}"), None) for at in range(4, 8))], "b")
    assert claimed == {named("s/1"): 2, named("s/2"): 2}, "not what its runner or an owner that is alive has"
    assert not await store.writes(named("s/1"), 1), "a paused owner is fenced by a claim as by a take"
    assert await store.writes(named("s/1"), 2)
    assert await store.writes(named("s/4"), 1), "what was given back is left as it is"
    assert await store.writes(named("s/5"), 1), "a claim does not fence the claimer's own lanes"
    assert await store.leases.orphans(10) == [named("s/3")]
    assert await store.leases.claim([(named("s/3"), "r3")], "c") == {named("s/3"): 2}
    assert await store.leases.claim([(named("s/1"), "r1"), (named("s/3"), "r3")], "b") == {}
    with pytest.raises(Gone):
        await store.leases.claim([(named("s/1"), None)], "a")


async def test_each_lane_is_claimed_by_one_of_several_survivors(store: Store) -> None:
    await store.leases.join(Instance("c", ""))
    lanes = [named(f"s/{at}") for at in range(40)]
    await asyncio.gather(*(store.leases.take(lane, "a") for lane in lanes))
    await store.leases.leave("a")
    had = await asyncio.gather(*(store.leases.claim([(lane, None) for lane in lanes], one) for one in ("b", "c", "b")))
    rest = await store.leases.claim([(lane, None) for lane in await store.leases.orphans(100)], "b")
    assert sorted(lane for some in (*had, rest) for lane in some) == sorted(lanes)
    assert {epoch for some in (*had, rest) for epoch in some.values()} == {2}


async def test_the_lanes_that_an_instance_took_last_are_its_own_under_their_newest_epochs(store: Store) -> None:
    odd = named("s/\0")
    lanes = [named("s/1"), named("s/2"), named("s/3"), odd]
    for lane in lanes:
        await store.leases.take(lane, "a", "r1")
    await store.leases.take(named("s/2"), "a")
    await store.leases.attach(link("b"))
    await store.leases.take(named("s/3"), "b", "r1")
    assert await store.leases.owned([*lanes, named("s/1", "t2")], "a") == {named("s/1"): 1, named("s/2"): 2, odd: 1}
    assert await store.leases.owned(lanes, "b") == {named("s/3"): 2}
    await store.leases.release([(named("s/1"), 1)], "a")
    assert await store.leases.owned([named("s/1")], "a") == {}


async def test_a_lane_passed_on_is_an_orphan_immediately(store: Store) -> None:
    for lane in (named("s/1"), named("s/2")):
        await store.leases.take(lane, "a")
    await store.leases.pass_on([(named("s/1"), 1), (named("s/2"), 7)], "a")
    await store.leases.pass_on([(named("s/2"), 1)], "b")
    assert await store.leases.orphans(10) == [named("s/1")], "not under another epoch, nor by one who does not have it"
    assert await store.leases.owner(named("s/1")) is None
    assert await store.leases.claim([(named("s/1"), None), (named("s/2"), None)], "b") == {named("s/1"): 2}
    assert not await store.writes(named("s/1"), 1)


async def test_lanes_taken_concurrently_have_different_epochs(store: Store) -> None:
    lanes = [named(f"s/{at % 30}") for at in range(60)]
    leases = await asyncio.gather(*(store.leases.take(lane, "a") for lane in lanes))
    assert sorted(lease.epoch for lease in leases) == [1] * 30 + [2] * 30
    assert {lease.instance_id for lease in leases} == {"a"}


async def test_a_runners_sessions_can_be_taken_only_where_it_is_attached(store: Store) -> None:
    await store.leases.take(named("s/1"), "a", "r1")
    await store.leases.attach(link("b"))
    assert (await store.leases.take(named("s/1"), "a", "r1")).instance_id == "b", "its owner takes it no second time"
    assert await store.leases.owner(named("s/1")) == "a"
    assert await store.leases.take(named("s/1"), "b", "r1") == Lease(2, "b"), "fencing an owner that is alive"
    assert not await store.writes(named("s/1"), 1)
    assert (await store.leases.take(named("s/9"), "a", "r1")).instance_id == "b", "a session that is yet to begin"
    assert (await store.leases.take(named("s/8"), "a", "r2")).instance_id == "a", "another runner's"
    assert (await store.leases.take(named("s/7", "t2"), "a", "r1")).instance_id == "a", "another tenant's"
    assert await store.leases.renew("b", 0), "it expires"
    assert await store.leases.take(named("s/1"), "a", "r1") == Lease(3, "a")


async def test_a_lane_without_an_owner_is_begun_by_exactly_one_instance(store: Store) -> None:
    leases = store.leases
    for name in ("i_a", "i_b"):
        await leases.join(Instance(name, name))
    await leases.attach(RunnerLocation("r_b", "t", "i_b", "l_1", b""))
    began = await asyncio.gather(*(leases.begin(named("S1", "t"), name, "r") for name in ("i_a", "i_b")))
    assert sum(began) <= 1
    if any(began):
        owner, other = ("i_a", "i_b") if began[0] else ("i_b", "i_a")
        assert await leases.owner(named("S1", "t")) == owner
        assert await store.writes(named("S1", "t"), 1)
        assert await leases.take(named("S1", "t"), other) == Lease(1, owner)
    assert not await leases.begin(named("S2", "t"), "i_a", "r_b"), "its runner is attached to the other one"
    assert not await leases.begin(named("S2", "t"), "i_never", "r")
    assert await leases.take(named("S2", "t"), "i_b", "r_b") == Lease(1, "i_b")
    assert not await leases.begin(named("S2", "t"), "i_b", "r_b")
    assert await leases.take(named("S2", "t"), "i_b", "r_b") == Lease(2, "i_b")


async def test_the_newest_link_of_a_runner_is_valid(store: Store) -> None:
    await store.leases.attach(link("a", "l1"))
    await store.leases.attach(link("b", "l2"))
    assert not await store.leases.detach("t1", "r1", "l1")
    assert not await store.leases.detach("t2", "r1", "l2"), "it is of another tenant"
    assert not await store.leases.update(link("a", "l1", present=b"old"))
    assert not await store.leases.update(link("b", "l2", tenant_id="t2", present=b"theirs"))
    assert await store.leases.update(link("b", "l2", present=b"new"))
    await store.leases.attach(link("a", "l3", "r0", "t2"))
    assert await attached(store) == [link("a", "l3", "r0", "t2"), link("b", "l2", present=b"new")]
    before = await store.leases.links_since(0)
    assert await store.leases.detach("t1", "r1", "l2")
    assert await attached(store) == [link("a", "l3", "r0", "t2")]
    assert link("", "l2", present=b"") in (await store.leases.links_since(before.upto)).links, "its facts are not kept"


@pytest.mark.req("C-7", "L-5")
async def test_a_late_hello_does_not_move_the_runner_back(store: Store) -> None:
    await store.leases.attach(link("b", "l2"), 2)
    for late in (1, 2):
        with pytest.raises(Overtaken) as overtaken:
            await store.leases.attach(link("a", "l1"), late)
        assert overtaken.value.newest == 2
    assert await attached(store) == [link("b", "l2")]
    assert (await store.leases.take(named("s/1"), "a", "r1")).instance_id == "b"
    assert await store.leases.detach("t1", "r1", "l2")
    assert not await store.leases.detach("t1", "r1", "l2")
    assert not await store.leases.update(link("b", "l2"))
    assert await attached(store) == []
    with pytest.raises(Overtaken):
        await store.leases.attach(link("a", "l1"), 1)
    assert await store.leases.take(named("s/1"), "a", "r1") == Lease(1, "a"), "it is attached nowhere"
    await store.leases.attach(link("a", "l3"), 3)
    assert await attached(store) == [link("a", "l3")]
    await store.leases.attach(link("a", "l1", "r2"), 1)


@pytest.mark.req("L-5")
async def test_a_runner_without_numbered_links_is_at_its_last_contact(store: Store) -> None:
    await store.leases.attach(link("a", "l5"), 5)
    await store.leases.attach(link("b", "older program"))
    assert await attached(store) == [link("b", "older program")]
    with pytest.raises(Overtaken):
        await store.leases.attach(link("a", "l4"), 4)
    await store.leases.attach(link("a", "l6"), 6)
    assert await attached(store) == [link("a", "l6")]


async def test_a_repeated_look_returns_the_changes_since_the_last(store: Store) -> None:
    for at in range(4):
        await store.leases.attach(link("a", f"l{at}", f"r{at}"))
    first = await store.leases.links_since(0)
    assert {one.runner_id for one in first.links} == {"r0", "r1", "r2", "r3"}
    await store.leases.attach(link("b", "l9", "r1"))
    await store.leases.detach("t1", "r2", "l2")
    await store.leases.detach("t1", "r3", "an older one")
    second = await store.leases.links_since(first.upto)
    found = {one.runner_id: one.instance_id for one in second.links}
    assert (found["r1"], found["r2"]) == ("b", "")
    assert found.get("r3", "a") == "a", "the end of an older link changes nothing"
    await store.leases.leave("b")
    assert {one.runner_id for one in (await store.leases.links_since(0)).links} == {"r0", "r1", "r3"}, (
        "of a dead instance too, which the reader knows to be dead")
    assert not await store.leases.detach("t1", "r2", "l2"), "it is gone already"
    assert not await store.leases.update(link("a", "l2", "r2", present=b"new"))
    third = await store.leases.links_since(second.upto)
    while "r0" in {one.runner_id for one in third.links}:
        # Unchanged rows are not read for ever: a row may be returned again while any older transaction is open.
        third = await store.leases.links_since(third.upto)
    await store.leases.attach(link("a", "l10", "r2"))
    assert link("a", "l10", "r2") in (await store.leases.links_since(third.upto)).links


async def test_orphans_are_found_whatever_the_owners_of_other_lanes(store: Store) -> None:
    await store.leases.join(Instance("c", ""))
    for at, owner in enumerate("abcabcabc"):
        await store.leases.take(named(f"s/{at}"), owner)
    await store.leases.release([(named("s/0"), 1)], "a")
    await store.leases.leave("a")
    await store.leases.leave("c")
    assert sorted(await store.leases.orphans(10)) == [named(f"s/{at}") for at in (2, 3, 5, 6, 8)]
    assert len(await store.leases.orphans(2)) == 2


def now(asked: Coroutine[Any, Any, T]) -> T:
    """The outcome of what does not wait."""
    try:
        asked.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store in memory waits for nothing")


NAMES = st.sampled_from(["a", "b", "c"])
LANES = st.sampled_from([named("s/1"), named("s/2")])
RUNNERS = {named("s/1"): "r1", named("s/2"): "r2"}


class LeaseTable(RuleBasedStateMachine):
    """Instances join, are paused, die and rejoin; in each case a lane has one writer."""

    @initialize()
    def begin(self) -> None:
        self.time = Time()
        self.ledger = MemoryLedger()
        self.leases = MemoryLeases(self.ledger.lanes, self.time)
        self.lives = {"a": 0, "b": 0, "c": 0}
        """How often each process has rejoined."""
        self.expires = dict.fromkeys(self.lives, 0)
        self.held: dict[tuple[str, LaneName], int] = {}
        """(process, lane) → the epoch that it believes to have."""
        self.newest = {named("s/1"): ("", 0), named("s/2"): ("", 0)}
        self.linked: dict[LaneName, str] = {}
        for name in self.lives:
            self.come(name)

    def come(self, name: str) -> None:
        self.lives[name] += 1
        now(self.leases.join(Instance(self.id(name), "")))
        self.expires[name] = self.time.at_ms + INSTANCE_LIFE_MS

    def id(self, name: str) -> str:
        return f"{name}{self.lives[name]}"

    def alive(self, name: str) -> bool:
        return self.expires[name] > self.time.at_ms

    @rule(ms=st.sampled_from([1, 1_000, 2_999, 3_000]))
    def pass_time(self, ms: int) -> None:
        self.time.at_ms += ms

    @rule(name=NAMES)
    def renew(self, name: str) -> None:
        assert now(self.leases.renew(self.id(name))) == self.alive(name)
        if self.alive(name):
            self.expires[name] = self.time.at_ms + INSTANCE_LIFE_MS
            return
        for key in [key for key in self.held if key[0] == name]:
            del self.held[key]
        self.come(name)

    @rule(name=NAMES, lane=LANES)
    def attach(self, name: str, lane: LaneName) -> None:
        if self.alive(name):
            now(self.leases.attach(link(self.id(name), "l", RUNNERS[lane])))
            self.linked[lane] = self.id(name)

    @rule(name=NAMES, lane=LANES)
    def take(self, name: str, lane: LaneName) -> None:
        try:
            lease = now(self.leases.take(lane, self.id(name), RUNNERS[lane]))
        except Gone:
            assert not self.alive(name)
            return
        owner, epoch = self.newest[lane]
        alive = [self.id(one) for one in self.lives if self.alive(one)]
        linked = self.linked.get(lane) if self.linked.get(lane) in alive else None
        if lease.instance_id != self.id(name):
            assert lease.instance_id == (linked or owner)
            assert lease.instance_id in alive, "nobody is sent to the dead"
            assert lease.epoch == epoch, "and nothing has changed"
            return
        assert linked in (None, self.id(name))
        assert linked or owner not in alive or owner == self.id(name), "a live owner was not robbed"
        assert lease.epoch == epoch + 1
        self.newest[lane] = self.id(name), lease.epoch
        self.held[name, lane] = lease.epoch

    @rule(name=NAMES, lane=LANES)
    def give_back(self, name: str, lane: LaneName) -> None:
        epoch = self.held.pop((name, lane), 0)
        now(self.leases.release([(lane, epoch)], self.id(name)))
        if self.newest[lane] == (self.id(name), epoch):
            self.newest[lane] = "", epoch

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        """Also by one that slept over its own death."""
        name, lane = data.draw(st.sampled_from(sorted(self.held)))
        epoch = self.held[name, lane]
        try:
            now(self.ledger.commit(WriteBatch([Append("t", lane.name, "C", 1, b"{}")], [(lane, epoch)])))
        except Fenced:
            assert self.newest[lane][1] != epoch
        else:
            assert self.newest[lane] == (self.id(name), epoch)

    @invariant()
    def orphans_are_those_of_the_dead(self) -> None:
        alive = [self.id(one) for one in self.lives if self.alive(one)]
        expected = {lane for lane, (owner, _) in self.newest.items() if owner and owner not in alive}
        assert set(now(self.leases.orphans(10))) == expected


TestLeaseTable = LeaseTable.TestCase
TestLeaseTable.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
