"""A lease is renewed during all other work of its gateway, and a gateway that is behind claims no more lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from clusters.street import Member, Street, street
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.engine.cluster import renewal
from interlock.engine.cluster.takeover import Clocked
from interlock.engine.lanes import due_sessions
from interlock.ports.bus import NoResponder
from interlock.ports.leases import INSTANCE_LIFE_MS
from interlock.ports.ledger import LaneName, LedgerError

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


class Slow:
    """Leases of which one operation does not return until a test releases it, with `is_done` once it was done."""

    def __init__(self, leases: Any, held: str, *, is_done: bool = False) -> None:
        self.leases = leases
        self.held = held
        self.is_done = is_done
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any) -> Any:
            answer = await getattr(self.leases, name)(*values) if self.is_done else None
            if name == self.held:
                self.asked.set()
                await self.go_on.wait()
            return answer if self.is_done else await getattr(self.leases, name)(*values)

        return call


class Noting:
    """Leases that note which operations are called."""

    def __init__(self, leases: Any) -> None:
        self.leases = leases
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any) -> Any:
            self.called.append(name)
            return await getattr(self.leases, name)(*values)

        return call


class LoopTime:
    """The running loop's time, which moves only when a test advances it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.now_s = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self.now_s)


class Away:
    """Leases of which one operation raises, without `is_done` before anything was done."""

    def __init__(self, leases: Any, name: str, *, is_done: bool = False, error: type[Exception] = LedgerError) -> None:
        self.leases = leases
        self.name = name
        self.is_done = is_done
        self.error = error

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any) -> Any:
            if name != self.name:
                return await getattr(self.leases, name)(*values)
            if self.is_done:
                await getattr(self.leases, name)(*values)
            raise self.error("PostgreSQL is away.")

        return call


def figure(member: Member, name: str) -> float | None:
    return member.front.metrics.registry.get_sample_value(f"interlock_{name}")


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    """On a busy machine a test takes longer than its gateways' leases: only one that is made so is behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renewal, "BEHIND_S", -600.0)
        yield


def fall_behind(member: Member) -> None:
    member.cluster.renewal.joined(asyncio.get_running_loop().time() - 1_000)


async def orphaned(town: Street, member: Member, *lanes: LaneName) -> None:
    for lane in lanes:
        await town.leases.take(lane, member.cluster.instance_id)
    await town.leases.leave(member.cluster.instance_id)


async def test_the_next_look_for_orphans_is_when_a_lease_may_expire() -> None:
    async with street(2) as town:
        a, b = town.members
        assert await a.cluster.take_over_all() == 1.0
        town.clock.advance(INSTANCE_LIFE_MS - 400)
        await a.cluster.renewal.once()
        lane = LaneName("default", "s-1")
        await town.leases.take(lane, b.cluster.instance_id)
        assert await a.cluster.take_over_all() == 0.4
        town.clock.advance(400)
        assert await town.leases.orphans(10) == [lane]
        assert await a.cluster.take_over_all() == 1.0
        assert await town.leases.orphans(10) == []
        for member in (a, b):
            await member.cluster.settled()


async def test_a_hanging_takeover_does_not_block_lease_renewal() -> None:
    async with street(2) as town:
        a, b = town.members
        await orphaned(town, b, LaneName("default", "s-1"), LaneName("default", "s-2"))
        slow = Slow(town.leases, "claim")
        a.cluster.takeover._leases = slow  # type: ignore[assignment]
        taking = asyncio.create_task(a.cluster.take_over())
        await slow.asked.wait()
        former = a.cluster.instance_id
        for _ in range(5):
            town.clock.advance(INSTANCE_LIFE_MS // 2)
            await a.cluster.renewal.once()
        assert a.cluster.instance_id == former
        slow.go_on.set()
        await taking
        await a.cluster.settled()
        assert await town.leases.orphans(10) == []


async def test_an_unresponsive_bus_does_not_end_a_rejoining_gateway_again() -> None:
    async with street(1) as town:
        (a,) = town.members
        bus, slow = a.bus, Slow(a.bus, "serve")
        a.cluster.bus = slow  # type: ignore[assignment]
        town.clock.advance(INSTANCE_LIFE_MS)
        renewing = asyncio.create_task(a.cluster.renewal.once())
        await slow.asked.wait()
        town.clock.advance(INSTANCE_LIFE_MS)
        slow.go_on.set()
        await renewing
        a.cluster.bus = bus
        former = a.cluster.instance_id
        await a.cluster.renewal.once()
        assert a.cluster.instance_id == former
        assert figure(a, "instance_deaths_total") == 1
        await a.cluster.settled()


async def test_a_request_during_rejoining_waits_for_the_new_id() -> None:
    """An id that has not joined counts as dead: acting under it would end the gateway again."""
    async with street(1) as town:
        (a,) = town.members
        leases, slow = town.leases, Slow(town.leases, "join")
        a.cluster._leases = slow  # type: ignore[assignment]
        town.clock.advance(INSTANCE_LIFE_MS)
        renewing = asyncio.create_task(a.cluster.renewal.once())
        await slow.asked.wait()
        taking = asyncio.create_task(a.cluster.take(LaneName("default", "s-1")))
        await asyncio.sleep(0)
        slow.go_on.set()
        await asyncio.gather(renewing, taking)
        assert await leases.owner(LaneName("default", "s-1")) == a.cluster.instance_id
        assert figure(a, "instance_deaths_total") == 1
        await a.cluster.settled()


async def test_a_gateway_that_cannot_join_again_tries_with_the_next_renewal() -> None:
    async with street(1) as town:
        (a,) = town.members
        leases = town.leases
        a.cluster._leases = Away(leases, "join")  # type: ignore[assignment]
        town.clock.advance(INSTANCE_LIFE_MS)
        with pytest.raises(LedgerError, match="PostgreSQL is away"):
            await a.cluster.renewal.once()
        a.cluster._leases = leases
        await a.cluster.renewal.once()
        assert [one.instance_id for one in await leases.instances()] == [a.cluster.instance_id]
        await a.cluster.settled()


async def test_the_remaining_lease_time_is_shown_with_each_renewal() -> None:
    async with street(1) as town:
        (a,) = town.members
        a.cluster.renewal.joined(asyncio.get_running_loop().time() - 2.0)
        await a.cluster.renewal.once()
        left_s = figure(a, "lease_margin_seconds_sum")
        assert left_s is not None
        assert 0.0 < left_s <= 1.0, "of three seconds two had passed"
        await a.cluster.renewal.once()
        assert (figure(a, "lease_margin_seconds_sum") or 0.0) > left_s + 1.0
        assert figure(a, "lease_margin_seconds_count") == 2
        assert figure(a, "instance_deaths_total") == 0
        town.clock.advance(INSTANCE_LIFE_MS)
        await a.cluster.renewal.once()
        assert figure(a, "instance_deaths_total") == 1
        await a.cluster.settled()


@pytest.mark.parametrize("operation", ["renew", "join"])
async def test_a_lease_is_counted_from_its_request(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """The store may have renewed at once, and only its answer be late."""
    async with street(1) as town:
        (a,) = town.members
        slow: Any = Slow(town.leases, operation, is_done=True)
        a.cluster._leases = slow
        a.cluster.renewal._leases = slow
        if operation == "join":
            town.clock.advance(INSTANCE_LIFE_MS)
        with monkeypatch.context() as patch:
            time = LoopTime(patch)
            renewing = asyncio.create_task(a.cluster.renewal.once())
            await slow.asked.wait()
            time.now_s += 1.5
            slow.go_on.set()
            await renewing
            assert a.cluster.renewal.left_s() == pytest.approx(INSTANCE_LIFE_MS / 1000 - 1.5)
        await a.cluster.settled()


async def test_a_late_renewal_reply_does_not_shorten_the_lease_after_rejoining(
        monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(1) as town:
        (a,) = town.members
        slow: Any = Slow(town.leases, "renew", is_done=True)
        a.cluster.renewal._leases = slow
        with monkeypatch.context() as patch:
            time = LoopTime(patch)
            renewing = asyncio.create_task(a.cluster.renewal.once())
            await slow.asked.wait()
            town.clock.advance(INSTANCE_LIFE_MS)
            time.now_s += INSTANCE_LIFE_MS / 1000
            await a.cluster.take(LaneName("default", "s-1"))
            slow.go_on.set()
            await renewing
            assert a.cluster.renewal.left_s() == pytest.approx(INSTANCE_LIFE_MS / 1000)
        assert figure(a, "instance_deaths_total") == 1
        assert figure(a, "lease_margin_seconds_count") == 0
        await a.cluster.settled()


async def test_a_rejoined_gateway_keeps_nothing_of_its_former_id(monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(2) as town:
        a, b = town.members
        member = LaneName("default", tenant_lane_id("default"))
        with monkeypatch.context() as patch:
            patch.setattr(due_sessions, "READ_AT_ONCE", 0)
            await orphaned(town, b, member)
            await a.cluster.take_over()
            assert await town.leases.owner(member) == a.cluster.instance_id
            a.cluster.give_back(LaneName("default", "s-given"), 1)
            a.cluster.pass_on(LaneName("default", "s-passed"), 1)
            former = a.cluster.instance_id
            town.clock.advance(INSTANCE_LIFE_MS)
            await a.cluster.renewal.once()
        await a.cluster.take(member)
        assert await town.leases.owner(member) == a.cluster.instance_id, "not under the epoch of the former claim"
        noting = Noting(town.leases)
        a.cluster._leases = noting  # type: ignore[assignment]
        await a.cluster.beat()
        assert noting.called == [], "other gateways find its former lanes without a statement for each"
        with pytest.raises(NoResponder):
            await b.bus.request(b.cluster.subject(f"gateway.{former}.text"), b"s/1", 1_000)
        await a.cluster.settled()


async def test_a_gateway_with_an_expired_lease_does_not_lead_duties_of_others() -> None:
    async with street(2) as town:
        a, b = town.members
        assert [await a.cluster.leads("checkpoints") for _ in range(3)] == [True] * 3
        assert town.ledger.lanes[LaneName("", "duty/checkpoints")] == 1, "asked again, it only reads"
        town.clock.advance(INSTANCE_LIFE_MS // 2)
        await b.cluster.renewal.once()
        town.clock.advance(INSTANCE_LIFE_MS // 2)
        assert await b.cluster.leads("checkpoints")
        assert not await a.cluster.leads("checkpoints")
        for member in (a, b):
            await member.cluster.settled()


async def test_a_duty_about_to_be_released_by_a_takeover_is_acquired_by_the_leader() -> None:
    """The duty of its former self, which it claimed with the other orphans."""
    async with street(2) as town:
        a, b = town.members
        assert await a.cluster.leads("checkpoints")
        town.clock.advance(INSTANCE_LIFE_MS // 2)
        await b.cluster.renewal.once()
        town.clock.advance(INSTANCE_LIFE_MS // 2)
        await a.cluster.renewal.once()
        slow: Any = Slow(town.leases, "release")
        a.cluster.takeover._leases = slow
        taking = asyncio.create_task(a.cluster.take_over())
        await slow.asked.wait()
        assert await a.cluster.leads("checkpoints")
        slow.go_on.set()
        await taking
        assert not await b.cluster.leads("checkpoints"), "it was not released with the rest"
        for member in (a, b):
            await member.cluster.settled()


async def test_a_gateway_without_loaded_rules_takes_nothing_over() -> None:
    async with street(2) as town:
        lane = LaneName("default", tenant_lane_id("default"))
        await orphaned(town, town.members[1], lane)
        late = town.build()
        await late.cluster.start()
        assert not await late.cluster.take_over()
        assert await town.leases.orphans(10) == [lane]
        await late.engine.start()
        town.members.append(late)
        await late.cluster.take_over()
        assert await town.leases.owner(lane) == late.cluster.instance_id
        await late.engine.lanes.due.settled()


async def test_a_dead_gateways_runner_is_not_offered_after_its_lanes_are_found() -> None:
    """Else commands for any runner would go to this one until everything is read again."""
    async with street(2) as town:
        a, b = town.members
        async with b.attached():
            await a.cluster.settled()
            assert len(a.engine.presence.offering("shell", "default")) == 1
            await orphaned(town, b, LaneName("default", "s-1"))
            await a.cluster.take_over()
            await a.cluster.settled()
            assert a.engine.presence.offering("shell", "default") == []


async def test_a_lease_that_is_not_renewed_is_logged_once_and_its_return_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "RENEW_EVERY_MS", 0)
    monkeypatch.setattr(renewal, "RETRY_S", 0.0)
    async with street(1) as town:
        (a,) = town.members
        back = asyncio.Event()

        class Returning(Slow):
            failures = 0

            def __getattr__(self, name: str) -> Any:
                async def renew(*values: Any) -> Any:
                    self.failures += 1
                    if self.failures <= 20:
                        raise LedgerError("PostgreSQL does not answer.")
                    back.set()
                    return await getattr(self.leases, name)(*values)

                return renew

        monkeypatch.setattr(a.cluster.renewal, "_leases", Returning(town.leases, ""))
        with capture_logs() as lines:
            renewing = asyncio.create_task(a.cluster.renewal.run())
            await back.wait()
            while not any(line["event"] == "lease_renewed_again" for line in lines):
                await asyncio.sleep(0)
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        assert [(line["event"], line.get("reason"), line.get("failures")) for line in lines] == [
            ("lease_not_renewed", "PostgreSQL does not answer.", None), ("lease_renewed_again", None, 20)]


async def test_a_gateway_that_is_behind_claims_nothing_and_passes_on_unread_lanes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with street(3) as town:
        a, b, c = town.members
        monkeypatch.setattr(due_sessions, "READ_AT_ONCE", 0)
        member, idle = LaneName("default", tenant_lane_id("default")), LaneName("default", "s-idle")
        await orphaned(town, c, member, idle)
        await a.cluster.take_over_all()
        assert await town.leases.owner(member) == a.cluster.instance_id, "its clock has to go on"
        assert await town.leases.owner(idle) is None, "without a clock it waits for somebody who asks"
        assert a.engine.lanes.due.unread() == 1
        assert figure(a, "lanes_taken_over_total") == 2
        fall_behind(a)
        await a.cluster.take_over()
        assert a.engine.lanes.due.unread() == 0
        assert figure(a, "lanes_passed_on_total") == 1
        assert await town.leases.orphans(10) == [member]
        await a.cluster.take_over()
        assert await town.leases.orphans(10) == [member], "it is behind still"
        monkeypatch.undo()
        await b.cluster.take_over()
        await b.engine.lanes.due.settled()
        assert b.engine.lanes.peek(member.name) is not None
        for one in (a, b):
            await one.cluster.settled()


async def test_a_gateway_that_is_behind_still_reads_what_it_did_not_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that broke has its clock in this gateway alone: to put it off would end the clock."""
    async with street(2) as town:
        a, b = town.members
        monkeypatch.setattr(due_sessions, "READ_AT_ONCE", 0)
        member, broken = LaneName("default", tenant_lane_id("default")), LaneName("default", "s-broken")
        await orphaned(town, b, member)
        await a.cluster.take_over()
        a.engine.lanes.due.read_soon([broken])
        fall_behind(a)
        await a.cluster.take_over()
        assert await town.leases.orphans(10) == [member]
        assert a.engine.lanes.due.unread() == 1
        assert a.engine.lanes.due.put_off([broken]) == [broken]
        await a.cluster.settled()


@pytest.mark.parametrize("is_done", [False, True])
async def test_lanes_that_cannot_be_handed_over_are_read(monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    async with street(2) as town:
        a, b = town.members
        monkeypatch.setattr(due_sessions, "READ_AT_ONCE", 0)
        member = LaneName("default", tenant_lane_id("default"))
        await orphaned(town, b, member)
        await a.cluster.take_over()
        a.cluster.takeover._leases = Away(town.leases, "pass_on", is_done=is_done)  # type: ignore[assignment]
        fall_behind(a)
        with pytest.raises(LedgerError, match="PostgreSQL is away"):
            await a.cluster.take_over()
        monkeypatch.undo()
        a.engine.lanes.due.read_soon([])
        await a.engine.lanes.due.settled()
        shell = a.engine.lanes.peek(member.name)
        assert shell is not None
        assert town.ledger.lanes[member] == shell.epoch
        assert figure(a, "lanes_passed_on_total") == 0
        await a.cluster.settled()


@pytest.mark.parametrize("error", [LedgerError, RuntimeError])
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_lane_that_cannot_be_passed_on_or_released_is_retried_at_the_next_beat(
        is_done: bool, error: type[Exception]) -> None:
    async with street(2) as town:
        a, _ = town.members
        passed, given = LaneName("default", "s-passed"), LaneName("default", "s-given")
        for lane in (passed, given):
            await town.leases.take(lane, a.cluster.instance_id)
        a.cluster.pass_on(passed, 1)
        a.cluster.give_back(given, 1)
        leases = town.leases
        for name in ("pass_on", "release"):
            a.cluster._leases = Away(leases, name, is_done=is_done, error=error)  # type: ignore[assignment]
            with pytest.raises(error, match="PostgreSQL is away"):
                await a.cluster.beat()
        a.cluster._leases = leases
        await a.cluster.beat()
        assert await town.leases.orphans(10) == [passed]
        assert [await town.leases.owner(lane) for lane in (passed, given)] == [None, None]
        await a.cluster.settled()


async def test_lanes_that_a_dead_gateway_could_not_pass_on_are_found_without_it() -> None:
    async with street(2) as town:
        a, _ = town.members
        lane = LaneName("default", "s-passed")
        await town.leases.take(lane, a.cluster.instance_id)
        a.cluster.pass_on(lane, 1)
        leases, slow = town.leases, Slow(Away(town.leases, "pass_on"), "pass_on")
        a.cluster._leases = slow  # type: ignore[assignment]
        beating = asyncio.create_task(a.cluster.beat())
        await slow.asked.wait()
        a.cluster._leases = leases
        town.clock.advance(INSTANCE_LIFE_MS)
        await a.cluster.renewal.once()
        slow.go_on.set()
        with pytest.raises(LedgerError, match="PostgreSQL is away"):
            await beating
        assert a.cluster._passed_on == []
        assert await town.leases.orphans(10) == [lane]
        await a.cluster.settled()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_timer_started_just_before_its_lane_is_claimed_continues(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A live owner that does not know that it counts as dead accepts commands until its lanes are claimed."""
    async with street(2) as town:
        a, b = town.members
        member, idle = LaneName("default", tenant_lane_id("default")), LaneName("default", "s-idle")
        await orphaned(town, b, member, idle)
        holder = a.cluster._holder
        assert holder is not None
        clocked, looks = holder.clocked, list[int]()

        async def look(lanes: Sequence[LaneName]) -> list[Clocked]:
            looks.append(len(lanes))
            if len(looks) == 2 and fails:
                raise LedgerError("PostgreSQL is away.")
            return [] if len(looks) == 1 else await clocked(lanes)

        monkeypatch.setattr(holder, "clocked", look)
        if fails:
            with pytest.raises(LedgerError, match="PostgreSQL is away"):
                await a.cluster.take_over()
        else:
            await a.cluster.take_over()
            assert await town.leases.owner(idle) is None
        await a.engine.lanes.due.settled()
        assert looks == [2, 2]
        assert a.engine.lanes.peek(member.name) is not None
        await a.cluster.settled()


async def test_a_claim_whose_reply_is_lost_leaves_no_timer_behind() -> None:
    async with street(2) as town:
        a, b = town.members
        member = LaneName("default", tenant_lane_id("default"))
        await orphaned(town, b, member)

        class Lost(Slow):
            def __getattr__(self, name: str) -> Any:
                async def call(*values: Any) -> Any:
                    answer = await getattr(self.leases, name)(*values)
                    if name == "claim":
                        raise LedgerError("the link broke")
                    return answer

                return call

        a.cluster.takeover._leases = Lost(town.leases, "")  # type: ignore[assignment]
        with pytest.raises(LedgerError, match="the link broke"):
            await a.cluster.take_over()
        await a.engine.lanes.due.settled()
        shell = a.engine.lanes.peek(member.name)
        assert shell is not None
        assert town.ledger.lanes[member] == shell.epoch, "it is read under an epoch of its own"
        await a.cluster.settled()


async def test_a_session_whose_runner_moved_is_passed_on_to_the_runners_gateway() -> None:
    """Found by the simulation: its queue's clock stopped, since no one asked for it where the runner was."""
    async with street(2) as town:
        a, b = town.members
        async with b.attached():
            await a.cluster.settled()
            session_id = (await a.execute()).body["target"]["session_id"]
        shell = b.engine.lanes.peek(session_id)
        assert shell is not None
        await b.engine.lanes.let_go([shell])
        assert await town.leases.orphans(10) == []
        await b.cluster.beat()
        assert await town.leases.orphans(10) == [LaneName("default", session_id)]
        await a.cluster.take_over()
        await a.engine.lanes.due.settled()
        assert a.engine.lanes.peek(session_id) is not None, "its command waits in the queue, and its clock goes on"
        for member in (a, b):
            await member.cluster.settled()
