"""The outbox in one SQLite file: one writer thread, one connection, group commit (D-1, D-6)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw
import structlog

from interlock.backends.outbox.schema import lock_file, open_file
from interlock.backends.outbox.store import Store
from interlock.ports.outbox import (
    CloseBlock,
    GatewayRow,
    OutboxError,
    OutboxWrite,
    SessionRow,
    StoredFrame,
    TransientText,
)
from interlock.protocol.frames import InvalidFrame
from interlock.protocol.limits import OUTBOX_BYTES
from interlock.protocol.records import ControlRecord

T = TypeVar("T")

GROUP_JOBS = 256
"""Maximum calls that share one commit; further ones wait for the next, so that the first do not wait for the last."""

DISK_WAIT_S = 0.25
"""Delay before a group that the disk refused is retried: it is full, or temporarily failing."""
DISK_LOG_INTERVAL_S = 60.0
"""Interval of log messages while this lasts."""
_DISK = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError)

_REFUSALS = (InvalidFrame, OutboxError, ValueError, TypeError)
"""Exceptions of a call before it changed anything: it fails alone, and its group continues."""

log = structlog.get_logger("interlock.outbox")


class _Job:
    """A call for the writer thread. `flush` requests an fsync at the commit."""

    __slots__ = ("call", "error", "flush", "future", "loop", "result")

    def __init__(self, call: Callable[[Store], Any], flush: bool, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.flush = flush
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None

    def settle(self) -> None:
        """Deliver the outcome; runs on the loop. A caller that was cancelled meanwhile is not notified."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SqliteOutbox:
    """`ports.outbox.Outbox` on apsw. Raises OutboxUnusable at construction for a file that cannot serve.

    A group with a durable frame, a state or a control frame commits with synchronous=FULL; a group of pieces and acks
    alone commits with synchronous=NORMAL, which in WAL writes without fsync: it survives kill -9, and the next FULL
    commit flushes it as well.

    While a disk is full or fails, all callers wait until it accepts a write again, or `close` is called: the agents
    wait with them, and nothing is lost.
    """

    def __init__(self, path: Path, *, limit_bytes: int = OUTBOX_BYTES) -> None:
        self._path = path
        self._lock = lock_file(path)
        try:
            self._database = open_file(path)
        except BaseException:
            os.close(self._lock)
            raise
        self._store = Store(self._database, limit_bytes)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._level = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="outbox", daemon=True)
        self._thread.start()

    # --- the port ---
    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        flush = not all(isinstance(write, TransientText | CloseBlock) for write in writes)
        return await self._call(lambda store: store.write(writes, attached=attached), flush=flush)

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        return await self._call(lambda store: store.open_session(session_id, at_ms, state), flush=True)

    async def sessions(self, gateway_id: str | None = None) -> list[SessionRow]:
        return await self._call(lambda store: store.sessions(gateway_id))

    async def forgotten(self, since_ms: int, limit: int, gateway_id: str | None = None) -> list[SessionRow]:
        return await self._call(lambda store: store.forgotten(since_ms, limit, gateway_id))

    async def session(self, session_id: str, gateway_id: str | None = None) -> SessionRow | None:
        return await self._call(lambda store: store.session(session_id, gateway_id))

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[StoredFrame]:
        return await self._call(lambda store: store.frames(session_id, after, limit_bytes))

    async def answers(self, session_id: str, after: int) -> list[StoredFrame]:
        return await self._call(lambda store: store.answers(session_id, after))

    async def pieces(self, session_id: str) -> list[TransientText]:
        return await self._call(lambda store: store.pieces(session_id))

    async def controls(self, session_id: str, after: int, gateway_id: str | None = None) -> list[ControlRecord]:
        return await self._call(lambda store: store.controls(session_id, after, gateway_id))

    async def controlling(self, session_id: str) -> list[str]:
        return await self._call(lambda store: store.controlling(session_id))

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        await self._call(lambda store: store.ack(session_id, seq, message_id, at_ms, gateway_id))

    async def confirm(self, session_id: str, gateway_id: str, message_ids: Sequence[str]) -> None:
        await self._call(lambda store: store.confirm(session_id, gateway_id, message_ids))

    async def join(self, gateway_id: str, link: str, *, adopt: bool) -> None:
        await self._call(lambda store: store.join(gateway_id, link, adopt=adopt), flush=True)

    async def leave(self, gateway_id: str, at_ms: int) -> None:
        await self._call(lambda store: store.leave(gateway_id, at_ms))

    async def number_link(self, beyond: int = 0) -> int:
        return await self._call(lambda store: store.number_link(beyond), flush=True)

    async def gateways(self) -> list[GatewayRow]:
        return await self._call(Store.gateways)

    async def sweep(self, at_ms: int) -> list[tuple[str, str]]:
        return await self._call(lambda store: store.sweep(at_ms), flush=True)

    async def forget(self, session_id: str, handled: Mapping[str, int]) -> None:
        await self._call(lambda store: store.forget(session_id, handled))

    async def close(self) -> None:
        """Finish what was submitted, then close the file."""
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def _call(self, call: Callable[[Store], T], *, flush: bool = False) -> T:
        if self._closed:
            raise OutboxError(f"The outbox {self._path} is closed.")
        job = _Job(call, flush, asyncio.get_running_loop())
        self._jobs.put(job)
        return await job.future

    # --- the writer thread ---
    def _work(self) -> None:
        while (group := self._next_group()) is not None:
            self._commit(group)
            _resolve(group)
        with suppress(apsw.Error):  # If the disk is still full, the log beside the file is read.
            self._database.close()
        os.close(self._lock)

    def _next_group(self) -> list[_Job] | None:
        """Wait for a call and return it with all that wait already. The sentinel is queued again for the next round."""
        first = self._jobs.get()
        if first is None:
            return None
        group = [first]
        while len(group) < GROUP_JOBS and not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)
                break
            group.append(job)
        return group

    def _commit(self, group: list[_Job]) -> None:
        """Run a group in one transaction. A failure of the store fails every call of the group; a temporarily failing
        disk is waited for."""
        waited_s = 0.0
        while True:
            try:
                self._together(group)
                if waited_s:
                    log.info("the outbox is written again", path=str(self._path))
                return
            except Exception as error:  # noqa: BLE001 - a thread that died would leave every caller waiting
                self._undo()
                if not isinstance(error, _DISK) or self._closing.is_set():
                    failure = OutboxError(f"The outbox {self._path} could not be written ({error}). Check that the "
                                          "disk has room and works; nothing that was acknowledged is lost.")
                    for job in group:
                        job.error = failure
                    return
                if waited_s % DISK_LOG_INTERVAL_S == 0:
                    log.warning("the outbox cannot be written, and agents wait for it: check that its disk has room",
                                path=str(self._path), error=type(error).__name__)
                waited_s += DISK_WAIT_S
                self._closing.wait(DISK_WAIT_S)

    def _together(self, group: list[_Job]) -> None:
        self._set_level("FULL" if any(job.flush for job in group) else "NORMAL")
        self._database.execute("BEGIN IMMEDIATE")
        for job in group:
            job.result, job.error = None, None
            _run(job, self._store)
        self._store.settle()
        self._database.execute("COMMIT")

    def _set_level(self, level: str) -> None:
        if level != self._level:
            self._database.execute("PRAGMA synchronous = " + level)
            self._level = level

    def _undo(self) -> None:
        """Roll back to what is on disk. If that fails, the next call fails with its own error."""
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            self._store.reload()
        except apsw.Error:
            self._level = ""


def _run(job: _Job, store: Store) -> None:
    try:
        job.result = job.call(store)
    except _REFUSALS as error:
        job.error = error


def _resolve(group: list[_Job]) -> None:
    """Wake the callers, once per loop, after the commit (decide, commit, publish)."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:
            continue  # The loop is closed: there are no waiters, and what was written stays.


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        job.settle()
