"""Cron jobs: each is sent to its agent once when it is due, across restarts and clock changes (R-4).

The instant up to which a job is settled is a row of the ledger, and advances in the transaction that stores the
command. The next due time follows from that and the schedule alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import tzinfo
from typing import NamedTuple

import msgspec
import structlog

from interlock.engine.chats import ChatInbox, SystemMessage
from interlock.engine.membership import Alone, Elsewhere, LaneMoved, Room
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, LedgerWrite, PutFact, PutIdempotency, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.inbound import CronJobShown, Received
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft, IdempotencyRecord, Principal
from interlock.protocol.resources import Actor
from interlock.session.chat.schedule import how_often, newest_due, next_due

GRACE_MS = 10 * 60 * 1000
"""A job that is late by at most this, because the gateway was restarted or no runner was attached, still runs."""
LOOK_S = 30.0
"""Interval at which jobs that wait for a runner are retried, and the wall clock is read."""
COUNTED = 1_000
"""Maximum number of missed times that are counted."""
CORRECTED_MS = 3 * 60 * 60 * 1000
"""A clock that is set back by more than this, as in cron(8), was wrong before: jobs are due by the corrected one. One
that is set back by less catches up first, so that no time of day runs twice."""
DUTY = "cron"
SYSTEM = {"id": "gateway", "role": "system"}
_RETRYABLE = ("Conflict", "Unavailable", "QuotaExceeded", "RateLimited")
"""Refusals that may be temporary: a runner that is not attached yet, a full queue."""

log = structlog.get_logger("interlock.cron")


class CronJob(NamedTuple):
    """A job of the config."""

    id: str
    tenant_id: str
    agent_id: str
    key: str
    text: str
    schedule: str
    zone: tzinfo
    zone_name: str
    workspace: str | None = None
    enabled: bool = True

    @property
    def fact(self) -> str:
        """Return the name under which its state is stored."""
        return f"cron/{self.tenant_id}/{self.id}"

    @property
    def schedule_text(self) -> str:
        """Return the schedule with its zone: if this changes, earlier due times are not missed."""
        return f"{self.schedule} {self.zone_name}"


class _JobState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's durable state."""

    schedule: str
    settled_ms: int
    """Nothing is left to do up to this instant."""
    ran_ms: int | None = None
    session_id: str | None = None
    command_id: str | None = None
    error: str = ""
    """Why it did not start the last time."""
    missed: int = 0
    """How many times it was due and nothing ran, since it is known."""
    missed_ms: int | None = None


_job_states = msgspec.json.Decoder(_JobState)


class Crons:
    """The scheduler: one task that sleeps until the next job is due."""

    def __init__(self, ledger: Ledger, chats: ChatInbox, wall: Clock, room: Room | None = None) -> None:
        """Create the scheduler; `room` are the gateways with the same jobs, if any. Each job starts at the gateway that
        its session or its runner is at; only one of them counts missed jobs."""
        self._ledger = ledger
        self._chats = chats
        self._wall = wall
        self._room: Room = room or Alone(ledger)
        self._jobs: dict[tuple[str, str], CronJob] = {}
        self._waiting: dict[tuple[str, str], str] = {}
        """Jobs that are due and cannot start, and why: logged once, then retried."""
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def configure(self, jobs: Iterable[CronJob]) -> None:
        """Apply the jobs of the config. A new one starts now, and has missed nothing."""
        self._jobs = {(job.tenant_id, job.id): job for job in jobs}
        self._changed.set()

    def start(self) -> None:
        """Start with the jobs that were due while no gateway ran."""
        self._task = asyncio.create_task(self._run(), name="cron")

    async def stop(self) -> None:
        """Stop. Jobs that become due are settled by the next start."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def look(self) -> None:
        """Settle every job up to now."""
        async with self._turn:
            for place, job in [*self._jobs.items()]:
                if job.enabled:
                    await self._settle(place, job)

    async def listing(self, tenant_id: str) -> list[CronJobShown]:
        """Return a tenant's jobs by id: when each ran, and when it is due next."""
        found = sorted((job for job in self._jobs.values() if job.tenant_id == tenant_id), key=lambda job: job.id)
        return [await self._shown(job) for job in found]

    async def run(
        self, principal: Principal, job_id: str, remember: Callable[[Received], IdempotencyRecord]
    ) -> Received:
        """Send a job now, whenever it is due. Its origin is cron nevertheless, for policy and clocks. Raises
        Problem."""
        job = self._jobs.get((principal.tenant_id, job_id))
        if job is None:
            raise Problem("NotFound", f"There is no cron job {job_id}.", hint="List them with `interlock cron list`.")
        async with self._turn:
            state = await self._read(job) or self._new_state(job)

            def writes(received: Received) -> list[LedgerWrite]:
                ran = self._ran(state, received, state.settled_ms)
                return [PutIdempotency(remember(received)), _put(job, ran)]

            return await self._chats.system(principal, _message(job), writes)

    # --- the clock ---
    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self.look()
            except LedgerError as error:
                log.warning("cron_waits", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._pause_s())

    def _pause_s(self) -> float:
        now_ms = self._wall.now_ms()
        due = [at_ms for job in self._jobs.values() if job.enabled
               and (at_ms := next_due(job.schedule, job.zone, now_ms)) is not None]
        return min(LOOK_S, (min(due, default=now_ms + int(LOOK_S * 1000)) - now_ms) / 1000)

    async def _settle(self, place: tuple[str, str], job: CronJob) -> None:
        state = await self._read(job)
        if state is None and not await self._room.leads(DUTY):
            return
        if state is None:
            await self._ledger.commit(WriteBatch([_put(job, self._new_state(job))]))
            return
        now_ms = self._wall.now_ms()
        if state.settled_ms > now_ms + CORRECTED_MS:
            if await self._room.leads(DUTY):
                log.warning("cron_clock_corrected", job=job.id, settled=iso(state.settled_ms), now=iso(now_ms))
                await self._ledger.commit(WriteBatch([_put(job, msgspec.structs.replace(state, settled_ms=now_ms))]))
            return
        newest = newest_due(job.schedule, job.zone, max(state.settled_ms, now_ms - GRACE_MS), now_ms)
        before_ms = newest if newest is not None else now_ms - GRACE_MS + 1
        missed = how_often(job.schedule, job.zone, state.settled_ms, before_ms, COUNTED)
        if missed and await self._room.leads(DUTY):
            state = await self._record_missed(place, job, state, missed, before_ms - 1)
        if newest is None:
            return
        if await self._ledger.idempotency(_scope(job, newest), job.tenant_id) is None:
            await self._run_due(place, job, state, newest)
        elif (now := await self._read(job)) is not None and now.settled_ms < newest:
            # It ran at this time before the clock was corrected.
            await self._ledger.commit(WriteBatch([_put(job, msgspec.structs.replace(now, settled_ms=newest))]))

    async def _run_due(self, place: tuple[str, str], job: CronJob, state: _JobState, due_ms: int) -> None:
        """Submit the job's message to the agent; the command and the job's state are one transaction."""
        principal = Principal(tenant_id=job.tenant_id, actor=Actor(type="agent", id=f"cron:{job.id}"), role="operator",
                              key_id="")
        once = IdempotencyRecord(tenant_id=job.tenant_id, scope=_scope(job, due_ms), fingerprint="", status=202,
                                 headers={}, body=b"", created_ms=self._wall.now_ms())

        def writes(received: Received) -> list[LedgerWrite]:
            # If two gateways share the ledger, this row refuses the second.
            kept = msgspec.structs.replace(once, command_id=received.command_id)
            return [PutIdempotency(kept), _put(job, self._ran(state, received, due_ms))]

        try:
            received = await self._chats.system(principal, _message(job), writes)
        except (Elsewhere, LaneMoved):
            return  # It checks its jobs too.
        except Problem as problem:
            if problem.code in _RETRYABLE:
                if self._waiting.get(place) != problem.detail:
                    log.warning("cron_cannot_begin", job=job.id, due=iso(due_ms), reason=problem.detail)
                self._waiting[place] = problem.detail
                return
            log.warning("cron_refused", job=job.id, due=iso(due_ms), reason=problem.detail)
            await self._ledger.commit(WriteBatch([_put(job, msgspec.structs.replace(
                state, settled_ms=due_ms, error=problem.detail))]))
        else:
            log.info("cron_told", job=job.id, due=iso(due_ms), session_id=received.session_id,
                     command_id=received.command_id)
        self._waiting.pop(place, None)

    async def _record_missed(
        self, place: tuple[str, str], job: CronJob, state: _JobState, count: int, until_ms: int
    ) -> _JobState:
        """Report that a job was due and nothing ran: in the log, in the audit log, and in its listing."""
        why = self._waiting.pop(place, "") or "no gateway ran"
        now = msgspec.structs.replace(state, settled_ms=until_ms, missed=state.missed + count,
                                      missed_ms=until_ms, error=why)
        meta = {"job": job.id, "count": count, "after": iso(state.settled_ms), "until": iso(until_ms)}
        draft = AuditDraft(tenant_id=job.tenant_id, at=iso(self._wall.now_ms()), who=SYSTEM, action="cron_missed",
                           meta=meta, personal={"reason": why})
        await self._ledger.commit(WriteBatch([_put(job, now), AuditAppend(draft)]))
        log.warning("cron_missed", job=job.id, count=count, until=iso(until_ms), reason=why)
        return now

    # --- standings ---
    async def _read(self, job: CronJob) -> _JobState | None:
        """Return the job's state; None if the job, or its schedule, is new."""
        kept = await self._ledger.fact(job.fact)
        state = _job_states.decode(kept) if kept is not None else None
        return state if state is not None and state.schedule == job.schedule_text else None

    def _new_state(self, job: CronJob) -> _JobState:
        return _JobState(job.schedule_text, self._wall.now_ms())

    def _ran(self, state: _JobState, received: Received, settled_ms: int) -> _JobState:
        return msgspec.structs.replace(state, settled_ms=settled_ms, ran_ms=self._wall.now_ms(), error="",
                                       session_id=received.session_id, command_id=received.command_id)

    async def _shown(self, job: CronJob) -> CronJobShown:
        state = await self._read(job) or self._new_state(job)
        due_ms = next_due(job.schedule, job.zone, max(state.settled_ms, self._wall.now_ms()))
        why = self._waiting.get((job.tenant_id, job.id)) or state.error
        return CronJobShown(
            id=job.id, agent_id=job.agent_id, session_key=job.key, schedule=job.schedule, time_zone=job.zone_name,
            message=job.text, enabled=job.enabled, next_at=iso(due_ms) if due_ms is not None and job.enabled else None,
            last_at=iso(state.ran_ms) if state.ran_ms is not None else None, session_id=state.session_id,
            command_id=state.command_id, missed=state.missed,
            missed_at=iso(state.missed_ms) if state.missed_ms is not None else None, error=why or None,
        )


def _message(job: CronJob) -> SystemMessage:
    return SystemMessage(job.key, job.agent_id, job.text, "cron", job.workspace)


def _scope(job: CronJob, due_ms: int) -> str:
    return f"{job.fact}/{due_ms}"


def _put(job: CronJob, state: _JobState) -> PutFact:
    return PutFact(job.fact, msgspec.json.encode(state).decode())
