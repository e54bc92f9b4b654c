"""Sessions that a takeover has claimed are read once under that epoch, and no claim that fails leaves a session
unread."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from typing import Any, cast

import pytest

from gateway.raw_runner import PATIENCE_S
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.leases import MemoryLeases
from interlock.engine.cluster import takeover
from interlock.engine.cluster.takeover import Clocked, Takeover
from interlock.ports.leases import Gone, Instance, Leases
from interlock.ports.ledger import LaneName, LedgerError

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
LANE = LaneName("t1", "s-1")


class Reader:
    """Reads nothing, and records the sessions it was asked to read."""

    def __init__(self) -> None:
        self.given: list[LaneName] = []

    async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
        return [Clocked(lane, 0.0) for lane in lanes]

    def take_up(self, one: Clocked) -> None:
        self.given.append(one.lane)

    def unread(self) -> int:
        return len(self.given)

    async def fewer_unread(self, limit: int, within_s: float) -> None:
        """Its queue does not become shorter."""

    async def let_go_older(self, epochs: Mapping[LaneName, int]) -> None:
        """It has none in memory."""

    def put_off(self, lanes: Container[LaneName]) -> list[LaneName]:
        put_off = [one for one in self.given if one in lanes]
        self.given = [one for one in self.given if one not in put_off]
        return put_off


class Failing:
    """Leases of which one operation is done, and its reply lost for a reason that no one foresaw."""

    def __init__(self, leases: MemoryLeases, name: str, error: Exception) -> None:
        self._leases = leases
        self._name = name
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any) -> Any:
            answer = await getattr(self._leases, name)(*values)
            if name == self._name:
                raise self._error
            return answer

        return call


async def orphan(*lanes: LaneName) -> MemoryLeases:
    """Leases with lanes whose owner is gone, and an instance that may claim them."""
    leases = MemoryLeases({}, ManualClock(0))
    await leases.join(Instance("i_heir", ""))
    await leases.join(Instance("i_dead", ""))
    for lane in lanes or (LANE,):
        await leases.take(lane, "i_dead")
    await leases.leave("i_dead")
    return leases


async def claimed() -> Takeover:
    """A takeover that has claimed the lane."""
    leases = await orphan()
    taking = Takeover(leases, lambda: "i_heir", lambda: False)
    await taking.run(Reader(), await leases.orphans(9))
    return taking


async def test_a_claims_epoch_is_used_once() -> None:
    taking = await claimed()
    assert taking.epoch_of(LANE) == 2
    assert taking.epoch_of(LANE) is None, "who reads the lane again takes it again"


async def test_a_lane_whose_clock_began_just_before_its_claim_is_kept_and_one_without_is_released() -> None:
    """Released, it would be no orphan if this gateway dies too: its clock would end."""
    late, idle = LANE, LaneName("t1", "s-2")
    leases = await orphan(late, idle)

    class LateClock(Reader):
        looks = 0

        async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
            self.looks += 1
            return [Clocked(late, 0.0)] if self.looks > 1 else []

    reader, taking = LateClock(), Takeover(leases, lambda: "i_heir", lambda: False)
    await taking.run(reader, await leases.orphans(9))
    assert reader.given == [late]
    assert taking.epoch_of(late) == 2
    assert [await leases.owner(lane) for lane in (late, idle)] == ["i_heir", None]


async def test_a_stale_claim_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_FRESH_S", 0.0)
    assert (await claimed()).epoch_of(LANE) is None


async def test_a_gateway_declared_dead_has_claimed_nothing() -> None:
    taking = await claimed()
    taking.forget()
    assert taking.epoch_of(LANE) is None


@pytest.mark.parametrize("error", [LedgerError("It is away."), TimeoutError(), ValueError("It was not foreseen.")])
@pytest.mark.parametrize("operation", ["claim", "pass_on"])
async def test_a_claimed_session_is_read_despite_any_failure(operation: str, error: Exception) -> None:
    leases, reader = await orphan(), Reader()
    is_behind = False
    failing: Any = Failing(leases, operation, error)
    taking = Takeover(failing, lambda: "i_heir", lambda: is_behind)
    if operation == "pass_on":
        await taking.run(reader, await leases.orphans(9))
        is_behind = True
    with pytest.raises(type(error)):
        await taking.run(reader, await leases.orphans(9))
    assert reader.given == [LANE]


async def test_a_gateway_that_falls_behind_over_a_claim_makes_no_further_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    leases, reader = await orphan(LANE, LaneName("t1", "s-2")), Reader()
    taking = Takeover(leases, lambda: "i_heir", lambda: bool(reader.given))
    assert not await taking.run(reader, await leases.orphans(9))
    assert len(reader.given) == 1
    assert len(await leases.orphans(9)) == 1


async def test_a_full_read_queue_claims_nothing_more_and_checks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    monkeypatch.setattr(takeover, "UNREAD_LIMIT", 1)
    leases, reader = await orphan(LANE, LaneName("t1", "s-2")), Reader()
    taking = Takeover(leases, lambda: "i_heir", lambda: False)
    assert await taking.run(reader, await leases.orphans(9))
    assert len(reader.given) == 1
    assert len(await leases.orphans(9)) == 1


async def test_claims_are_followed_by_another_look_and_nothing_found_by_none() -> None:
    leases = await orphan()
    taking = Takeover(leases, lambda: "i_heir", lambda: False)
    assert await taking.run(Reader(), await leases.orphans(9)), "others may have left some of their shares"
    assert not await taking.run(Reader(), await leases.orphans(9))


async def test_each_survivor_claims_its_own_share_first() -> None:
    lanes = [LaneName("t1", f"s-{at}") for at in range(64)]
    leases = await orphan(*lanes)
    await leases.join(Instance("i_other", ""))
    found, live = await leases.orphans(99), {"i_heir", "i_other"}
    readers = {name: Reader() for name in live}
    for name, reader in readers.items():
        assert await Takeover(leases, lambda name=name: name, lambda: False).run(reader, found, live)
    mine, theirs = (set(one.given) for one in readers.values())
    assert not mine & theirs
    assert sorted(mine | theirs) == sorted(lanes)
    assert min(len(mine), len(theirs)) > len(lanes) // 4


async def test_a_survivor_claims_the_rest_once_it_finds_nothing_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one may be slow, or not ready to take anything over."""
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 8)
    lanes = [LaneName("t1", f"s-{at}") for at in range(64)]
    leases = await orphan(*lanes)
    await leases.join(Instance("i_idle", ""))
    reader, taking = Reader(), Takeover(leases, lambda: "i_heir", lambda: False)
    left = list[int]()
    while await taking.run(reader, await leases.orphans(99), {"i_heir", "i_idle"}):
        left.append(len(await leases.orphans(99)))
    assert left[:2] == [left[0], left[0] - 8], "one claim of the rest for each look"
    assert 16 < left[0] < 48, "first its share"
    assert left[-1] == 0
    assert sorted(reader.given) == sorted(lanes)


async def test_the_clocks_of_the_next_lanes_are_read_during_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    leases, both_read = await orphan(LANE, LaneName("t1", "s-2")), asyncio.Event()

    class Looking(Reader):
        looks = 0

        async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
            self.looks += 1
            if self.looks == 2:
                both_read.set()
            return await super().clocked(lanes)

    class Waiting:
        def __getattr__(self, name: str) -> Any:
            return getattr(leases, name)

        async def claim(self, lanes: Any, instance_id: str) -> dict[LaneName, int]:
            await both_read.wait()
            return await leases.claim(lanes, instance_id)

    reader, waiting = Looking(), cast("Leases", Waiting())
    async with asyncio.timeout(PATIENCE_S):
        await Takeover(waiting, lambda: "i_heir", lambda: False).run(reader, await leases.orphans(9))
    assert len(reader.given) == 2


async def test_lanes_without_a_clock_are_released_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    leases, released = await orphan(LANE, LaneName("t1", "s-2")), list[int]()

    class Idle(Reader):
        async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
            return []

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(leases, name)

        async def release(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
            released.append(len(lanes))
            await leases.release(lanes, instance_id)

    await Takeover(cast("Leases", Noting()), lambda: "i_heir", lambda: False).run(Idle(), await leases.orphans(9))
    assert released == [2]
    assert await leases.orphans(9) == []


async def test_lanes_without_a_clock_are_released_if_a_later_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gateway would find them: they are not orphans, and their owner does not read them."""
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    idle, other = LANE, LaneName("t1", "s-2")
    leases = await orphan(idle, other)

    class Idle(Reader):
        async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
            return []

    class Breaking:
        def __getattr__(self, name: str) -> Any:
            return getattr(leases, name)

        async def claim(self, lanes: Sequence[tuple[LaneName, str | None]], instance_id: str) -> dict[LaneName, int]:
            if lanes == [(other, None)]:
                raise LedgerError("It is away.")
            return await leases.claim(lanes, instance_id)

    with pytest.raises(LedgerError, match="away"):
        await Takeover(cast("Leases", Breaking()), lambda: "i_heir", lambda: False).run(Idle(), [idle, other])
    assert await leases.owned([idle], "i_heir") == {}


async def test_a_claim_follows_as_soon_as_there_is_room_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "CLAIM_LIMIT", 1)
    monkeypatch.setattr(takeover, "UNREAD_LIMIT", 1)
    leases, waits = await orphan(LANE, LaneName("t1", "s-2")), list[tuple[int, float]]()

    class Quick(Reader):
        async def fewer_unread(self, limit: int, within_s: float) -> None:
            waits.append((limit, within_s))
            self.given.clear()

    reader, taking = Quick(), Takeover(leases, lambda: "i_heir", lambda: False)
    assert await taking.run(reader, await leases.orphans(9))
    assert waits == [(1, takeover.LOOK_AGAIN_S)] * 2
    assert await leases.orphans(9) == []


@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_full_page_of_which_nothing_is_claimed_is_looked_at_again_after_a_pause(
        monkeypatch: pytest.MonkeyPatch, *, is_taken: bool) -> None:
    monkeypatch.setattr(takeover, "ORPHANS_SEEN", 1)
    monkeypatch.setattr(takeover, "LOOK_AGAIN_S", 3_600.0)
    leases = await orphan()
    found = await leases.orphans(9)
    if is_taken:
        await leases.join(Instance("i_quicker", ""))
        await leases.take(LANE, "i_quicker")
    running = asyncio.create_task(Takeover(leases, lambda: "i_heir", lambda: False).run(Reader(), found))
    for _ in range(20):
        await asyncio.sleep(0)
    assert running.done() is not is_taken
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_gateway_declared_dead_during_its_claim_reads_nothing() -> None:
    leases, reader = await orphan(), Reader()
    found = await leases.orphans(9)
    await leases.leave("i_heir")
    taking = Takeover(leases, lambda: "i_heir", lambda: False)
    with pytest.raises(Gone):
        await taking.run(reader, found)
    assert reader.given == []


async def test_sessions_claimed_under_a_former_id_are_not_read() -> None:
    leases, reader, names = await orphan(), Reader(), ["i_heir"]

    class Renamed(Failing):
        def __getattr__(self, name: str) -> Any:
            async def call(*values: Any) -> Any:
                answer = await getattr(leases, name)(*values)
                names[:] = ["i_again"]
                return answer

            return call

    renamed: Any = Renamed(leases, "", ValueError())
    taking = Takeover(renamed, lambda: names[0], lambda: False)
    await taking.run(reader, await leases.orphans(9))
    assert reader.given == []
    assert taking.epoch_of(LANE) is None


async def test_sessions_claimed_first_by_another_gateway_are_not_read() -> None:
    leases, reader = await orphan(), Reader()
    found = await leases.orphans(9)
    await leases.join(Instance("i_quicker", ""))
    await leases.take(LANE, "i_quicker")
    taking = Takeover(leases, lambda: "i_heir", lambda: False)
    await taking.run(reader, found)
    assert reader.given == []
    assert taking.epoch_of(LANE) is None
