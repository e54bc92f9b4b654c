"""The bus on NATS. See `interlock.ports.bus.Bus`: lost messages are recovered from the stores."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import nats.errors
import structlog

from interlock.backends.bus_nats.link import NatsLink, NatsMessage, NatsSubscription, ping
from interlock.backends.bus_nats.parcels import HEADER, PART_BYTES, Parcels, opened
from interlock.backends.bus_nats.places import NatsServers
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
    LostOver,
    NoResponder,
    Subscription,
    check_subject,
)

OUT_NOTES = 65_536
"""Messages that wait to be sent; a further one is dropped and counted."""
STATUS = "Interlock-Status"
"""A header of answers that are none: `failed`, or `busy`."""
SERVERS = "servers"
"""The queue of the responders of one subject."""

GAP_AFTER_S = 0.2
"""A subscriber that falls behind misses many messages at once; its gateway is notified once, when it may have caught
up."""

log = structlog.get_logger("interlock.bus")


async def open_bus(places: NatsServers, prefix: str) -> NatsBus:
    """Open the bus. All subjects are below `prefix`, so that clusters on shared servers do not mix. While no server is
    reachable it keeps trying; this is logged, and `connected` reports it."""
    check_subject(prefix)
    bus = NatsBus(places, prefix)
    await bus.open()
    return bus


class NatsBus(Bus):
    """See `interlock.ports.bus.Bus`."""

    def __init__(self, places: NatsServers, prefix: str) -> None:
        self._prefix = prefix
        self._places = places
        self._link = NatsLink(places, prefix, self._gap, self._missed_one, self._lose_answers)
        self._parcels = Parcels(prefix)
        self._gaps: list[Callable[[], None]] = []
        self._out: deque[tuple[str, bytes]] = deque()
        self._more = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._asked = set[asyncio.Task[bytes]]()
        self._lost = set[asyncio.Task[bytes]]()
        """Requests whose answers were lost with a link."""
        self._answering = set[asyncio.Task[None]]()
        self._closed = self._gap_is_near = False
        self._published = self._dropped = self._missed = 0

    async def open(self) -> None:
        """Connect, or keep trying."""
        await self._link.add(NatsSubscription(self._parcels.subject, self._give_part))
        await self._link.open()
        self._pump = asyncio.create_task(self._send_notes(), name="bus notes")

    def publish(self, subject: str, body: bytes) -> None:
        check_subject(subject)
        if self._link.client is None or len(body) > MAX_NOTE_BYTES or len(self._out) >= OUT_NOTES or self._closed:
            self._dropped += 1
            return
        self._published += 1
        self._out.append((self._named(subject), body))
        self._more.set()

    async def subscribe(self, subject: str, receive: Callable[[bytes], None]) -> Subscription:
        check_subject(subject, wide=True)
        self._refuse_when_closed()

        async def handle(message: NatsMessage) -> None:
            try:
                receive(message.data)
            except Exception:
                log.exception("bus_reader_failed", subject=subject)

        return await self._subscribe(NatsSubscription(self._named(subject), handle))

    async def request(self, subject: str, body: bytes, timeout_ms: int) -> bytes:
        check_subject(subject)
        self._refuse_when_closed()
        if len(body) > MAX_REQUEST_BYTES:
            raise BusError(f"A request of {len(body)} bytes is too large for the bus.")
        asking = asyncio.create_task(self._ask(subject, body, timeout_ms / 1000))
        self._asked.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            if self._closed:
                raise BusError("The bus was closed.") from None
            task = asyncio.current_task()
            if asking in self._lost and task is not None and not task.cancelling():
                raise LostOver(self.where) from None
            asking.cancel()
            raise
        finally:
            self._lost.discard(asking)
            self._asked.discard(asking)

    async def serve(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        check_subject(subject)
        self._refuse_when_closed()

        async def handle(message: NatsMessage) -> None:
            if len(self._answering) >= UNDER_WAY:
                await self._reply(message, b"", {STATUS: "busy"})
                return
            task = asyncio.create_task(self._answer(subject, message, answer))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

        return await self._subscribe(NatsSubscription(self._named(subject), handle, SERVERS))

    def on_gap(self, missed: Callable[[], None]) -> None:
        self._gaps.append(missed)

    def counts(self) -> BusCounts:
        return BusCounts(self._published, self._dropped, self._missed)

    def connected(self) -> bool:
        return self._link.client is not None and not self._closed

    @property
    def where(self) -> str:
        return f"NATS at {self._places.shown()}"

    async def probe(self, timeout_ms: int) -> BusProbe:
        client = self._link.client
        if client is None or self._closed:
            raise CutOff(self.where)
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await ping(client)
        except (nats.errors.Error, OSError) as error:  # A timeout of either kind is an OSError.
            raise CutOff(self.where) from error
        version = client.connected_server_version
        latency_ms = (asyncio.get_running_loop().time() - began_s) * 1000
        return BusProbe(f"NATS {version.major}.{version.minor}.{version.patch}", latency_ms)

    async def close(self) -> None:
        self._closed = True
        tasks = [*self._asked, *self._answering, *([self._pump] if self._pump is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._pump = None
        self._parcels.close()
        await self._link.close()

    # --- inside ---
    def _named(self, subject: str) -> str:
        return f"{self._prefix}.{subject}"

    def _lose_answers(self) -> None:
        """Fail the pending requests: a link has broken, and published answers are lost with it (core NATS)."""
        self._lost |= self._asked
        for asking in self._asked:
            asking.cancel()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BusError("The bus was closed.")

    async def _subscribe(self, subscription: NatsSubscription) -> Subscription:
        await self._link.add(subscription)
        return _Listening(self._link, subscription)

    async def _send_notes(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._out:
                subject, body = self._out.popleft()
                client = self._link.client
                try:
                    if client is None:
                        raise ConnectionError
                    await client.publish(subject, body)
                except (nats.errors.Error, OSError):
                    self._published -= 1
                    self._dropped += 1

    async def _ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        client = self._link.client
        if client is None:
            raise CutOff(self.where)
        headers = self._parcels.lend(body) if len(body) > PART_BYTES else None
        try:
            answer = await client.request(self._named(subject), b"" if headers else body, timeout_s, headers=headers)
            status = (answer.headers or {}).get(STATUS)
            if status == "busy":
                raise NoResponder(f"Who serves {subject} has too much to do now.")
            if status is not None:
                raise AnswerFailed(f"{subject} failed while it answered.")
            return await opened(answer, self._part)
        except nats.errors.NoRespondersError as error:
            raise NoResponder(f"No responder serves {subject} now.") from error
        except TimeoutError as error:
            raise BusTimeout(f"{subject} did not answer within {timeout_s:g} s.") from error
        except (nats.errors.Error, OSError) as error:
            raise BusError(f"The bus failed while {subject} was asked: {error or type(error).__name__}.") from error
        finally:
            self._parcels.take_back(headers)

    async def _part(self, subject: str, timeout_s: float) -> bytes:
        client = self._link.client
        if client is None:
            raise CutOff(self.where)
        answer = await client.request(subject, b"", timeout_s)
        if STATUS in (answer.headers or {}):
            raise BusError("A part of a body is not there any more.")
        return answer.data

    async def _give_part(self, message: NatsMessage) -> None:
        part = self._parcels.part(message.subject)
        await self._reply(message, part or b"", {} if part is not None else {STATUS: "failed"})

    async def _answer(self, subject: str, message: NatsMessage, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        try:
            body = await answer(await opened(message, self._part))
            if len(body) > MAX_REQUEST_BYTES:
                raise BusError(f"An answer of {len(body)} bytes is too large for the bus.")
            headers = self._parcels.lend(body) if len(body) > PART_BYTES else {}
        except Exception:
            log.exception("bus_answer_failed", subject=subject)
            body, headers = b"", {STATUS: "failed"}
        await self._reply(message, b"" if HEADER in headers else body, headers)

    async def _reply(self, message: NatsMessage, body: bytes, headers: dict[str, str]) -> None:
        client = self._link.client
        if client is not None and message.reply:
            try:
                await client.publish(message.reply, body, headers=headers or None)
            except (nats.errors.Error, OSError) as error:
                log.info("bus_answer_not_sent", reason=str(error))  # The requester gets a timeout.

    def _gap(self) -> None:
        for missed in self._gaps:
            missed()

    def _missed_one(self) -> None:
        self._missed += 1
        if not self._gap_is_near:
            self._gap_is_near = True
            asyncio.get_running_loop().call_later(GAP_AFTER_S, self._report_gap)

    def _report_gap(self) -> None:
        self._gap_is_near = False
        self._gap()


class _Listening(Subscription):
    def __init__(self, link: NatsLink, subscription: NatsSubscription) -> None:
        self._link = link
        self._subscription = subscription

    async def end(self) -> None:
        await self._link.drop(self._subscription)
