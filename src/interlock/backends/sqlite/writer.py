"""The one writer thread: it takes all that waits into one transaction, and answers everyone with one wake-up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, NamedTuple

import apsw

from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.faults import SqliteClosed, concerns_one_batch, translate
from interlock.backends.sqlite.transaction import Absent, Transaction
from interlock.ports.ledger import LedgerError

WRITE_QUEUE_LIMIT = 4_096
"""Batches handed over and not yet answered; one more waits, in the order of the calls, until one is answered."""
GROUP_LIMIT = 512
"""Batches in one transaction at the most, so that the first of a long queue does not wait for the last."""
LINGER_SHARE, MAX_LINGER_S = 0.25, 0.001
"""A group waits for jobs that are likely to come: this share of the last commit's time, and at most this time."""

Work = Callable[[Transaction], Any]
Measured = Callable[[int, float], None]
"""Receives how many batches a transaction took, and the seconds from its begin to its end on disk."""


class _Job(NamedTuple):
    work: Work
    answer: asyncio.Future[Any]


class _Outcome(NamedTuple):
    answer: asyncio.Future[Any]
    value: Any
    error: LedgerError | None


class SqliteWriter:
    """Owns the writing connection. `run` is called on the event loop that the writer was made on."""

    def __init__(self, connection: SqliteDatabase) -> None:
        self._connection = connection
        self._transaction = Transaction(connection)
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(WRITE_QUEUE_LIMIT)
        self._handed: list[_Job] = []
        """What this turn of the loop has asked for."""
        self._queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._waiting: deque[_Job] = deque()
        """What the thread has taken out of the queue."""
        self._open = True
        self._door = Lock()  # Nothing may be put behind the None that ends the thread.
        self._closed = False
        self._expected, self._last_size, self._linger_s = 1, 1, 0.0
        self._measured: Measured = lambda _batches, _seconds: None
        self._thread = Thread(target=self._serve, name="ledger-writer", daemon=True)
        self._thread.start()

    def measure(self, measured: Measured) -> None:
        """Call `measured` with the batches and the seconds of each transaction, on the writer's thread."""
        self._measured = measured

    @property
    def absent_scopes(self) -> Absent:
        """Idempotency scopes that were not written since the ledger was opened, nor added by the caller."""
        return self._transaction.absent_scopes

    async def run(self, work: Work) -> Any:
        """Do `work` in a transaction; returns its result once that is durable. Raises LedgerError.

        A caller that is cancelled while it waits leaves the work to be done all the same.
        """
        await self._room.acquire()
        try:
            answer: asyncio.Future[Any] = self._loop.create_future()
            with self._door:
                if self._closed:
                    raise SqliteClosed("The ledger is closed.")
                if not self._handed:
                    # A busy loop decides much in one turn: it goes over together, and the thread is woken once.
                    self._loop.call_soon(self._hand_over)
                self._handed.append(_Job(work, answer))
            return await answer
        finally:
            self._room.release()

    def _hand_over(self) -> None:
        with self._door:
            if not self._closed:
                self._queue.put(self._handed)
                self._handed = []

    def close(self) -> None:
        """Finish what was handed over and end the thread. Blocks; may be called from any thread, and again."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._queue.put(self._handed)
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while self._open or self._waiting:
            if group := self._gather():
                began = perf_counter()
                outcomes = self._commit(group)
                taken = perf_counter() - began
                self._measured(len(group), taken)
                self._expect(len(group), taken)
                if self._transaction.take_erased():
                    self._fold()
                self._answer(outcomes)
        with suppress(apsw.Error):  # A disk that is full still: what is in the log beside the file is read from there.
            self._connection.close()

    def _gather(self) -> list[_Job]:
        """Take all that waits, and what is about to come; nothing where nothing comes any more."""
        waiting = self._waiting
        if self._open and not waiting:
            self._take(self._queue.get())
        until = perf_counter() + self._linger_s
        while self._open and len(waiting) < GROUP_LIMIT:
            try:
                self._take(self._queue.get_nowait())
            except Empty:
                left_s = until - perf_counter()
                if len(waiting) >= self._expected or left_s <= 0:
                    break
                try:
                    self._take(self._queue.get(timeout=left_s))
                except Empty:
                    break
        return [waiting.popleft() for _ in range(min(len(waiting), GROUP_LIMIT))]

    def _take(self, jobs: list[_Job] | None) -> None:
        if jobs is None:
            self._open = False
        else:
            self._waiting.extend(jobs)

    def _expect(self, size: int, taken_s: float) -> None:
        """Set the number of jobs to expect. Callers that were answered together send their next jobs together: without
        a short wait the first job would get a sync of the disk for itself, and the others would wait for it. A single
        caller never waits."""
        fewer, more = sorted((size, self._last_size))
        # One that ran ahead belongs to those behind it.
        self._expected = fewer + more if fewer * 2 < more else more
        self._last_size = size
        self._linger_s = min(MAX_LINGER_S, taken_s * LINGER_SHARE) if self._expected > 1 else 0.0

    def _commit(self, group: Sequence[_Job]) -> list[_Outcome]:
        """Commit a group together; when one of it fails by itself, commit the others."""
        try:
            return self._together(group)
        except Exception as error:  # noqa: BLE001 - whatever a batch raises is answered to the one who waits for it
            self._roll_back()
            if len(group) == 1 or not concerns_one_batch(error):
                return [_Outcome(job.answer, None, translate(error)) for job in group]
        try:
            return self._apart(group)
        except Exception as error:  # noqa: BLE001 - as above
            self._roll_back()
            return [_Outcome(job.answer, None, translate(error)) for job in group]

    def _together(self, group: Sequence[_Job]) -> list[_Outcome]:
        self._connection.execute("BEGIN IMMEDIATE")
        outcomes = [_Outcome(job.answer, job.work(self._transaction), None) for job in group]
        self._transaction.flush()
        self._connection.execute("COMMIT")
        return outcomes

    def _apart(self, group: Sequence[_Job]) -> list[_Outcome]:
        # One transaction still, for one sync of the disk; a savepoint around each batch lets it fail alone.
        outcomes: list[_Outcome] = []
        self._connection.execute("BEGIN IMMEDIATE")
        for job in group:
            self._connection.execute("SAVEPOINT batch")
            try:
                value = job.work(self._transaction)
                self._transaction.flush()
            except Exception as error:
                self._transaction.forget()
                if not concerns_one_batch(error):
                    raise
                self._connection.execute("ROLLBACK TO batch")
                outcomes.append(_Outcome(job.answer, None, translate(error)))
            else:
                outcomes.append(_Outcome(job.answer, value, None))
            self._connection.execute("RELEASE batch")
        self._connection.execute("COMMIT")
        return outcomes

    def _roll_back(self) -> None:
        self._transaction.forget()
        # A full disk may have ended the transaction already.
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _fold(self) -> None:
        """Fold the log into the file and empty it, so that what was erased is in neither (U-4)."""
        with suppress(apsw.Error):  # A long read holds it up; then it is folded in as every day, later.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _answer(self, outcomes: list[_Outcome]) -> None:
        # RuntimeError: the loop was closed without closing the ledger; what was written stays written.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_deliver, outcomes)


def _deliver(outcomes: list[_Outcome]) -> None:
    for answer, value, error in outcomes:
        if answer.done():
            continue
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
