"""Cron jobs: started once when they are due, over restarts and set clocks; missed times are reported (R-4)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from engine.test_chats import OPEN, Room
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge import entries
from interlock.engine.cron import GRACE_MS, CronJob, Crons
from interlock.engine.presence import Present
from interlock.ports.ledger import LedgerError
from interlock.protocol.inbound import CronJobShown

pytestmark = pytest.mark.anyio
BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, HOUR = 60_000, 3_600_000


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


def job(schedule: str = "0 9 * * *", **more: Any) -> CronJob:
    return CronJob("report", "default", "shell", "agent:shell:cron:report", "write the report", schedule, BERLIN,
                   "Europe/Berlin", **more)


class Hall(Room):
    """A room with a clock on the wall that rings for jobs."""

    def __init__(self, now: str, *jobs: CronJob, policy: RuleSet = OPEN) -> None:
        super().__init__(policy)
        self.clock.at_ms = at(now)
        self.jobs = jobs
        self.restart()

    def restart(self) -> None:
        """A gateway starts, with what the ledger has."""
        self.crons = Crons(self.ledger, self.engine.chats, self.clock)
        self.crons.configure(self.jobs)

    async def until(self, now: str) -> None:
        self.clock.at_ms = at(now)
        await self.crons.look()

    async def told(self) -> list[str]:
        """What agents were told by jobs, in order."""
        return [record.command.created_at for record in sorted(
            self.ledger._commands.values(), key=lambda one: one.created_ms) if record.origin == "cron"]

    async def shown(self) -> CronJobShown:
        return (await self.crons.listing("default"))[0]


@pytest.mark.req("R-4", "I-2")
async def test_a_job_is_told_once_each_time_and_moves_no_clock() -> None:
    hall = Hall("2026-06-01T08:00", job())
    await hall.crons.look()
    assert (await hall.shown()).next_at == "2026-06-01T07:00:00.000Z"
    assert await hall.told() == []
    await hall.until("2026-06-01T09:00")
    await hall.crons.look()
    await hall.until("2026-06-01T23:00")
    assert await hall.told() == ["2026-06-01T07:00:00.000Z"]
    shown = await hall.shown()
    assert (shown.last_at, shown.next_at, shown.missed) == ("2026-06-01T07:00:00.000Z", "2026-06-02T07:00:00.000Z", 0)
    record = await hall.ledger.session_by_key("default", "agent:shell:cron:report")
    assert record is not None
    assert record.session_id == shown.session_id
    assert entries.clocks_of(await hall.row(record.session_id)).interacted_ms == at("2026-06-01T09:00")
    clocks = entries.clocks_of(await hall.row(record.session_id))
    await hall.until("2026-06-02T09:00")
    assert len(await hall.told()) == 2
    assert entries.clocks_of(await hall.row(record.session_id)) == clocks


@pytest.mark.req("R-4", "P-1")
async def test_policy_holds_what_a_job_says_unless_a_rule_lets_it_through() -> None:
    hall = Hall("2026-06-01T08:00", job(), policy=RuleSet([]))
    await hall.crons.look()
    await hall.until("2026-06-01T09:00")
    assert await hall.state((await hall.shown()).command_id) == "pending_approval"
    denied = Hall("2026-06-01T08:00", job(), policy=RuleSet([Rule(name="never", effect="deny", origin="cron")]))
    await denied.crons.look()
    await denied.until("2026-06-01T09:00")
    await denied.until("2026-06-01T09:01")
    shown = await denied.shown()
    assert await denied.told() == []
    assert "never denies it" in (shown.error or "")
    assert len(await denied.audits("reject")) == 1
    assert shown.next_at == "2026-06-02T07:00:00.000Z"


@pytest.mark.req("R-4")
async def test_over_a_restart_a_job_is_told_once_and_not_again() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    # Killed before, started again just after: late, and told.
    hall.restart()
    await hall.until("2026-06-01T09:04")
    assert len(await hall.told()) == 1
    hall.restart()
    await hall.until("2026-06-01T09:05")
    # The wall is set back behind it: it is not told again.
    await hall.until("2026-06-01T08:30")
    await hall.until("2026-06-01T09:00")
    assert len(await hall.told()) == 1


@pytest.mark.req("R-4")
async def test_killed_at_the_commit_a_job_is_told_once_all_the_same() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    real = hall.ledger.commit

    async def killed(batch: Any) -> Any:
        if any(type(write).__name__ == "PutCommand" for write in batch.writes) and not hall.kept:
            hall.kept = 1
            raise LedgerError("killed before it was durable")
        return await real(batch)

    hall.ledger.commit = killed
    await hall.until("2026-06-01T09:00")
    assert await hall.told() == []
    hall.restart()
    await hall.until("2026-06-01T09:01")
    hall.restart()
    await hall.until("2026-06-01T09:02")
    assert len(await hall.told()) == 1


@pytest.mark.req("R-4")
async def test_two_gateways_on_one_ledger_tell_a_job_once() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    other = Crons(hall.ledger, hall.engine.chats, hall.clock)
    other.configure(hall.jobs)
    hall.clock.at_ms = at("2026-06-01T09:00")
    # Both have read that it is due before either has told it.
    stale = await other._read(hall.jobs[0])
    await hall.crons.look()
    assert stale is not None
    await other._run_due(("default", "report"), hall.jobs[0], stale, at("2026-06-01T09:00"))
    assert len(await hall.told()) == 1


@pytest.mark.req("R-4")
async def test_what_was_missed_is_said_and_not_made_up_for() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    hall.restart()
    await hall.until("2026-06-04T12:00")
    assert await hall.told() == []
    shown = await hall.shown()
    assert (shown.missed, shown.error, shown.next_at) == (4, "no gateway ran", "2026-06-05T07:00:00.000Z")
    said = await hall.audits("cron_missed")
    assert [(one["meta"]["job"], one["meta"]["count"], one["who"]["id"]) for one in said] == [("report", 4, "gateway")]
    await hall.until("2026-06-04T12:01")
    assert len(await hall.audits("cron_missed")) == 1
    # The newest of several that is late by little only is told, the others are missed.
    hall.restart()
    await hall.until("2026-06-06T09:05")
    assert len(await hall.told()) == 1
    assert (await hall.shown()).missed == 5


@pytest.mark.req("R-4")
async def test_a_job_waits_a_while_for_a_runner_and_is_missed_then() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    hall.engine.presence.detach("local", hall.wire, 0)
    await hall.until("2026-06-01T09:00")
    assert "no runner" in ((await hall.shown()).error or "")
    hall.engine.presence.arrive(Present(hall.record, hall.hello, 0)).connect(hall.wire)
    await hall.until("2026-06-01T09:03")
    assert len(await hall.told()) == 1
    assert (await hall.shown()).error is None

    alone = Hall("2026-06-01T08:59", job())
    await alone.crons.look()
    alone.engine.presence.detach("local", alone.wire, 0)
    await alone.until("2026-06-01T09:00")
    alone.clock.advance(GRACE_MS)
    await alone.crons.look()
    shown = await alone.shown()
    assert (shown.missed, await alone.told()) == (1, [])
    assert "no runner" in (shown.error or "")


@pytest.mark.req("R-4")
async def test_over_a_day_on_which_clocks_are_set_a_job_is_told_once() -> None:
    for schedule, days in (("30 2 * * *", ["2026-03-28", "2026-03-29", "2026-03-30"]),
                           ("30 2 * * *", ["2026-10-24", "2026-10-25", "2026-10-26"])):
        hall = Hall(f"{days[0]}T00:00", job(schedule))
        for _ in range(3 * 24 * 6 + 6):
            await hall.crons.look()
            if hall.clock.at_ms % HOUR == 0:
                hall.restart()
            hall.clock.advance(10 * MINUTE)
        local = [datetime.fromisoformat(one).astimezone(BERLIN).date().isoformat() for one in await hall.told()]
        assert local == days
        assert (await hall.shown()).missed == 0


@pytest.mark.req("R-4")
async def test_another_schedule_begins_now_and_a_job_that_is_off_is_not_told() -> None:
    hall = Hall("2026-06-01T08:59", job())
    await hall.crons.look()
    hall.jobs = (job("0 12 * * *"),)
    hall.restart()
    await hall.until("2026-06-03T13:00")
    assert (await hall.shown()).missed == 0
    assert (await hall.shown()).next_at == "2026-06-04T10:00:00.000Z"
    hall.jobs = (job("0 12 * * *", enabled=False),)
    hall.restart()
    await hall.until("2026-06-04T12:00")
    assert await hall.told() == []
    assert (await hall.shown()).next_at is None


@pytest.mark.req("R-4")
async def test_the_task_rings_by_itself_and_takes_other_jobs_while_it_sleeps() -> None:
    hall = Hall("2026-06-01T08:59")
    hall.crons.start()
    hall.crons.configure([job()])
    async with asyncio.timeout(10):
        while not await hall.ledger.fact("cron/default/report"):
            await asyncio.sleep(0)
        hall.clock.at_ms = at("2026-06-01T09:00")
        hall.crons.configure([job()])
        while not await hall.told():
            await asyncio.sleep(0)
    await hall.crons.stop()
    kept = msgspec.json.decode(await hall.ledger.fact("cron/default/report") or "")
    assert kept["settled_ms"] == at("2026-06-01T09:00")


@pytest.mark.req("R-4", "C-1")
async def test_after_a_wrong_clock_was_corrected_jobs_are_due_by_the_right_one() -> None:
    hall = Hall("2026-06-01T08:30", job("0 * * * *"))
    await hall.crons.look()
    await hall.until("2027-06-01T12:00")  # Somebody sets it a year ahead, and it is told at what seems to be noon.
    assert len(await hall.told()) == 1

    await hall.until("2026-06-01T08:59")
    assert (await hall.shown()).next_at == "2026-06-01T07:00:00.000Z"
    await hall.until("2026-06-01T09:00")
    await hall.until("2026-06-01T10:00")
    assert len(await hall.told()) == 3


@pytest.mark.req("R-4", "C-1")
async def test_a_time_that_was_told_by_a_wrong_clock_is_not_told_again_and_holds_up_no_later_one() -> None:
    hall = Hall("2026-06-01T08:30", job("0 * * * *"))
    await hall.crons.look()
    await hall.until("2026-06-01T14:00")
    await hall.until("2026-06-01T08:31")
    for hour in (9, 10, 11, 12, 13):
        await hall.until(f"2026-06-01T{hour:02}:00")
    assert len(await hall.told()) == 6

    await hall.until("2026-06-01T14:00")
    assert (await hall.shown()).next_at == "2026-06-01T13:00:00.000Z"
    await hall.until("2026-06-01T14:30")
    assert len(await hall.told()) == 6
    await hall.until("2026-06-01T15:00")
    shown = await hall.shown()
    assert (len(await hall.told()), shown.error) == (7, None)
