"""The bus within one process. Gateways that share a `Hub` receive each other's messages; a member can be disconnected
and reconnected."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from interlock.ports.bus import (
    MAX_NOTE_BYTES,
    MAX_REQUEST_BYTES,
    UNDER_WAY,
    AnswerFailed,
    Bus,
    BusCounts,
    BusError,
    BusProbe,
    BusTimeout,
    CutOff,
    NoResponder,
    Subscription,
    check_subject,
    matches,
)

WAITING_NOTES = 65_536
"""Messages that wait for one subscription; a further one is dropped, and its gateway notified of a gap."""

log = structlog.get_logger()
Receive = Callable[[bytes], None]
Answer = Callable[[bytes], Awaitable[bytes]]


class Hub:
    """The connection of one process's members."""

    def __init__(self) -> None:
        self.exact: dict[str, list[_Reader]] = {}
        self.wide: list[_Reader] = []
        self.served: dict[str, deque[_Served]] = {}

    def readers(self, subject: str) -> list[_Reader]:
        """Return the subscribers of a subject."""
        return [*self.exact.get(subject, ()), *(one for one in self.wide if matches(one.subject, subject))]


class LocalBus(Bus):
    """See `interlock.ports.bus.Bus`."""

    def __init__(self, hub: Hub | None = None) -> None:
        self._hub = hub or Hub()
        self._mine: list[_Reader | _Served] = []
        self._gaps: list[Callable[[], None]] = []
        self._away = False
        self._closed = False
        self._asked: dict[asyncio.Future[bytes], None] = {}
        """Requests that wait for their answers, in order: they end in it, too."""
        self._published = self._dropped = self._missed = 0

    def publish(self, subject: str, body: bytes) -> None:
        check_subject(subject)
        if self._away or self._closed or len(body) > MAX_NOTE_BYTES:
            self._dropped += 1
            return
        self._published += 1
        for reader in self._hub.readers(subject):
            reader.put(body)

    async def subscribe(self, subject: str, receive: Receive) -> Subscription:
        check_subject(subject, wide=True)
        self._refuse_when_closed()
        reader = _Reader(self, subject, receive)
        (self._hub.wide if subject.endswith(".>") else self._hub.exact.setdefault(subject, [])).append(reader)
        self._mine.append(reader)
        return reader

    async def request(self, subject: str, body: bytes, timeout_ms: int) -> bytes:
        check_subject(subject)
        self._refuse_when_closed()
        if len(body) > MAX_REQUEST_BYTES:
            raise BusError(f"A request of {len(body)} bytes is too large for the bus.")
        if self._away:
            raise CutOff(self.where)
        servers = self._hub.served.get(subject)
        free = [one for one in servers or () if one.takes()]
        if not servers or not free:
            raise NoResponder(f"No responder serves {subject} now.")
        servers.rotate(-1)
        answering = free[0].begin(body)
        waiting = asyncio.shield(answering)  # The responder continues, whether or not the requester still waits.
        self._asked[waiting] = None
        try:
            return await asyncio.wait_for(waiting, timeout_ms / 1000)
        except TimeoutError as error:
            raise BusTimeout(f"{subject} did not answer within {timeout_ms} ms.") from error
        except asyncio.CancelledError:
            if answering.cancelled() or self._closed:
                raise BusError("The bus was closed.") from None
            raise
        finally:
            self._asked.pop(waiting, None)

    async def serve(self, subject: str, answer: Answer) -> Subscription:
        check_subject(subject)
        self._refuse_when_closed()
        served = _Served(self, subject, answer)
        self._hub.served.setdefault(subject, deque()).append(served)
        self._mine.append(served)
        return served

    def on_gap(self, missed: Callable[[], None]) -> None:
        self._gaps.append(missed)

    def counts(self) -> BusCounts:
        return BusCounts(self._published, self._dropped, self._missed)

    def connected(self) -> bool:
        return not (self._away or self._closed)

    @property
    def where(self) -> str:
        return "The bus of this process"

    async def probe(self, timeout_ms: int) -> BusProbe:
        if not self.connected():
            raise CutOff(self.where)
        return BusProbe("in this process", 0.0)

    def cut_off(self) -> None:
        """Disconnect from the others, as behind a broken network."""
        self._away = True

    def come_back(self) -> None:
        """Reconnect, and notify subscribers that messages may have been missed."""
        if self._away:
            self._away = False
            self.gap()

    async def close(self) -> None:
        self._closed = True
        for one in [*self._mine]:
            await one.end()
        for request in self._asked:
            request.cancel()

    @property
    def away(self) -> bool:
        """Return whether it is disconnected."""
        return self._away

    def missed(self) -> None:
        """Count a message that a subscriber dropped."""
        self._missed += 1

    def gap(self) -> None:
        """Notify the subscribers that messages may have been missed."""
        for missed in self._gaps:
            missed()

    def drop(self, one: _Reader | _Served) -> None:
        """Remove what has ended."""
        if one in self._mine:
            self._mine.remove(one)
        if isinstance(one, _Served):
            _take_out(self._hub.served, one.subject, one)
        elif one in self._hub.wide:
            self._hub.wide.remove(one)
        else:
            _take_out(self._hub.exact, one.subject, one)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BusError("The bus was closed.")


def _take_out(table: dict[str, list[_Reader]] | dict[str, deque[_Served]], subject: str, one: object) -> None:
    row = table.get(subject)
    if row is not None and one in row:
        row.remove(one)  # pyright: ignore[reportArgumentType] - it is in this row
        if not row:
            del table[subject]


class _Reader:
    """A subscription: messages wait here for the next iteration of the loop."""

    def __init__(self, bus: LocalBus, subject: str, receive: Receive) -> None:
        self.subject = subject
        self._bus = bus
        self._receive = receive
        self._waiting: deque[bytes] = deque()
        self._behind = False
        self._ended = False
        self._loop = asyncio.get_running_loop()

    def put(self, body: bytes) -> None:
        """Queue a message for delivery."""
        if self._bus.away:
            return
        if len(self._waiting) >= WAITING_NOTES:
            self._behind = True
            self._bus.missed()
            return
        if not self._waiting:
            self._loop.call_soon(self._deliver)
        self._waiting.append(body)

    def _deliver(self) -> None:
        for _ in range(len(self._waiting)):
            if self._ended:
                return
            body = self._waiting.popleft()
            try:
                self._receive(body)
            except Exception:
                log.exception("bus_reader_failed", subject=self.subject)
        if self._waiting:
            self._loop.call_soon(self._deliver)
        elif self._behind:
            self._behind = False
            self._bus.gap()

    async def end(self) -> None:
        self._ended = True
        self._waiting.clear()
        self._bus.drop(self)


class _Served:
    """A responder of a subject."""

    def __init__(self, bus: LocalBus, subject: str, answer: Answer) -> None:
        self.subject = subject
        self._bus = bus
        self._answer = answer
        self._under_way: dict[asyncio.Task[bytes], None] = {}
        """Answers under way, in order: they are cancelled in it, too."""

    def takes(self) -> bool:
        """Return whether a further request can be answered."""
        return not self._bus.away and len(self._under_way) < UNDER_WAY

    def begin(self, body: bytes) -> asyncio.Task[bytes]:
        """Start to answer."""
        task = asyncio.create_task(self._run(body))
        self._under_way[task] = None
        task.add_done_callback(self._done)
        return task

    async def _run(self, body: bytes) -> bytes:
        try:
            answer = await self._answer(body)
        except Exception as error:
            log.exception("bus_answer_failed", subject=self.subject)
            raise AnswerFailed(f"{self.subject} failed while it answered.") from error
        if len(answer) > MAX_REQUEST_BYTES:
            raise AnswerFailed(f"{self.subject} answered with more than the bus carries.")
        return answer

    def _done(self, task: asyncio.Task[bytes]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled():
            task.exception()  # The requester may have gone; then the result is not read.

    async def end(self) -> None:
        self._bus.drop(self)
        for task in self._under_way:
            task.cancel()
