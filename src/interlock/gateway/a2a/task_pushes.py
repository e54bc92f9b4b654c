"""Push notifications of tasks: each is a reader of its command's stream, with its cursor in the ledger (O-9).

A notification names the task, its state and where a person answers, and nothing that an agent has written: the receiver
reads the task with its own credential. Each event that changes this is sent at least once, also after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import structlog

from interlock.channels.task_push import TaskPushSender
from interlock.engine.viewers.stream_items import Durable, Item
from interlock.engine.viewers.viewers import Behind, Viewers
from interlock.gateway.a2a.task_view import TERMINAL, context_of, state_of
from interlock.gateway.access.credentials import CredentialState
from interlock.ports.channel import NotAsked
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, Put, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import command_stream
from interlock.protocol.problems import Problem
from interlock.protocol.records import TASK_PUSHES, AuditDraft, DeliveryRecord, TaskPush
from interlock.protocol.resources import Approval, Command, Delivery, DeliveryState

TASK_PUSHES_MAX = 4
"""Configs of one task."""
TENANT_PUSHES_MAX = 256
"""Configs of a tenant whose tasks have not ended."""
PENDING_READ_MAX = 10_000
"""Deliveries of a tenant that are searched for its configs."""
RETRY_S: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Delays before each retry of an undelivered notification; after the last its config is abandoned."""
AT_ONCE = 8
"""Maximum number of notifications in parallel."""
LOOK_S = 2.0
"""With several gateways, interval at which the notifying one reads configs that others accepted."""
LEDGER_RETRY_S = 5.0
SUSPENDED_LOOK_S = 5.0
"""Interval at which a notification of a suspended tenant looks whether the tenant was restored."""

StateOfCredential = Callable[[str, str], Awaitable[CredentialState]]
"""Returns the state of a credential, by its tenant and its key's id."""

log = structlog.get_logger("interlock.gateway")


class _EventName(msgspec.Struct, frozen=True):
    event: str = ""


_event = msgspec.json.Decoder(_EventName)


class _Suspended(Exception):
    """The tenant of a config is suspended: its notifications wait."""


class _TaskView(NamedTuple):
    """A task's content in a notification."""

    body: bytes
    shown: str
    is_over: bool


class TaskPushes:
    """The configs of all tenants, and the asyncio tasks that follow their commands."""

    def __init__(self, ledger: Ledger, viewers: Viewers, clock: Clock, sender: TaskPushSender,
                 credential: StateOfCredential, leads: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Create the service; `leads` returns whether this gateway notifies for all on its ledger; None if it is
        alone."""
        self._ledger = ledger
        self._viewers = viewers
        self._clock = clock
        self.sender = sender
        self._credential = credential
        self._leads = leads
        self._following: dict[str, asyncio.Task[None]] = {}
        self._sending = asyncio.Semaphore(AT_ONCE)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- configs ---
    async def listed(self, tenant_id: str, task_id: str) -> list[TaskPush]:
        """Return the configs of a task that has not ended, in the order of their places."""
        found = [await self._ledger.delivery(_row_id(task_id, place), tenant_id) for place in range(TASK_PUSHES_MAX)]
        return [one.push for one in found if one is not None and one.push is not None and _is_live(one, tenant_id)]

    async def put(self, who: dict[str, str], command: Command, push: TaskPush) -> None:
        """Store a config, replacing the one with its id, and follow its task. `who` is the client as the audit log
        names it. Raises Problem QuotaExceeded."""
        rows = [(place, await self._ledger.delivery(_row_id(command.id, place), command.tenant_id))
                for place in range(TASK_PUSHES_MAX)]
        live = {place: row.push for place, row in rows
                if row is not None and row.push is not None and _is_live(row, command.tenant_id)}
        same = next((place for place, one in live.items() if one.config_id == push.config_id), None)
        free = next((place for place, _ in rows if place not in live), None)
        place = same if same is not None else free
        if place is None:
            raise Problem("QuotaExceeded", f"The task {command.id} has {TASK_PUSHES_MAX} push notification configs.",
                          hint="Delete one.")
        if same is None and len(await self._live(command.tenant_id)) >= TENANT_PUSHES_MAX:
            raise Problem("QuotaExceeded", f"This tenant has {TENANT_PUSHES_MAX} push notification configs of tasks "
                          "that have not ended.", hint="Delete some.")
        row_id = _row_id(command.id, place)
        await self._stop_following(row_id)
        delivery = Delivery(id=row_id, tenant_id=command.tenant_id, channel=TASK_PUSHES, approval_id="",
                            state="pending", created_at=iso(self._clock.now_ms()))
        await self._ledger.commit(WriteBatch([
            Put(DeliveryRecord(delivery=delivery, due_ms=None, push=push)),
            self._noted(who, command, "subscribed", push)]))
        self._wake.set()

    async def delete(self, who: dict[str, str], command: Command, config_id: str) -> bool:
        """Delete a config; returns whether there was one."""
        for place in range(TASK_PUSHES_MAX):
            row = await self._ledger.delivery(_row_id(command.id, place), command.tenant_id)
            if row is None or row.push is None or not _is_live(row, command.tenant_id):
                continue
            if row.push.config_id == config_id:
                await self._stop_following(row.delivery.id)
                await self._ledger.commit(WriteBatch([Put(_ended(row, "moot", "its config was deleted")),
                                                      self._noted(who, command, "unsubscribed", row.push)]))
                return True
        return False

    def _noted(self, who: dict[str, str], command: Command, step: str, push: TaskPush) -> AuditAppend:
        digest = hashlib.sha256(push.url.encode()).hexdigest()
        return AuditAppend(AuditDraft(
            tenant_id=command.tenant_id, at=iso(self._clock.now_ms()), who=who, action="push",
            command_id=command.id, session_id=command.target.session_id,
            meta={"step": step, "config": push.config_id, "url_sha256": digest}))

    # --- following ---
    def start(self) -> None:
        """Start with what an earlier gateway left."""
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="task pushes")

    async def stop(self) -> None:
        """Stop; what was not notified is sent after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for row_id in list(self._following):
            await self._stop_following(row_id)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except LedgerError:
                log.exception("task_pushes_not_read")
                await asyncio.sleep(LEDGER_RETRY_S)

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(None if self._leads is None else LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        rows: dict[str, DeliveryRecord] = {}
        if self._leads is None or await self._leads():
            for tenant in await self._ledger.tenants():
                rows |= {row.delivery.id: row for row in await self._live(tenant.tenant_id)}
        for row_id in [one for one in self._following if one not in rows]:
            await self._stop_following(row_id)
        for row_id, row in rows.items():
            if row_id not in self._following:
                task = asyncio.create_task(self._follow(row), name="task push")
                self._following[row_id] = task
                task.add_done_callback(lambda task, row_id=row_id: self._forget(row_id, task))

    def _forget(self, row_id: str, task: asyncio.Task[None]) -> None:
        if self._following.get(row_id) is task:
            del self._following[row_id]

    async def _live(self, tenant_id: str) -> list[DeliveryRecord]:
        return [row for row in await self._ledger.deliveries(tenant_id, "pending", PENDING_READ_MAX)
                if row.push is not None]

    async def _stop_following(self, row_id: str) -> None:
        task = self._following.pop(row_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, row: DeliveryRecord) -> None:
        """Notify until the task has ended, its receiver is abandoned, or the gateway stops."""
        while True:
            try:
                found = await self._ledger.delivery(row.delivery.id, row.delivery.tenant_id)
                if found is not None and _is_live(found, row.delivery.tenant_id) and found.push is not None:
                    await self._read(found, found.push)
                return
            except Behind:
                continue  # It continues from its cursor.
            except _Suspended:
                await asyncio.sleep(SUSPENDED_LOOK_S)
            except LedgerError:
                log.exception("task_push_waits", delivery=row.delivery.id)
                await asyncio.sleep(LEDGER_RETRY_S)

    async def _read(self, row: DeliveryRecord, push: TaskPush) -> None:
        """Notify of each change from the cursor on. Raises Behind, _Suspended."""
        async with self._viewers.join(row.delivery.tenant_id, command_stream(push.task_id), push.cursor) as viewer:
            async for burst in viewer:
                if any(map(_changes, burst)):
                    after = await self._notified(row, push, viewer.cursor)
                    if after is None:
                        return
                    push = after

    async def _notified(self, row: DeliveryRecord, push: TaskPush, cursor: int) -> TaskPush | None:
        """Notify of the task's current state, if that was not notified; None once nothing more will come."""
        for attempt in range(len(RETRY_S) + 1):
            view = await self._view(push, row.delivery.tenant_id)
            if view is None:
                await self._keep(_ended(row, "moot", "the task is kept no more"))
                return None
            if not await self._is_wanted(row, push):
                return None
            try:
                if view.shown != push.notified:
                    async with self._sending:
                        await self.sender.send(push, f"{row.delivery.id}.{cursor}", self._clock.now_ms(),
                                               view.body)
                push = msgspec.structs.replace(push, cursor=cursor, notified=view.shown)
                kept = msgspec.structs.replace(row, push=push)
                await self._keep(_ended(kept, "delivered", None) if view.is_over else kept)
                return None if view.is_over else push
            except NotAsked as error:
                if error.final or attempt == len(RETRY_S):
                    log.warning("task_push_given_up", command=push.task_id, attempts=attempt + 1, why=str(error))
                    await self._keep(_ended(row, "dead", str(error)))
                    return None
                await asyncio.sleep(RETRY_S[attempt])
        return None

    async def _is_wanted(self, row: DeliveryRecord, push: TaskPush) -> bool:
        """Return whether the credential that set a config is still valid; end the config if it is not. Raises
        _Suspended."""
        state = await self._credential(row.delivery.tenant_id, push.key_id)
        if state == "suspended":
            raise _Suspended
        if state == "ended":
            await self._keep(_ended(row, "moot", "the key that set it is revoked or has expired"))
        return state == "valid"

    async def _keep(self, row: DeliveryRecord) -> None:
        """Store a row, unless another gateway deleted or replaced it meanwhile."""
        found = await self._ledger.delivery(row.delivery.id, row.delivery.tenant_id)
        if found is not None and found.delivery.state == "pending" and found.delivery.created_at == \
                row.delivery.created_at:
            await self._ledger.commit(WriteBatch([Put(row)]))

    async def _view(self, push: TaskPush, tenant_id: str) -> _TaskView | None:
        record = await self._ledger.command(push.task_id, tenant_id)
        if record is None:
            return None
        command, session_id = record.command, record.command.target.session_id
        session = await self._ledger.session(session_id, tenant_id) if session_id else None
        live = await self._ledger.live_approvals(session_id, command.tenant_id) if session_id else []
        waiting = [one.approval for one in live
                   if one.approval.command_id == command.id and one.approval.state == "pending"]
        key = session.session_key if session is not None else command.target.session_key
        status = _status(command, waiting, push.origin)
        update = {"taskId": command.id, "contextId": context_of(key, session_id or command.id), "status": status}
        shown = " ".join((status["state"], *(one.id for one in waiting)))
        return _TaskView(msgspec.json.encode({"statusUpdate": update}), shown, status["state"] in TERMINAL)


def _status(command: Command, waiting: list[Approval], origin: str) -> dict[str, Any]:
    state = state_of(command, waiting)
    sentences = [f"A person answers at {origin}/a/{one.id}; no message is a vote." if one.kind != "question" else
                 "The agent asks a question. Get the task to read it, and answer with a message that has its id."
                 for one in waiting]
    if command.state == "pending_approval" and command.approval_id and not sentences:
        sentences = [f"A person answers at {origin}/a/{command.approval_id}; no message is a vote."]
    if command.error is not None:
        sentences.append(f"It ended with {command.error.code}.")
    status: dict[str, Any] = {"state": state, "timestamp": command.updated_at}
    if sentences:
        status["message"] = {"messageId": f"{command.id}.{command.state}", "role": "ROLE_AGENT", "taskId": command.id,
                             "parts": [{"text": one, "mediaType": "text/plain"} for one in sentences]}
    return status


def _changes(item: Item) -> bool:
    if not isinstance(item, Durable) or item.kind != "status":
        return False
    return _event.decode(item.body).event in ("state", "approval")


def _row_id(task_id: str, place: int) -> str:
    return f"psh_{task_id}_{place}"


def _is_live(row: DeliveryRecord, tenant_id: str) -> bool:
    return row.delivery.state == "pending" and row.delivery.tenant_id == tenant_id


def _ended(row: DeliveryRecord, state: DeliveryState, why: str | None) -> DeliveryRecord:
    """Return a row in its final form, without the client's token."""
    assert row.push is not None
    push = msgspec.structs.replace(row.push, token="", scheme="", credentials="")
    delivery = msgspec.structs.replace(row.delivery, state=state, why=why)
    return msgspec.structs.replace(row, delivery=delivery, push=push)
