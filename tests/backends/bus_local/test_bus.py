"""The bus within a process, where it differs from others: being cut off and coming back, and readers that fall
behind."""

from __future__ import annotations

import asyncio

import pytest

from interlock.backends.bus_local import bus as module
from interlock.backends.bus_local.bus import Hub, LocalBus
from interlock.ports.bus import BusError, NoResponder

pytestmark = pytest.mark.anyio


async def test_a_disconnected_member_receives_nothing_and_then_learns_of_the_gap() -> None:
    hub = Hub()
    a, b = LocalBus(hub), LocalBus(hub)
    received: list[bytes] = []
    gaps: list[str] = []
    await b.subscribe("x", received.append)
    b.on_gap(lambda: gaps.append("gap"))
    b.cut_off()
    a.publish("x", b"lost")
    b.publish("x", b"not sent")
    with pytest.raises(NoResponder):
        await b.request("x", b"", 10)
    assert not b.connected()
    b.come_back()
    assert gaps == ["gap"]
    a.publish("x", b"heard")
    await asyncio.sleep(0)
    assert received == [b"heard"]
    assert b.counts().dropped == 1


async def test_a_reader_far_behind_loses_the_newest_and_learns_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_NOTES", 2)
    bus = LocalBus()
    received: list[bytes] = []
    gaps: list[int] = []
    await bus.subscribe("x", received.append)
    bus.on_gap(lambda: gaps.append(len(received)))
    for body in (b"1", b"2", b"3", b"4"):
        bus.publish("x", body)
    await asyncio.sleep(0)
    assert (received, gaps, bus.counts().missed) == ([b"1", b"2"], [2], 2)


async def test_a_busy_server_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNDER_WAY", 1)
    bus = LocalBus()
    gate = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await gate.wait()
        return body

    await bus.serve("slow", slow)
    first = asyncio.create_task(bus.request("slow", b"1", 10_000))
    await asyncio.sleep(0)
    with pytest.raises(NoResponder):
        await bus.request("slow", b"2", 10_000)
    gate.set()
    assert await first == b"1"
    await bus.close()


async def test_waiting_requests_of_a_closed_bus_end_in_order() -> None:
    """Else the same seed would not decide the same in a simulation."""
    hub = Hub()
    asking, answering = LocalBus(hub), LocalBus(hub)
    ended = list[int]()

    async def wait(_body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def ask(number: int) -> None:
        with pytest.raises(BusError):
            await asking.request("x", b"", 60_000)
        ended.append(number)

    await answering.serve("x", wait)
    asks = [asyncio.create_task(ask(number)) for number in range(32)]
    await asyncio.sleep(0)
    await asking.close()
    await asyncio.gather(*asks)
    assert ended == list(range(32))
    await answering.close()


async def test_answers_in_progress_end_in_order_when_their_server_ends() -> None:
    """Else the same seed would not decide the same in a simulation."""
    bus = LocalBus()
    ended = list[bytes]()

    async def wait(body: bytes) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(body)
        return b""

    async def ask(body: bytes) -> None:
        with pytest.raises(BusError):
            await bus.request("x", body, 60_000)

    served = await bus.serve("x", wait)
    bodies = [b"%d" % number for number in range(32)]
    asks = [asyncio.create_task(ask(body)) for body in bodies]
    for _ in range(2):  # Each request is sent in the first turn of the loop, and its answer begun in the second.
        await asyncio.sleep(0)
    await served.end()
    await asyncio.gather(*asks)
    assert ended == bodies
    await bus.close()
