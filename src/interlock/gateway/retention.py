"""Deletion of data beyond its retention: frames and events, files, deliveries (G-5). Transcripts and audit stay.

Each tenant's audit log records what is to be deleted before it is, and what was deleted afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog

from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, PutFact, WriteBatch
from interlock.ports.objects import Objects, ObjectsError
from interlock.ports.upkeep import PrunedRows
from interlock.protocol.answers import Pruned, PrunedTenant
from interlock.protocol.clock import iso
from interlock.protocol.limits import DAY_MS, IDEMPOTENCY_TTL_MS
from interlock.protocol.records import AuditDraft

SESSIONS_A_PAGE = 100
STRAY_MS = DAY_MS
"""Grace period of an object without references: the referring file may still be in transit."""
LAST_RUN = "pruned_ms"
BELIEVED = "retention_time_ms"
"""The time that the daily run last believed."""
DOUBTED = "retention_doubted_ms"
"""The time at which the daily run began to doubt its clock; empty if it does not."""
DOUBTED_STEP_MS = 7 * DAY_MS
"""A step of the time, from one daily run to the next, that is believed only after another day. The gateway was off, its
ledger is from an old backup, or the clock is wrong: that would delete everything at once."""
LOOK_S = 600
SYSTEM = {"id": "gateway", "role": "system"}

Forget = Callable[[str], Awaitable[PrunedRows]]
"""Deletes a session's data, or returns what would be deleted."""

log = structlog.get_logger("interlock.gateway")


async def _always() -> bool:
    return True


class Retention:
    """The pruner: one run at a time; a second one waits for the first."""

    def __init__(self, ledger: Ledger, objects: Objects | None, clock: Clock, line: Clock | None = None) -> None:
        """Create the pruner. `clock` is the one of the stored times; `line` is unaffected by jumps of it."""
        self._ledger = ledger
        self._objects = objects
        self._clock = clock
        self._line = line or clock
        self._running = asyncio.Lock()
        self.keep_ms = 0
        """Retention of frames, events and files in the daily run; 0 is unlimited."""
        self._leads: Callable[[], Awaitable[bool]] = _always

    def share(self, leads: Callable[[], Awaitable[bool]]) -> None:
        """Prune each day only while `leads` returns that this gateway does it for all on its ledger."""
        self._leads = leads

    async def prune(self, tenants: Sequence[str], older_than_ms: int, who: dict[str, str], *, dry: bool = False
                    ) -> Pruned:
        """Delete older data of these tenants; with `dry` only count it. The next run continues an interrupted one.
        Raises LedgerError."""
        before_ms = self._now_ms() - older_than_ms
        async with self._running:
            found = [await self._tenant(tenant_id, before_ms, who, dry=dry) for tenant_id in tenants]
            answers = 0 if dry else await self._ledger.prune_idempotency(self._now_ms() - IDEMPOTENCY_TTL_MS)
            objects = await self._sweep(dry=dry)
        return Pruned(dry_run=dry, before=iso(before_ms), objects=objects, answers=answers,
                      tenants=[one for one in found if one != PrunedTenant(tenant_id=one.tenant_id)])

    def _now_ms(self) -> int:
        """Return the earlier of the two clocks' times: if the wall clock was set forward, nothing becomes old by it."""
        return min(self._clock.now_ms(), self._line.now_ms())

    async def last_run_ms(self) -> int | None:
        """Return when the daily run last deleted something, or looked for it; None if it never did."""
        return int(await self._ledger.fact(LAST_RUN) or 0) or None

    async def daily(self, keep_ms: int) -> None:
        """Prune once a day, also if the gateway rarely runs for a day; the first time soon after the start."""
        self.keep_ms = keep_ms
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Prune if the daily run is due."""
        try:
            now = self._now_ms()
            if not (await self._leads() and await self._believes(now)):
                return
            await self._ledger.prune_idempotency(now - IDEMPOTENCY_TTL_MS)
            last = int(await self._ledger.fact(LAST_RUN) or 0)
            if self.keep_ms and not 0 <= now - last < DAY_MS:
                tenants = [record.tenant_id for record in await self._ledger.tenants()]
                pruned = await self.prune(tenants, self.keep_ms, SYSTEM)
                await self._ledger.commit(WriteBatch([PutFact(LAST_RUN, str(now))]))
                log.info("pruned", before=pruned.before, objects=pruned.objects, tenants=len(pruned.tenants),
                         events=sum(one.events for one in pruned.tenants))
        except LedgerError as error:
            log.warning("not_pruned", error=str(error))

    async def _believes(self, now_ms: int) -> bool:
        """Return whether data may be deleted by this time: not on the first day after a step of `DOUBTED_STEP_MS`, in
        which a wrong clock is corrected. Raises LedgerError."""
        last_ms = int(await self._ledger.fact(BELIEVED) or await self._ledger.fact(LAST_RUN) or 0)
        since_ms = int(await self._ledger.fact(DOUBTED) or 0)
        usual = not last_ms or now_ms - last_ms < DOUBTED_STEP_MS
        if usual or (since_ms and DAY_MS <= now_ms - since_ms < DOUBTED_STEP_MS):
            if since_ms or not 0 <= now_ms - last_ms < DAY_MS:
                await self._ledger.commit(WriteBatch([PutFact(BELIEVED, str(now_ms)), PutFact(DOUBTED, "")]))
            return True
        if not since_ms or not 0 <= now_ms - since_ms < DOUBTED_STEP_MS:
            await self._ledger.commit(WriteBatch([PutFact(DOUBTED, str(now_ms))]))
            log.warning("retention_doubts_clock", last=iso(last_ms), now=iso(now_ms),
                        remedy="Correct the machine's clock if it is wrong; nothing is deleted for a day.")
        return False

    async def _tenant(self, tenant_id: str, before_ms: int, who: dict[str, str], *, dry: bool) -> PrunedTenant:
        expected = await self._walk(tenant_id, before_ms, partial(self._ledger.would_forget, tenant_id), dry=True)
        if dry or expected == PrunedTenant(tenant_id=tenant_id):
            return expected
        await self._record(expected, before_ms, who, "begun")
        forget = partial(self._ledger.forget_session, tenant_id, before_ms=before_ms)
        done = await self._walk(tenant_id, before_ms, forget, dry=False)
        await self._record(done, before_ms, who, "done")
        return done

    async def _walk(self, tenant_id: str, before_ms: int, each: Forget, *, dry: bool) -> PrunedTenant:
        sessions, gone, after = 0, PrunedRows(), ""
        while page := await self._ledger.old_sessions(tenant_id, before_ms, after, SESSIONS_A_PAGE):
            for session_id in page:
                now = await each(session_id)
                sessions += now != PrunedRows()
                gone += now
            after = page[-1]
        return PrunedTenant(
            tenant_id=tenant_id, sessions=sessions, events=gone.events, files=gone.files, controls=gone.controls,
            feed=await self._ledger.forget_feed(tenant_id, before_ms, dry=dry),
            deliveries=await self._ledger.forget_deliveries(tenant_id, before_ms, dry=dry))

    async def _record(self, pruned: PrunedTenant, before_ms: int, who: dict[str, str], step: str) -> None:
        meta = {"step": step, "before": iso(before_ms), "sessions": pruned.sessions, "events": pruned.events,
                "files": pruned.files, "feed": pruned.feed, "deliveries": pruned.deliveries}
        await self._ledger.commit(WriteBatch([AuditAppend(AuditDraft(
            tenant_id=pruned.tenant_id, at=iso(self._clock.now_ms()), who=who, action="prune", meta=meta))]))

    async def _sweep(self, *, dry: bool) -> int:
        """Delete objects without references: of incomplete files, and of what was just deleted."""
        if self._objects is None:
            return 0
        before_ms = self._now_ms() - STRAY_MS
        # The objects first, then the references: an object stored in between is young.
        old = await self._objects.old(before_ms)
        named = await self._ledger.named_objects()
        swept = 0
        for name in old:
            if name in named:
                continue
            with suppress(ObjectsError):
                swept += dry or await self._objects.drop_old(name, before_ms)
        return swept
