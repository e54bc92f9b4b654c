"""The shell of a lane: decided, committed, then published; failed inputs are never published (D-1, F-1)."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from engine.conversation import Table
from engine.within import Within
from interlock.backends.memory.ledger import MemoryLedger
from interlock.command.policy.budget import BudgetRule
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.lanes.inbox import Job
from interlock.ports.ledger import Full, LaneName, LedgerError, OutcomeUnknown, Receipt, WriteBatch
from interlock.ports.trips import counting, one_trip
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import SpendingRecord
from interlock.protocol.resources import Notice, Target

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
        with one_trip():
            return await super().commit(batch)


class Doubtful(MemoryLedger):
    """A ledger whose next commit loses its reply, and becomes durable only when its lane is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.loses_reply = False
        self.in_doubt: WriteBatch | None = None

    async def commit(self, batch: WriteBatch) -> Receipt:
        if self.loses_reply:
            self.loses_reply, self.in_doubt = False, batch
            raise OutcomeUnknown("The reply was lost.")
        return await super().commit(batch)

    async def take(self, lane: LaneName) -> int:
        if self.in_doubt is not None:
            batch, self.in_doubt = self.in_doubt, None
            await super().commit(batch)
        return await super().take(lane)


class Cancelling(MemoryLedger):
    """A ledger whose next commit is cancelled from inside."""

    def __init__(self) -> None:
        super().__init__()
        self.cancels = False

    async def commit(self, batch: WriteBatch) -> Receipt:
        if self.cancels:
            self.cancels = False
            raise asyncio.CancelledError
        return await super().commit(batch)


class Place(Table):
    """The engine's table over such a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.disk = Disk()
        self.begin()


def warn(text: str) -> p.AgentError:
    return p.AgentError(severity="warning", error_code="X", message=text)


@pytest.mark.req("D-1", "C-4", "F-1")
async def test_a_failed_commit_is_503_and_makes_the_runner_send_again() -> None:
    table = Place()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    before, acked = await table.ledger.events("default", f"s/{session_id}", 0, 100), table.wire.acks[session_id]
    shell = await table.lane(session_id)
    table.disk.full = True
    with pytest.raises(Problem) as caught:
        await table.send(session_id, "agent.error", warn("lost?"))
    assert (caught.value.code, caught.value.kind.status, caught.value.headers) == ("Unavailable", 503,
                                                                                  {"Retry-After": "1"})
    assert "no space left on the disk" in caught.value.detail
    assert table.wire.failed is not None
    assert "no space left" in table.wire.failed
    assert table.wire.acks[session_id] == acked, "nothing is acknowledged that is not durable"
    assert await table.ledger.events("default", f"s/{session_id}", 0, 100) == before
    table.disk.full = False
    fresh = await table.lane(session_id)
    assert fresh is not shell
    assert fresh.lane.state.last_seq == 1
    table.seqs[session_id] = 1
    await table.send(session_id, "agent.error", warn("once"))
    assert table.wire.acks[session_id] == 2
    assert (await table.ledger.events("default", f"s/{session_id}", 0, 100))[-1].body.count(b"once") == 1


@pytest.mark.req("C-4", "D-1")
async def test_every_request_waiting_in_a_broken_lane_gets_an_error() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    table.disk.full = True
    table.disk.spinning.clear()
    waiting = [asyncio.create_task(table.execute(target=Target(session_id=session_id))) for _ in range(3)]
    table.disk.spinning.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [answer.code for answer in answers if isinstance(answer, Problem)] == ["Unavailable"] * 3
    assert shell.broken
    table.disk.full = False
    assert (await table.execute(target=Target(session_id=session_id))).state == "queued"


@pytest.mark.req("C-4", "D-5")
async def test_a_lane_taken_by_another_owner_publishes_nothing_and_is_read_again() -> None:
    table = Table()
    session_id = (await table.execute()).target.session_id
    sent = len(table.wire.sent)
    await table.ledger.take(LaneName("default", session_id))
    with pytest.raises(Problem, match="another owner took it"):
        await table.execute(target=Target(session_id=session_id))
    assert len(table.wire.sent) == sent
    await table.execute(target=Target(session_id=session_id))


@pytest.mark.req("C-4", "D-1")
async def test_a_commit_in_doubt_until_the_takeover_is_in_the_reread_lane() -> None:
    table = Table()
    table.ledger = ledger = Doubtful()
    table.begin()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    ledger.loses_reply = True
    with pytest.raises(Problem) as caught:
        await table.send(session_id, "agent.error", warn("in doubt"))
    assert "The reply was lost." in caught.value.detail
    shell = await table.lane(session_id)
    assert shell.lane.state.last_seq == 2, "the session is read after the lane is taken, also without other gateways"
    assert shell.delivered == shell.lane.state.n == (await ledger.events("default", f"s/{session_id}", 0, 100))[-1].n
    table.seqs[session_id] = 2
    await table.send(session_id, "agent.error", warn("after it"))
    assert shell.lane.state.last_seq == 3


@pytest.mark.req("C-4", "D-1")
async def test_pots_in_doubt_are_read_again_until_that_succeeds() -> None:
    class Away(Doubtful):
        is_away = False
        reads = 0

        async def spending(self, day: int) -> list[SpendingRecord]:
            if self.is_away:
                raise LedgerError("PostgreSQL is away.")
            self.reads += 1
            return await super().spending(day)

    table = Table()
    table.ledger = ledger = Away()
    table.limits = Limits(budgets=(BudgetRule(name="day", usd_per_day="1"),))
    table.begin()
    session_id = (await table.execute()).target.session_id
    await table.opened(session_id)
    ledger.loses_reply = True
    with pytest.raises(Problem):
        await table.send(session_id, "agent.error", warn("in doubt"))
    ledger.is_away = True
    with pytest.raises(LedgerError, match="PostgreSQL is away"):
        await table.lane(session_id)
    ledger.is_away = False
    before = ledger.reads
    await table.lane(session_id)
    assert ledger.reads == before + 1


@pytest.mark.req("C-4")
async def test_a_decision_that_fails_in_mid_write_leaves_nothing_behind() -> None:
    table = Table()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    before = await table.ledger.head("default", f"s/{session_id}")

    def half(lane: Lane) -> None:
        lane.append("notice", b"{}")
        raise ValueError("in the middle")

    with pytest.raises(Problem, match="The lane failed: in the middle"):
        await shell.call(Within(half))
    assert await table.ledger.head("default", f"s/{session_id}") == before
    assert (await table.lane(session_id)).lane.state.n == before


@pytest.mark.req("C-4")
async def test_a_refusal_before_a_write_does_not_affect_others_in_its_group() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)

    def refuse(_lane: Lane) -> None:
        raise Problem("Conflict", "no")

    commits = table.disk.commits
    answers = await asyncio.gather(shell.call(Within(refuse)), table.execute(target=Target(session_id=session_id)),
                                   shell.call(Within(refuse)), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["Problem", "Command", "Problem"]
    assert not shell.broken
    assert table.disk.commits == commits + 1, "what waits together is one transaction"


@pytest.mark.req("D-1", "S-1")
async def test_nothing_is_published_before_it_is_durable() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    await table.opened(session_id)
    sent, acked = len(table.wire.sent), table.wire.acks[session_id]
    shell = await table.lane(session_id)
    table.disk.spinning.clear()
    decided = asyncio.Event()

    def decide(lane: Lane) -> None:
        lane.state.last_seq += 1
        lane.control("control.turn.pause", p.TurnPause())
        decided.set()

    pausing = asyncio.create_task(shell.call(Within(decide)))
    await decided.wait()
    assert (len(table.wire.sent), table.wire.acks[session_id], pausing.done()) == (sent, acked, False)
    table.disk.spinning.set()
    await pausing
    assert (len(table.wire.sent), table.wire.acks[session_id]) == (sent + 1, acked + 1)


async def test_a_waiting_lane_holds_no_effects_of_its_last_decision() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    await table.execute(target=Target(session_id=session_id))
    assert not any(shell.lane.out)


@pytest.mark.req("C-4")
async def test_a_stopping_gateway_answers_waiting_requests() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    table.disk.spinning.clear()
    waiting = asyncio.create_task(table.execute(target=Target(session_id=session_id)))
    shell = await table.lane(session_id)
    entered = asyncio.Event()
    shell.push(Job(Within(lambda _lane: entered.set())))
    await entered.wait()
    await table.engine.stop()
    with pytest.raises(Problem, match="The gateway is stopping"):
        await waiting


@pytest.mark.req("C-4")
async def test_inputs_behind_a_decision_are_refused_when_the_gateway_stops() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    entered = asyncio.Event()
    table.disk.spinning.clear()
    deciding = asyncio.create_task(table.execute(target=Target(session_id=session_id)))
    shell.push(Job(Within(lambda _lane: entered.set())))
    await entered.wait()
    behind = asyncio.create_task(shell.call(Within(lambda lane: lane.state.session_id)))
    await asyncio.sleep(0)
    await table.engine.stop()
    async with asyncio.timeout(5):
        for waiting in (deciding, behind):
            with pytest.raises(Problem, match="The gateway is stopping"):
                await waiting
        with pytest.raises(Problem, match="The session's lane has ended"):
            await shell.call(Within(lambda lane: lane.state.session_id))


@pytest.mark.req("C-4", "D-1")
async def test_a_lane_with_a_cancelled_write_is_reread_and_leaves_no_request_waiting() -> None:
    table = Table()
    table.ledger = ledger = Cancelling()
    table.begin()
    session_id = (await table.execute()).target.session_id
    shell = await table.lane(session_id)
    ledger.cancels = True
    execute = partial(table.execute, target=Target(session_id=session_id))
    async with asyncio.timeout(5):
        answers = await asyncio.gather(execute(), execute(), return_exceptions=True)
        assert [answer.code for answer in answers if isinstance(answer, Problem)] == ["Unavailable"] * 2
        assert shell.broken
        assert (await execute()).state == "queued"
    assert await table.lane(session_id) is not shell


@pytest.mark.req("C-4")
async def test_a_call_on_a_forgotten_lane_is_answered_by_its_replacement() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", type="execute")]))
    command = await table.execute()
    session_id = command.target.session_id
    held = await table.lane(session_id)
    await table.cancel(command.id)  # It never opened its agent, so nothing lives here any more.
    async with asyncio.timeout(5):
        await held._task  # The shell has ended by itself; a caller that was suspended still holds it.
        assert held.over
        assert await held.call(Within(lambda lane: lane.state.session_id)) == session_id
        await held.attach(table.wire, StartLooked())


@pytest.mark.req("C-4")
async def test_a_broken_lane_forwards_later_inputs() -> None:
    table = Place()
    session_id = (await table.execute()).target.session_id
    held = await table.lane(session_id)
    table.disk.full = True
    with pytest.raises(Problem):
        await held.call(Within(lambda lane: lane.append("notice", b"{}")))
    table.disk.full = False
    async with asyncio.timeout(5):
        assert await held.call(Within(lambda lane: lane.state.session_id)) == session_id


async def test_each_request_counts_the_round_trips_of_its_own_decision() -> None:
    place = Place()
    session_id = (await place.execute()).target.session_id
    shell = await place.lane(session_id)
    for _ in range(3):
        with counting() as waited:
            await shell.call(Within(lambda lane: lane.notice(Notice(code="Draining", message="wait"))))
        assert (waited.in_a_row, waited.statements) == (1, 1)
    await place.engine.stop()
