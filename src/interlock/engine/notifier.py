"""Delivery of notices to approvers: the ledger is the queue, each notice is sent once per channel, retried until it is
delivered, and listed as dead if it never was (P-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
import structlog

from interlock.command.audit.record_seal import BrokenRecord, changed_approval, read
from interlock.command.card.permission_request import lines_of_approval, redacted, title_of_approval
from interlock.command.card.text import visible
from interlock.ports.channel import ApprovalNotice, Channel, NoReceiver, NotAsked
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger, LedgerError, Put, WriteBatch
from interlock.protocol.records import DEVICES, ApprovalRecord, DeliveryRecord
from interlock.protocol.resources import Approval, Delivery, DeliveryState

RETRY_MS: tuple[int, ...] = (5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000)
"""Delays before each retry of an undelivered notice; after the last it is dead."""
RETRY_AFTER_MAX_MS = 28_800_000
"""Maximum pause before a retry, also if the receiver asks for a longer one."""
AT_ONCE = 8
"""Maximum number of deliveries in parallel."""
BATCH = 64
MAX_INPUT_CHARS = 4_096
LEDGER_RETRY_S = 5.0
LEAD_LOOK_S = 1.0
"""Interval at which a gateway checks whether another one still notifies approvers."""

Redact = Callable[[str], str]

log = structlog.get_logger("interlock.notifier")


async def _always() -> bool:
    return True


class Notifier:
    """The delivery task. A nudge means that the ledger may hold notices; further nudges cost nothing."""

    def __init__(
        self, ledger: Ledger, clock: Clock, channels: Mapping[tuple[str, str], Channel], redact: Redact,
        devices: Callable[[str], Channel | None] = lambda tenant_id: None,
        leads: Callable[[], Awaitable[bool]] = _always,
        *,
        wall: Clock | None = None,
    ) -> None:
        """Create the notifier. `clock` is the deadline clock, by which a notice is due; `wall` the time that
        receivers are sent. `channels` by tenant and name; `devices` returns the channel to the browsers of a tenant
        (J-18). `leads` returns whether this gateway notifies approvers for all on its ledger."""
        self._devices = devices
        self._ledger = ledger
        self._clock = clock
        self._wall = wall or clock
        self._channels = channels
        self._redact = redact
        self._leads = leads
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def configure(self, channels: Mapping[tuple[str, str], Channel], redact: Redact) -> None:
        """Apply other channels and another redaction."""
        self._channels, self._redact = channels, redact

    def nudge(self) -> None:
        """Announce that a commit left notices in the ledger. Never blocks."""
        self._wake.set()

    def start(self) -> None:
        """Start with what an earlier gateway left."""
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="notifier")

    async def stop(self) -> None:
        """Stop; unconfirmed notices are sent again after the next start, under the same id."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def drain(self) -> None:
        """Send all that is due now."""
        while due := await self._ledger.deliveries_due(self._clock.now_ms(), BATCH):
            limit = asyncio.Semaphore(AT_ONCE)

            async def deliver(record: DeliveryRecord, limit: asyncio.Semaphore = limit) -> DeliveryRecord:
                async with limit:
                    return await self._deliver(record)

            done = await asyncio.gather(*(deliver(record) for record in due))
            await self._ledger.commit(WriteBatch([Put(record) for record in done]))

    async def _run(self) -> None:
        while True:
            try:
                if not await self._leads():
                    await asyncio.sleep(LEAD_LOOK_S)
                    continue
                await self._rest()
                self._wake.clear()
                if await self._leads():
                    await self.drain()
            except LedgerError:
                log.exception("approvers_not_asked")
                await asyncio.sleep(LEDGER_RETRY_S)

    async def _rest(self) -> None:
        """Wait for a nudge, or until a notice is due again."""
        due_ms = await self._ledger.next_delivery_ms()
        wait_s = None if due_ms is None else max(0.0, (due_ms - self._clock.now_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _deliver(self, record: DeliveryRecord) -> DeliveryRecord:
        """Send one notice; returns its new row."""
        delivery, now = record.delivery, self._clock.now_ms()
        found = await self._ledger.approval(delivery.approval_id, delivery.tenant_id)
        if found is None or found.approval.state != "pending":
            return _ended(record, "moot", "it was decided before it arrived")
        how = await self._differs(delivery, found)
        if how is not None:
            log.error("row_differs", sentence=f"the stored row of {delivery.approval_id}: {how}",
                      remedy="no approver was asked about it here: see `interlock audit verify --database`")
            return _ended(record, "dead", f"it differs from the audit record, so it is not shown: {how}")
        channel = (self._devices(delivery.tenant_id) if delivery.channel == DEVICES
                   else self._channels.get((delivery.tenant_id, delivery.channel)))
        if channel is None:
            return _ended(record, "dead", f"the config no longer names a webhook or notice {delivery.channel}")
        try:
            await channel.ask(delivery.id, self._wall.now_ms(), approval_notice(found.approval, self._redact))
        except NoReceiver as error:
            return _ended(record, "moot", str(error))
        except NotAsked as error:
            return _failed(record, error, now)
        return _ended(record, "delivered", None, delivery.attempts + 1)

    async def _differs(self, delivery: Delivery, record: ApprovalRecord) -> str | None:
        """Return how the notice's content differs from its audit record; None if it does not. Approvers must not be
        shown a harmless text for the digest of another one, even if the row is restored before they answer (H-5)."""
        approval = record.approval
        if delivery.tenant_id != approval.tenant_id:
            return "its delivery is another tenant's"
        records = await self._ledger.audit_about(approval.tenant_id, approval.command_id or approval.id)
        try:
            return changed_approval(record, read(records))
        except BrokenRecord as broken:
            return str(broken)


def approval_notice(approval: Approval, redact: Redact) -> ApprovalNotice:
    """Return what a channel sends to approvers: redacted, every character visible, cut at MAX_INPUT_CHARS."""
    shown = redacted(approval, redact)
    text = visible(bytes(shown.input).decode("utf-8", "replace"))
    lines = redact("\n".join(line.text for line in lines_of_approval(shown)))
    by = approval.requested_by
    return ApprovalNotice(approval_id=approval.id, title=title_of_approval(shown), digest=approval.digest,
                          agent_title=visible(shown.agent_title), agent_id=approval.agent_id,
                          runner_id=approval.runner_id or "", workspace=visible(shown.workspace or ""),
                          requested_by=f"{by.type}:{by.id}" if by is not None else "",
                          lines=_cut(lines), input=_cut(text), expires_at=approval.expires_at,
                          is_cut=max(len(lines), len(text)) > MAX_INPUT_CHARS)


def _cut(text: str) -> str:
    return text[:MAX_INPUT_CHARS] + ("…" if len(text) > MAX_INPUT_CHARS else "")


def _failed(record: DeliveryRecord, error: NotAsked, now_ms: int) -> DeliveryRecord:
    attempts, why = record.delivery.attempts + 1, str(error)
    if error.final or attempts > len(RETRY_MS):
        log.warning("approver_not_asked", channel=record.delivery.channel, approval=record.delivery.approval_id,
                    attempts=attempts, why=why)
        return _ended(record, "dead", why, attempts)
    delivery = msgspec.structs.replace(record.delivery, attempts=attempts, why=why)
    pause_ms = max(RETRY_MS[attempts - 1], min(error.retry_after_ms, RETRY_AFTER_MAX_MS))
    return DeliveryRecord(delivery=delivery, due_ms=now_ms + pause_ms)


def _ended(
    record: DeliveryRecord, state: DeliveryState, why: str | None, attempts: int | None = None
) -> DeliveryRecord:
    delivery = msgspec.structs.replace(record.delivery, state=state, why=why,
                                       attempts=record.delivery.attempts if attempts is None else attempts)
    return DeliveryRecord(delivery=delivery, due_ms=None)
