"""Cron jobs: started once when they are due, over restarts and set clocks; missed times are reported (R-4)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from engine.test_chats import OPEN, ChatTable
from interlock.backends.memory.ledger import MemoryLedger
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


class CronTable(ChatTable):
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

    async def messages(self) -> list[str]:
        """The messages of jobs to agents, in order."""
        assert isinstance(self.ledger, MemoryLedger)
        return [record.command.created_at for record in sorted(
            self.ledger._commands.values(), key=lambda one: one.created_ms) if record.origin == "cron"]

    async def shown(self) -> CronJobShown:
        return (await self.crons.listing("default"))[0]


@pytest.mark.req("R-4", "I-2")
async def test_a_job_runs_once_each_time_and_moves_no_timer() -> None:
    table = CronTable("2026-06-01T08:00", job())
    await table.crons.look()
    assert (await table.shown()).next_at == "2026-06-01T07:00:00.000Z"
    assert await table.messages() == []
    await table.until("2026-06-01T09:00")
    await table.crons.look()
    await table.until("2026-06-01T23:00")
    assert await table.messages() == ["2026-06-01T07:00:00.000Z"]
    shown = await table.shown()
    assert (shown.last_at, shown.next_at, shown.missed) == ("2026-06-01T07:00:00.000Z", "2026-06-02T07:00:00.000Z", 0)
    record = await table.ledger.session_by_key("default", "agent:shell:cron:report")
    assert record is not None
    assert record.session_id == shown.session_id
    assert entries.clocks_of(await table.row(record.session_id)).interacted_ms == at("2026-06-01T09:00")
    clocks = entries.clocks_of(await table.row(record.session_id))
    await table.until("2026-06-02T09:00")
    assert len(await table.messages()) == 2
    assert entries.clocks_of(await table.row(record.session_id)) == clocks


@pytest.mark.req("R-4", "P-1")
async def test_policy_holds_a_jobs_message_unless_a_rule_allows_it() -> None:
    table = CronTable("2026-06-01T08:00", job(), policy=RuleSet([]))
    await table.crons.look()
    await table.until("2026-06-01T09:00")
    assert await table.state((await table.shown()).command_id) == "pending_approval"
    denied = CronTable("2026-06-01T08:00", job(), policy=RuleSet([Rule(name="never", effect="deny", origin="cron")]))
    await denied.crons.look()
    await denied.until("2026-06-01T09:00")
    await denied.until("2026-06-01T09:01")
    shown = await denied.shown()
    assert await denied.messages() == []
    assert "never denies it" in (shown.error or "")
    assert len(await denied.audits("reject")) == 1
    assert shown.next_at == "2026-06-02T07:00:00.000Z"


@pytest.mark.req("R-4")
async def test_a_job_runs_once_across_a_restart() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    # Killed before, started again just after: late, and run.
    table.restart()
    await table.until("2026-06-01T09:04")
    assert len(await table.messages()) == 1
    table.restart()
    await table.until("2026-06-01T09:05")
    # The wall clock is set back behind it: it does not run again.
    await table.until("2026-06-01T08:30")
    await table.until("2026-06-01T09:00")
    assert len(await table.messages()) == 1


@pytest.mark.req("R-4")
async def test_a_job_runs_once_despite_a_kill_at_its_commit() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    real = table.ledger.commit

    async def killed(batch: Any) -> Any:
        if any(type(write).__name__ == "PutCommand" for write in batch.writes) and not table.kept:
            table.kept = 1
            raise LedgerError("killed before it was durable")
        return await real(batch)

    table.ledger.commit = killed
    await table.until("2026-06-01T09:00")
    assert await table.messages() == []
    table.restart()
    await table.until("2026-06-01T09:01")
    table.restart()
    await table.until("2026-06-01T09:02")
    assert len(await table.messages()) == 1


@pytest.mark.req("R-4")
async def test_two_gateways_on_one_ledger_run_a_job_once() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    other = Crons(table.ledger, table.engine.chats, table.clock)
    other.configure(table.jobs)
    table.clock.at_ms = at("2026-06-01T09:00")
    # Both have read that it is due before either has run it.
    stale = await other._read(table.jobs[0])
    await table.crons.look()
    assert stale is not None
    await other._run_due(("default", "report"), table.jobs[0], stale, at("2026-06-01T09:00"))
    assert len(await table.messages()) == 1


@pytest.mark.req("R-4")
async def test_a_missed_run_is_reported_and_not_repeated() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    table.restart()
    await table.until("2026-06-04T12:00")
    assert await table.messages() == []
    shown = await table.shown()
    assert (shown.missed, shown.error, shown.next_at) == (4, "no gateway ran", "2026-06-05T07:00:00.000Z")
    lost = await table.audits("cron_missed")
    assert [(one["meta"]["job"], one["meta"]["count"], one["who"]["id"]) for one in lost] == [("report", 4, "gateway")]
    await table.until("2026-06-04T12:01")
    assert len(await table.audits("cron_missed")) == 1
    # Only the newest of several, if it is a little late, is run; the others are missed.
    table.restart()
    await table.until("2026-06-06T09:05")
    assert len(await table.messages()) == 1
    assert (await table.shown()).missed == 5


@pytest.mark.req("R-4")
async def test_a_job_waits_a_limited_time_for_a_runner_and_is_then_missed() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    table.engine.presence.detach("local", table.wire, 0)
    await table.until("2026-06-01T09:00")
    assert "No runner" in ((await table.shown()).error or "")
    table.engine.presence.arrive(Present(table.record, table.hello, 0)).connect(table.wire)
    await table.until("2026-06-01T09:03")
    assert len(await table.messages()) == 1
    assert (await table.shown()).error is None

    alone = CronTable("2026-06-01T08:59", job())
    await alone.crons.look()
    alone.engine.presence.detach("local", alone.wire, 0)
    await alone.until("2026-06-01T09:00")
    alone.clock.advance(GRACE_MS)
    await alone.crons.look()
    shown = await alone.shown()
    assert (shown.missed, await alone.messages()) == (1, [])
    assert "No runner" in (shown.error or "")


@pytest.mark.req("R-4")
async def test_a_job_runs_once_on_a_day_of_a_clock_change() -> None:
    for schedule, days in (("30 2 * * *", ["2026-03-28", "2026-03-29", "2026-03-30"]),
                           ("30 2 * * *", ["2026-10-24", "2026-10-25", "2026-10-26"])):
        table = CronTable(f"{days[0]}T00:00", job(schedule))
        for _ in range(3 * 24 * 6 + 6):
            await table.crons.look()
            if table.clock.at_ms % HOUR == 0:
                table.restart()
            table.clock.advance(10 * MINUTE)
        local = [datetime.fromisoformat(one).astimezone(BERLIN).date().isoformat() for one in await table.messages()]
        assert local == days
        assert (await table.shown()).missed == 0


@pytest.mark.req("R-4")
async def test_a_changed_schedule_begins_now_and_a_disabled_job_does_not_run() -> None:
    table = CronTable("2026-06-01T08:59", job())
    await table.crons.look()
    table.jobs = (job("0 12 * * *"),)
    table.restart()
    await table.until("2026-06-03T13:00")
    assert (await table.shown()).missed == 0
    assert (await table.shown()).next_at == "2026-06-04T10:00:00.000Z"
    table.jobs = (job("0 12 * * *", enabled=False),)
    table.restart()
    await table.until("2026-06-04T12:00")
    assert await table.messages() == []
    assert (await table.shown()).next_at is None


@pytest.mark.req("R-4")
async def test_the_scheduler_wakes_by_itself_and_accepts_new_jobs_while_it_sleeps() -> None:
    table = CronTable("2026-06-01T08:59")
    table.crons.start()
    table.crons.configure([job()])
    async with asyncio.timeout(10):
        while not await table.ledger.fact("cron/default/report"):
            await asyncio.sleep(0)
        table.clock.at_ms = at("2026-06-01T09:00")
        table.crons.configure([job()])
        while not await table.messages():
            await asyncio.sleep(0)
    await table.crons.stop()
    kept = msgspec.json.decode(await table.ledger.fact("cron/default/report") or "")
    assert kept["settled_ms"] == at("2026-06-01T09:00")


@pytest.mark.req("R-4", "C-1")
async def test_after_a_wrong_clock_was_corrected_jobs_are_due_by_the_right_one() -> None:
    table = CronTable("2026-06-01T08:30", job("0 * * * *"))
    await table.crons.look()
    await table.until("2027-06-01T12:00")  # The clock is set a year ahead, and the job runs at what seems to be noon.
    assert len(await table.messages()) == 1

    await table.until("2026-06-01T08:59")
    assert (await table.shown()).next_at == "2026-06-01T07:00:00.000Z"
    await table.until("2026-06-01T09:00")
    await table.until("2026-06-01T10:00")
    assert len(await table.messages()) == 3


@pytest.mark.req("R-4", "C-1")
async def test_a_run_at_a_wrong_clock_is_not_repeated_and_delays_no_later_run() -> None:
    table = CronTable("2026-06-01T08:30", job("0 * * * *"))
    await table.crons.look()
    await table.until("2026-06-01T14:00")
    await table.until("2026-06-01T08:31")
    for hour in (9, 10, 11, 12, 13):
        await table.until(f"2026-06-01T{hour:02}:00")
    assert len(await table.messages()) == 6

    await table.until("2026-06-01T14:00")
    assert (await table.shown()).next_at == "2026-06-01T13:00:00.000Z"
    await table.until("2026-06-01T14:30")
    assert len(await table.messages()) == 6
    await table.until("2026-06-01T15:00")
    shown = await table.shown()
    assert (len(await table.messages()), shown.error) == (7, None)
