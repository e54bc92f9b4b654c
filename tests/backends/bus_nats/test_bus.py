"""The bus on NATS, where it differs from others: servers that stop and return, and addresses in configs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import DEFAULT_PENDING_SIZE

from interlock.app.own_servers import OwnServer, free_port, start_nats
from interlock.backends.bus_nats import link as link_module
from interlock.backends.bus_nats.bus import NatsBus, open_bus
from interlock.backends.bus_nats.parcels import PART_BYTES
from interlock.backends.bus_nats.places import read_places
from interlock.ports.bus import MAX_NOTE_BYTES, BusError, CutOff, LostOver, NoResponder

pytestmark = pytest.mark.anyio
NOTES_THAT_FILL_A_SOCKET = 60
"""Of MAX_NOTE_BYTES: many times what the kernel keeps of a loopback link."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "RECONNECT_WAIT_S", 0.02)


class Server:
    """A server of a test's own, which stops and restarts at the same address."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._directory = directory
        self._running: OwnServer | None = None

    async def start(self) -> None:
        self._running = await asyncio.to_thread(start_nats, self._directory, port=self.port)

    def signal(self, number: signal.Signals) -> None:
        assert self._running is not None
        process = self._running.process
        process.send_signal(number)
        if number is signal.SIGSTOP:  # Until the last of its threads has stopped, it may still answer.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    async def stop(self) -> None:
        if self._running is not None:
            await asyncio.to_thread(self._running.stop, signal.SIGKILL)
            self._running = None


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    own = Server(tmp_path)
    yield own
    await own.stop()


async def gap(bus: NatsBus) -> asyncio.Event:
    was_notified = asyncio.Event()
    bus.on_gap(was_notified.set)
    return was_notified


async def until_away(bus: NatsBus) -> None:
    while bus.connected():  # The kernel reports the broken link; the loop only has to read that.
        await asyncio.sleep(0)


async def test_a_restarted_server_is_a_gap_and_nothing_more(server: Server) -> None:
    await server.start()
    a, b = await open_bus(read_places(server.url), "t"), await open_bus(read_places(server.url), "t")
    bodies: list[bytes] = []
    arrived = asyncio.Event()

    def was_notified(body: bytes) -> None:
        bodies.append(body)
        arrived.set()

    async def echo(body: bytes) -> bytes:
        return body

    await b.subscribe("x", was_notified)
    await b.serve("ask", echo)
    gaps = await gap(a), await gap(b)
    await server.stop()
    await until_away(a)
    await until_away(b)
    a.publish("x", b"lost")
    with pytest.raises(NoResponder):
        await a.request("ask", b"", 60_000)
    assert a.counts() == (0, 1, 0)
    await server.start()
    for notified in gaps:
        await asyncio.wait_for(notified.wait(), 20)
    a.publish("x", b"heard")
    await asyncio.wait_for(arrived.wait(), 10)
    assert bodies == [b"heard"]
    assert await a.request("ask", b"again", 5_000) == b"again"
    assert await a.request("ask", bytes(3 * PART_BYTES), 5_000) == bytes(3 * PART_BYTES)
    await a.close()
    await b.close()


async def test_a_gateway_starts_without_the_bus_and_connects_later(server: Server) -> None:
    bus = await open_bus(read_places(server.url), "t")
    bodies = asyncio.Event()
    await bus.subscribe("x.>", lambda _: bodies.set())
    assert not bus.connected()
    bus.publish("x.1", b"")
    assert bus.counts().dropped == 1
    was_notified = await gap(bus)
    await server.start()
    await asyncio.wait_for(was_notified.wait(), 20)
    assert bus.connected()
    bus.publish("x.1", b"")
    await asyncio.wait_for(bodies.wait(), 10)
    await bus.close()


async def test_clusters_that_share_a_server_are_isolated(nats_server: str) -> None:
    ours, theirs = await open_bus(read_places(nats_server), "ours"), await open_bus(read_places(nats_server), "theirs")
    bodies: list[bytes] = []
    end = asyncio.Event()
    await ours.subscribe("x", bodies.append)
    await ours.subscribe("end", lambda _: end.set())
    theirs.publish("x", b"theirs")
    theirs.publish("end", b"")
    ours.publish("x", b"ours")
    ours.publish("end", b"")
    await asyncio.wait_for(end.wait(), 10)
    assert bodies == [b"ours"]
    await ours.close()
    await theirs.close()


async def test_a_blocking_reader_learns_of_the_gap(nats_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "WAITING_NOTES", 2)
    monkeypatch.setattr("interlock.backends.bus_nats.bus.GAP_AFTER_S", 0)
    bus = await open_bus(read_places(nats_server), "slow")
    was_notified = await gap(bus)
    await bus.subscribe("x", lambda _: None)
    for _ in range(2_000):
        bus.publish("x", b"1")
    await asyncio.wait_for(was_notified.wait(), 10)
    assert bus.counts().missed > 0
    await bus.close()


async def test_an_open_request_fails_immediately_when_the_bus_is_lost(server: Server) -> None:
    await server.start()
    a, b = [await open_bus(read_places(server.url), "lost") for _ in range(2)]
    asked = asyncio.Event()

    async def never(_body: bytes) -> bytes:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    try:
        await b.serve("ask", never)
        waiting = asyncio.create_task(a.request("ask", b"", 600_000))
        await asked.wait()
        await server.stop()
        with pytest.raises(LostOver):
            await asyncio.wait_for(waiting, 30)
    finally:
        await a.close()
        await b.close()


async def test_subscriptions_changed_during_an_outage_apply_after_it(server: Server) -> None:
    await server.start()
    a, b = await open_bus(read_places(server.url), "t"), await open_bus(read_places(server.url), "t")
    received: list[bytes] = []
    arrived = asyncio.Event()

    def receive(body: bytes) -> None:
        received.append(body)
        arrived.set()

    async def echo(body: bytes) -> bytes:
        return body

    try:
        before = await b.subscribe("x", received.append)
        gaps = await gap(a), await gap(b)
        await server.stop()
        await until_away(a)
        await until_away(b)
        await b.subscribe("y", receive)
        await b.serve("ask", echo)
        await before.end()
        await server.start()
        for is_back in gaps:
            await asyncio.wait_for(is_back.wait(), 20)
        assert await a.request("ask", b"served", 5_000) == b"served"
        a.publish("x", b"ended")
        a.publish("y", b"received")
        await asyncio.wait_for(arrived.wait(), 10)
        assert received == [b"received"]
    finally:
        await a.close()
        await b.close()


async def test_a_late_reply_to_an_abandoned_probe_does_not_break_the_link(server: Server) -> None:
    """nats-py breaks a link on which the reply to a cancelled flush arrives."""
    await server.start()
    bus = await open_bus(read_places(server.url), "t")
    lost = await gap(bus)
    server.signal(signal.SIGSTOP)
    with pytest.raises(CutOff):
        await bus.probe(20)
    server.signal(signal.SIGCONT)
    await bus.probe(5_000)  # The earlier replies have arrived.
    assert not lost.is_set()
    await bus.close()


@pytest.mark.parametrize("is_asking", [False, True], ids=["notes", "notes and a request"])
async def test_a_bus_with_a_hanging_server_closes_and_leaves_no_task(server: Server, is_asking: bool) -> None:
    """The library swallows a cancel of a task that waits until its bytes are written."""
    await server.start()
    tasks_before = asyncio.all_tasks()
    bus = await open_bus(read_places(server.url), "t")
    await bus.subscribe("x", lambda _: None)
    client = bus._link.client  # pyright: ignore[reportPrivateUsage]
    assert client is not None
    server.signal(signal.SIGSTOP)
    for _ in range(NOTES_THAT_FILL_A_SOCKET):
        bus.publish("y", bytes(MAX_NOTE_BYTES))
    while client.pending_data_size <= DEFAULT_PENDING_SIZE:
        await asyncio.sleep(0)
    asking = [asyncio.create_task(bus.request("z", b"", 60_000))] if is_asking else []
    await asyncio.sleep(0)

    await asyncio.wait_for(bus.close(), 10)

    assert [type(answer) for answer in await asyncio.gather(*asking, return_exceptions=True)] == [BusError] * is_asking
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks_before
