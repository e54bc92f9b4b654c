"""The only writing connection of a gateway: everything that waits is written in one transaction, and answered together.

A group of batches is one statement if it can be (`at_once`), otherwise a transaction of several. If the connection
breaks during a commit, its outcome is unknown. Every transaction writes its number into this writer's row; after the
next connect that row shows which was the last, so the answer is never a guess (C-4, D-1).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import structlog

from interlock.backends.audit_room import NoRoom
from interlock.backends.postgres import statements
from interlock.backends.postgres.at_once import AtOnce, InDoubt, TransactionMark
from interlock.backends.postgres.database import (
    IDLE_TIMEOUT_MS,
    RETRY_MAX_S,
    RETRY_MIN_S,
    STATEMENT_TIMEOUT_MS,
    WAIT_FOR_SERVER_S,
    PostgresConnection,
    PostgresSettings,
    close_quietly,
    connect,
    shown,
)
from interlock.backends.postgres.entries import Entries
from interlock.backends.postgres.faults import (
    AWAY_EVENTS,
    LINK_FAULTS,
    PostgresClosed,
    concerns_one_batch,
    is_away,
    is_in_the_way,
    translate,
    why_away,
)
from interlock.backends.postgres.single import NOTED_NUMBERS, NotAtOnce, NotedChange, Reason
from interlock.backends.postgres.texts import encoded_lane, lane_columns
from interlock.backends.postgres.transaction import CommitGroup
from interlock.command.audit.audit import TailBound
from interlock.ports import trips
from interlock.ports.ledger import AuditAppend, Fenced, LaneName, LedgerError, OutcomeUnknown, Receipt, WriteBatch
from interlock.ports.outage_log import OutageLog
from interlock.ports.trips import Trips

WRITE_QUEUE_LIMIT = 4_096
"""Submitted batches without an answer; a further one waits, in the order of the calls, until one is answered."""
GROUP_LIMIT = 512
"""Maximum batches in one transaction, so that the first of a long queue does not wait for the last."""
CLOSING_WAIT_S = 3.0
"""How long a closing writer queries the outcome of a commit in doubt; after it the client has to check."""
TRIES_IN_THE_WAY = 8
"""Attempts of a transaction that others block, each a little later."""

T = TypeVar("T")
Work = Callable[[PostgresConnection], Awaitable[Any]]
Measured = Callable[[int, float], None]
"""Receives how many batches a transaction had, and the seconds from its begin to its durability."""
Stepwise = Callable[[Reason], None]
"""Called with the reason for each group that is not committed by one statement."""
log = structlog.get_logger("interlock.postgres")


class _Job(NamedTuple):
    """A batch, or work with a transaction of its own, or a statement that is one; and its deadline while the server is
    unavailable."""

    batch: WriteBatch | None
    work: Work | None
    change: NotedChange | None
    answer: asyncio.Future[Any]
    until_s: float
    spent: Trips
    """The round trips of its transaction."""


class _Outcome(NamedTuple):
    answer: asyncio.Future[Any]
    value: Any
    error: Exception | None = None


class PostgresWriter:
    """The owner of the writing connection. Created and used on one event loop; call `open` first."""

    def __init__(self, settings: PostgresSettings, entries: Entries | None, bound: TailBound | None = None) -> None:
        """Create the writer; `bound` limits unsigned audit records."""
        self._settings = settings
        self._entries = entries
        self._id = "w_" + os.urandom(12).hex()
        self._number = 0
        self._begin = statements.BEGIN.format(statement_timeout_ms=STATEMENT_TIMEOUT_MS,
                                              idle_timeout_ms=IDLE_TIMEOUT_MS, writer_id=self._id)
        self._connection: PostgresConnection | None = None
        self._room = asyncio.Semaphore(WRITE_QUEUE_LIMIT)
        self._queue: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._closing_until_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._single = AtOnce(entries)
        self._undecided: int | None = None
        """The number of a statement whose reply was lost, until its outcome is known."""
        self._doubted = False
        """Whether there was such a statement: it may reach the server at any later time, and is refused by the row."""
        self._written: CommitGroup | None = None
        """The writes of the open transaction."""
        self._stepwise: Stepwise = lambda _reason: None
        self._measured: Measured = lambda _batches, _seconds: None
        self._bound = bound
        self._outages = {event: OutageLog(log, event, "postgres_answers", _now_s) for event in AWAY_EVENTS}

    def measure(self, measured: Measured, stepwise: Stepwise) -> None:
        """Call `measured` with the batches and the seconds of each transaction, and `stepwise` with the reason of each
        that took more than one statement."""
        self._measured, self._stepwise = measured, stepwise

    async def open(self, connection: PostgresConnection) -> None:
        """Start with an open connection. Raises asyncpg's exceptions."""
        self._connection = connection
        await connection.execute(statements.FORGET_WRITERS)
        # So that the row exists to wait for, from the first transaction on.
        await connection.execute(statements.NOTE_WRITER, self._id, 0)
        self._task = asyncio.create_task(self._serve(), name="ledger writer")

    async def commit(self, batch: WriteBatch) -> Receipt:
        """Write a batch; returns once that is durable. Raises LedgerError."""
        return await self._hand_over(batch)

    async def run(self, work: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """Do `work` in a transaction of its own, after what was submitted before; it is repeated from its start if the
        first attempt was rolled back. Raises LedgerError."""
        return await self._hand_over(None, work)

    async def change(self, sql: str, *values: Any) -> bool:
        """Run one statement that returns a row for each row that it changes, after what was submitted before, in one
        round trip; returns whether it changed any. Raises LedgerError."""
        changed, = await self._hand_over(None, None, NotedChange([("changed", sql)], values))
        return changed > 0

    async def numbers(self, parts: Sequence[tuple[str, str]], *values: Any) -> Sequence[int]:
        """Run one statement like `change`, made of named parts; returns the array `numbers` of its part `changed`, also
        if the reply was lost and the writer's row has it. Raises LedgerError."""
        return await self._hand_over(None, None, NotedChange(parts, values, NOTED_NUMBERS))

    async def close(self) -> None:
        """Finish what was submitted and close the connection. May be called again. While the server is unavailable this
        takes CLOSING_WAIT_S: then a commit in doubt raises OutcomeUnknown to its caller."""
        if not self._closed:
            self._closed = True
            self._closing_until_s = asyncio.get_running_loop().time() + CLOSING_WAIT_S
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._connection is not None:
            with suppress(*LINK_FAULTS):
                if not self._doubted:
                    await self._connection.execute("DELETE FROM writer WHERE id = $1", self._id)
            await close_quietly(self._connection)
            self._connection = None

    async def _hand_over(self, batch: WriteBatch | None, work: Work | None = None, change: NotedChange | None = None
                         ) -> Any:
        await self._room.acquire()
        try:
            if self._closed:
                raise PostgresClosed("The ledger is closed.")
            loop = asyncio.get_running_loop()
            waits = trips.CURRENT.get() or Trips()
            begun_at = waits.in_a_row
            job = _Job(batch, work, change, loop.create_future(), loop.time() + WAIT_FOR_SERVER_S, Trips())
            self._queue.append(job)
            self._wake.set()
            try:
                # A cancelled caller does not stop the work.
                return await job.answer
            finally:
                waits.ended(begun_at, job.spent)
        finally:
            self._room.release()

    async def _serve(self) -> None:
        while True:
            if not self._queue:
                if self._closed:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            group = self._take_group()
            began = perf_counter()
            with trips.counting() as spent:
                outcomes = await self._retrying(group)
            spent.commits += 1
            for job in group:
                job.spent.ended(0, spent)
            self._measured(len(group), perf_counter() - began)
            for answer, value, error in outcomes:
                if answer.done():
                    continue
                if error is None:
                    answer.set_result(value)
                else:
                    answer.set_exception(error)
            # A caller that has just been answered may submit more: with it the next transaction is twice as full.
            await asyncio.sleep(0)

    def _take_group(self) -> list[_Job]:
        group = [self._queue.popleft()]
        while group[0].batch is not None and self._queue and len(group) < GROUP_LIMIT \
                and self._queue[0].batch is not None:
            group.append(self._queue.popleft())
        return group

    async def _retrying(self, group: list[_Job]) -> list[_Outcome]:
        """Commit a group, also across a restart of the server; a caller that has waited too long gets an error. A group
        that is refused because of one of its batches is committed in halves, one after the other: the others neither
        fail with it nor wait long."""
        outcomes: list[_Outcome] = []
        delay_s, tries = RETRY_MIN_S, 0
        loop = asyncio.get_running_loop()
        groups = deque([group])
        while groups:
            group = groups.popleft()
            if not group:
                continue
            try:
                outcomes += await self._once(group)
                for outage in self._outages.values():
                    outage.ended()
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer of those who wait
                if is_in_the_way(error) and tries < TRIES_IN_THE_WAY:
                    tries += 1
                elif is_away(error) and not isinstance(error, OutcomeUnknown):
                    event, reason = why_away(error, shown(self._settings.dsn))
                    self._outages[event].failed(reason)
                    # If the server is unavailable the writer closes with it: waiting batches can no longer be stored.
                    gone = [job for job in group if self._closed or job.until_s < loop.time() + delay_s]
                    outcomes += [_Outcome(job.answer, None, translate(error)) for job in gone]
                    group = [job for job in group if job not in gone]
                elif isinstance(error, NoRoom) and len(group) > 1:
                    # Those that do not fit are retried once the log is signed, which waits for this group.
                    full = _without_room(group, error)
                    outcomes += [_Outcome(job.answer, None, error) for job in group if job.answer in full]
                    groups.appendleft([job for job in group if job.answer not in full])
                    continue
                elif len(group) > 1 and concerns_one_batch(error):
                    groups.extendleft((group[len(group) // 2:], group[:len(group) // 2]))
                    continue
                else:
                    outcomes += [_Outcome(job.answer, None, translate(error)) for job in group]
                    continue
            if group:
                groups.appendleft(group)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
        return outcomes

    async def _once(self, group: Sequence[_Job]) -> list[_Outcome]:
        """Commit a group together. Raises NotAtOnce("refused") or another error that one of its batches may have
        caused, and errors that concern them all; then nothing was committed."""
        try:
            return await self._at_once(group)
        except NotAtOnce as refused:
            self._stepwise(refused.reason)
            if refused.reason == "refused" and len(group) > 1:
                raise
        return await self._transaction(group)

    async def _at_once(self, group: Sequence[_Job]) -> list[_Outcome]:
        """Commit a group by one statement. Raises NotAtOnce and faults of the server; nothing is committed then."""
        if (change := group[0].change) is not None:
            found = await self._sent(group, lambda connection, mark: self._single.change(connection, mark, change))
            return [_Outcome(group[0].answer, found)]
        made = self._single.gather([job.batch for job in group], self._bound)
        epochs = [epoch for job in group if job.batch is not None for epoch in job.batch.epochs]
        try:
            heads = await self._sent(group, lambda connection, mark: self._single.send(connection, mark, made, epochs))
        except Exception:
            self._single.forget(made)
            raise
        made.number(heads)
        self._single.keep(made)
        return [_Outcome(job.answer, receipt) for job, receipt in zip(group, made.receipts, strict=True)]

    async def _sent(self, group: Sequence[_Job],
                    send: Callable[[PostgresConnection, TransactionMark], Awaitable[Sequence[int]]]
                    ) -> Sequence[int]:
        """Send a statement under the next number, and determine its outcome if its reply is lost; returns its
        numbers."""
        connection = await self._connected()
        self._number += 1
        try:
            return await send(connection, TransactionMark(self._id, self._number))
        except InDoubt as doubt:
            self._drop(connection)
            self._undecided, self._doubted = self._number, True
            found = await self._looked(self._decided, group)
            if found is None:
                raise doubt.fault from None
            return found
        except LINK_FAULTS as error:
            if is_away(error):
                self._drop(connection)
            raise

    async def _transaction(self, group: Sequence[_Job]) -> list[_Outcome]:
        connection = await self._connected()
        self._number += 1
        self._written = None
        try:
            await connection.execute(self._begin.format(number=self._number))
            outcomes = await self._together(connection, group)
        except BaseException:
            if self._entries is not None:
                self._entries.forget()
            await self._roll_back(connection)
            raise
        try:
            if await connection.execute("COMMIT") != "COMMIT":
                raise LedgerError("PostgreSQL rolled the transaction back.")
        except Exception as error:
            if not is_away(error):
                await self._roll_back(connection)
                raise
            self._drop(connection)
            if not await self._looked(self._was_committed, group):
                raise
        if self._written is not None:
            self._single.keep(self._written)
        return outcomes

    async def _together(self, connection: PostgresConnection, group: Sequence[_Job]) -> list[_Outcome]:
        work = group[0].work
        stale = await self._stale(connection, group)
        if work is not None:
            return [_Outcome(group[0].answer, await work(connection))]
        made = CommitGroup(self._entries, self._bound)
        kept = [job for job, error in zip(group, stale, strict=True) if error is None]
        for job in kept:
            assert job.batch is not None, "work has a group for itself"
            made.add(job.batch)
        await made.run(connection)
        self._written = made
        receipts = dict(zip(map(id, kept), made.receipts, strict=True))
        return [_Outcome(job.answer, receipts.get(id(job)), error) for job, error in zip(group, stale, strict=True)]

    async def _stale(self, connection: PostgresConnection, group: Sequence[_Job]) -> list[LedgerError | None]:
        """Lock the lanes of a group, and return for each batch why it cannot be committed (C-4)."""
        wanted = [job.batch.epochs if job.batch is not None else () for job in group]
        lanes = list(dict.fromkeys(encoded_lane(lane) for epochs in wanted for lane, _ in epochs))
        found = await connection.fetch(statements.HOLD_LANES, *lane_columns(lanes)) if lanes else []
        newest = {LaneName(tenant_id, name): int(epoch) for tenant_id, name, epoch in found}
        return [next((_fenced(lane, newest.get(encoded_lane(lane), 0), epoch) for lane, epoch in epochs
                      if newest.get(encoded_lane(lane)) != epoch), None) for epochs in wanted]

    async def _connected(self) -> PostgresConnection:
        """Return the connection, or a new one, on which the last transaction's outcome is determined before anything
        else."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._settings)
        if self._undecided is not None:
            try:
                await self._decided(self._connection)
            except LINK_FAULTS:
                self._drop(self._connection)
                raise
        return self._connection

    async def _decided(self, connection: PostgresConnection) -> Sequence[int] | None:
        """Determine the outcome of the statement in doubt, which may still reach the server: returns the new heads of
        its streams if it was committed, otherwise None, and then it never will be."""
        number, self._undecided = self._undecided, None
        try:
            await connection.execute(statements.DECIDE_WRITER, self._id, number)
            return await connection.fetchval(statements.HEADS_OF_WRITER, self._id, number)
        except BaseException:
            self._undecided = number
            raise

    async def _was_committed(self, connection: PostgresConnection) -> bool:
        found = await connection.fetchval(statements.LAST_OF_WRITER, self._id)
        return found is not None and found >= self._number

    async def _looked(self, look: Callable[[PostgresConnection], Awaitable[T]], group: Sequence[_Job]) -> T:
        """Query the server until it answers; callers wait as long, so none receives a wrong outcome. Raises
        OutcomeUnknown if the server is still unavailable when the last of them times out, or CLOSING_WAIT_S after the
        writer closes."""
        delay_s, loop = RETRY_MIN_S, asyncio.get_running_loop()
        until_s = max(job.until_s for job in group)
        while loop.time() < (min(until_s, self._closing_until_s) if self._closed else until_s):
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await connect(self._settings)
                return await look(self._connection)
            except Exception as error:
                if self._connection is not None:
                    self._drop(self._connection)
                if not is_away(error) and not is_in_the_way(error):
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, RETRY_MAX_S)
        raise OutcomeUnknown("PostgreSQL is away, so whether it has committed the last transaction is not known.")

    async def _roll_back(self, connection: PostgresConnection) -> None:
        try:
            await connection.execute("ROLLBACK")
        except LINK_FAULTS:
            self._drop(connection)

    def _drop(self, connection: PostgresConnection) -> None:
        connection.terminate()
        self._connection = None


def _without_room(group: Sequence[_Job], error: NoRoom) -> set[asyncio.Future[Any]]:
    """Return the answers of the batches that do not fit into a log after those before them; at least of the last."""
    left, full = error.room, set[asyncio.Future[Any]]()
    for job in group:
        writes = job.batch.writes if job.batch is not None else ()
        more = sum(isinstance(one, AuditAppend) and one.draft.tenant_id == error.tenant_id for one in writes)
        if more and (full or more > left):
            full.add(job.answer)
        left -= more
    return full or {group[-1].answer}


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _fenced(lane: LaneName, newest: int, epoch: int) -> Fenced:
    return Fenced(f"The lane {lane.name} has the epoch {newest}, and the batch carries {epoch}: another owner took it.")
