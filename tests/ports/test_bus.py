"""One suite over every bus: the guarantees of `interlock.ports.bus`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from interlock.backends.bus_local.bus import Hub, LocalBus
from interlock.backends.bus_nats.bus import open_bus
from interlock.backends.bus_nats.places import read_places
from interlock.ports import bus as port
from interlock.ports.bus import AnswerFailed, Bus, BusError, BusTimeout, NoResponder

pytestmark = pytest.mark.anyio
Join = Callable[[], Awaitable[Bus]]


@pytest.fixture(params=["local", "nats"])
def place(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("nats_server") if request.param == "nats" else request.param


@pytest.fixture
async def join(place: str) -> AsyncIterator[Join]:
    """Join the bus of this test once more."""
    hub, prefix = Hub(), f"test-{secrets.token_hex(8)}"
    async with AsyncExitStack() as ends:
        async def another() -> Bus:
            bus: Bus = LocalBus(hub) if place == "local" else await open_bus(read_places(place), prefix)
            ends.push_async_callback(bus.close)
            return bus

        yield another


class Subscriber:
    """The bodies that a subscription received."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._more = asyncio.Event()

    def __call__(self, body: bytes) -> None:
        self.bodies.append(body)
        self._more.set()

    async def until(self, count: int) -> list[bytes]:
        while len(self.bodies) < count:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 30)
        return self.bodies


async def test_notes_reach_every_subscriber_in_order(join: Join) -> None:
    a, b = await join(), await join()
    at_a, at_b = Subscriber(), Subscriber()
    await a.subscribe("nudge.s/1", at_a)
    await b.subscribe("nudge.s/1", at_b)
    sent = [str(number).encode() for number in range(500)]
    for body in sent:
        a.publish("nudge.s/1", body)
    assert await at_b.until(500) == sent
    assert await at_a.until(500) == sent, "a publisher receives its own"
    assert a.counts().published == 500
    assert a.counts().dropped == 0


async def test_a_probe_returns_the_servers_version_until_the_bus_is_unavailable(join: Join) -> None:
    bus = await join()
    found = await bus.probe(1_000)
    assert "<" not in found.version
    assert 0 <= found.latency_ms < 1_000
    await bus.close()
    with pytest.raises(port.CutOff, match="does not answer"):
        await bus.probe(1_000)


async def test_a_subscription_receives_its_subject_and_a_wildcard_all_below(join: Join) -> None:
    bus = await join()
    exact, wide, everything = Subscriber(), Subscriber(), Subscriber()
    await bus.subscribe("a.b", exact)
    await bus.subscribe("a.>", wide)
    await bus.subscribe("end.>", everything)
    for subject in ("a.b", "a", "a.b.c", "ab.c", "a.c"):
        bus.publish(subject, subject.encode())
    bus.publish("end.now", b"end")
    await everything.until(1)
    assert exact.bodies == [b"a.b"]
    assert wide.bodies == [b"a.b", b"a.b.c", b"a.c"]


@pytest.mark.parametrize("subject", ["", "a..b", ".a", "a.", "a b", "a.*", "a.>", "a\n", "ä"])
async def test_an_invalid_subject_is_refused(join: Join, subject: str) -> None:
    bus = await join()
    with pytest.raises(ValueError, match="not a subject"):
        bus.publish(subject, b"")
    with pytest.raises(ValueError, match="not a subject"):
        await bus.request(subject, b"", 10)
    with pytest.raises(ValueError, match="not a subject"):
        await bus.serve(subject, echo)


async def test_an_ended_subscription_receives_nothing_more(join: Join) -> None:
    bus = await join()
    gone, there = Subscriber(), Subscriber()
    subscription = await bus.subscribe("x", gone)
    await bus.subscribe("x", there)
    await subscription.end()
    await subscription.end()
    bus.publish("x", b"1")
    await there.until(1)
    assert gone.bodies == []


async def test_a_reader_that_fails_is_called_again_and_the_others_too(join: Join) -> None:
    bus = await join()
    there, seen = Subscriber(), []

    def fails(body: bytes) -> None:
        seen.append(body)
        raise RuntimeError("not mine")

    await bus.subscribe("x", fails)
    await bus.subscribe("x", there)
    bus.publish("x", b"1")
    bus.publish("x", b"2")
    await there.until(2)
    assert seen == [b"1", b"2"]


async def test_publishing_never_calls_a_subscriber_directly(join: Join) -> None:
    bus = await join()
    subscriber = Subscriber()
    await bus.subscribe("x", subscriber)
    bus.publish("x", b"1")
    assert subscriber.bodies == []
    await subscriber.until(1)


async def test_a_note_that_is_too_large_is_dropped_and_counted(join: Join) -> None:
    bus = await join()
    subscriber = Subscriber()
    await bus.subscribe("x", subscriber)
    bus.publish("x", b"x" * (port.MAX_NOTE_BYTES + 1))
    bus.publish("x", b"y" * port.MAX_NOTE_BYTES)
    assert await subscriber.until(1) == [b"y" * port.MAX_NOTE_BYTES]
    assert bus.counts().dropped == 1


async def echo(body: bytes) -> bytes:
    return b"<" + body + b">"


async def test_a_request_is_answered_by_its_server(join: Join) -> None:
    a, b = await join(), await join()
    await b.serve("to.b", echo)
    assert await a.request("to.b", b"hello", 5_000) == b"<hello>"
    assert await b.request("to.b", b"", 5_000) == b"<>", "also its own"


async def test_many_requests_are_answered_at_the_same_time(join: Join) -> None:
    a, b = await join(), await join()
    gate, waiting = asyncio.Event(), []

    async def slow(body: bytes) -> bytes:
        waiting.append(body)
        if len(waiting) == 50:
            gate.set()
        await gate.wait()
        return body

    await b.serve("slow", slow)
    bodies = [str(number).encode() for number in range(50)]
    assert await asyncio.gather(*(a.request("slow", body, 10_000) for body in bodies)) == bodies


async def test_with_several_servers_one_receives_the_request(join: Join) -> None:
    a, b = await join(), await join()
    asked: list[str] = []

    def named(name: str) -> Callable[[bytes], Awaitable[bytes]]:
        async def answer(body: bytes) -> bytes:
            asked.append(name)
            return body

        return answer

    await a.serve("any", named("a"))
    await b.serve("any", named("b"))
    for _ in range(20):
        await a.request("any", b"", 5_000)
    assert len(asked) == 20


async def test_a_request_without_a_server_fails_immediately(join: Join) -> None:
    bus = await join()
    with pytest.raises(NoResponder):
        await bus.request("nobody", b"", 60_000)
    served = await bus.serve("x", echo)
    await bus.request("x", b"", 5_000)
    await served.end()
    with pytest.raises(NoResponder):
        await bus.request("x", b"", 60_000)


async def test_a_late_answer_is_still_completed_at_its_server(join: Join) -> None:
    a, b = await join(), await join()
    gate, done = asyncio.Event(), asyncio.Event()

    async def late(body: bytes) -> bytes:
        await gate.wait()
        done.set()
        return body

    await b.serve("late", late)
    with pytest.raises(BusTimeout):
        await a.request("late", b"", 20)
    gate.set()
    await asyncio.wait_for(done.wait(), 30)


async def test_a_failing_answer_is_reported(join: Join) -> None:
    a, b = await join(), await join()

    async def fails(_: bytes) -> bytes:
        raise RuntimeError("a secret")

    await b.serve("bad", fails)
    with pytest.raises(AnswerFailed) as failed:
        await a.request("bad", b"", 5_000)
    assert "secret" not in str(failed.value)


async def test_requests_and_answers_may_be_larger_than_notes(join: Join) -> None:
    a, b = await join(), await join()
    await b.serve("big", echo)
    body = bytes(range(256)) * 20_000
    assert await a.request("big", body, 20_000) == b"<" + body + b">"
    with pytest.raises(BusError):
        await a.request("big", b"x" * (port.MAX_REQUEST_BYTES + 1), 5_000)


async def test_a_closed_bus_accepts_nothing_and_its_open_requests_fail(join: Join) -> None:
    a, b = await join(), await join()
    begun, gate, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def never(body: bytes) -> bytes:
        begun.set()
        await gate.wait()
        done.set()
        return body

    await b.serve("never", never)
    asking = asyncio.create_task(a.request("never", b"", 60_000))
    await asyncio.wait_for(begun.wait(), 30)
    await a.close()
    await a.close()
    with pytest.raises(BusError):
        await asyncio.wait_for(asking, 30)
    gate.set()
    await asyncio.wait_for(done.wait(), 30)  # The server of the request continues.
    a.publish("x", b"")
    assert a.counts().dropped == 1
    assert not a.connected()
    assert b.connected()
    with pytest.raises(BusError):
        await a.subscribe("x", Subscriber())
    with pytest.raises(BusError):
        await a.request("never", b"", 10)
