"""Messages to one runner: nothing before the welcome, control frames in order, acknowledgements coalesced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import msgspec
import pytest

from interlock.gateway.link.outflow import OUTFLOW_BYTES, RunnerOutflow
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.limits import ACK_DELAY_MS

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0
"""A test that waits longer for an event has failed."""


class Socket:
    """The runner's WebSocket: stores sent messages, and can stop reading."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.reading = asyncio.Event()
        self.reading.set()
        self.broken = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.reading.wait()
        if self.broken:
            raise OSError("reset")
        self.sent.put_nowait(message)

    async def next(self) -> MutableMapping[str, Any]:
        return await asyncio.wait_for(self.sent.get(), PATIENCE_S)

    async def frame(self) -> Frame:
        return decode((await self.next())["text"].encode(), Direction.M)


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
async def outflow(socket: Socket) -> AsyncIterator[RunnerOutflow]:
    made = RunnerOutflow(socket.send)
    yield made
    await made.stop()


async def a_turn_of_the_loop() -> None:
    """Let everything that is ready to run do so."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(loop.call_soon, turned.set_result, None)
    await turned


def control(number: int) -> bytes:
    return msgspec.json.encode({"type": "control.turn.cancel", "message_id": f"m{number}", "session_id": "s",
                                "seq": number, "timestamp": "", "payload": {"reason": "user"}})


WELCOME = msgspec.json.encode({
    "type": "x-interlock.welcome", "message_id": "w", "timestamp": "",
    "payload": {"version": "rawp-dps-1.0", "link_id": "l", "gateway_id": "g", "limits": {}, "sessions": []},
})


@pytest.mark.req("L-4")
async def test_nothing_is_sent_before_the_welcome(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send(control(1))
    outflow.ack("s", 7)
    await a_turn_of_the_loop()  # The writer has had its turn, and kept silent.
    assert socket.sent.empty()
    outflow.send_now(WELCOME)
    types = [(await socket.frame()).type for _ in range(3)]
    assert types == ["x-interlock.welcome", "control.turn.cancel", "x-interlock.ack"]


@pytest.mark.req("L-4")
async def test_a_link_closed_before_its_welcome_sends_only_the_reason(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send(control(1))
    outflow.ack("s", 1)
    await outflow.close(4408, "hello did not come in time")
    assert await socket.next() == {"type": "websocket.close", "code": 4408, "reason": "hello did not come in time"}
    assert socket.sent.empty()


@pytest.mark.req("L-2")
async def test_waiting_frames_are_one_message_if_both_sides_offered_batching(
    outflow: RunnerOutflow, socket: Socket
) -> None:
    outflow.send(control(1))
    outflow.send(control(2))
    outflow.ack("s", 7)
    outflow.send_now(WELCOME, batch=True)
    assert (await socket.frame()).type == "x-interlock.welcome"  # The welcome is a message of its own.
    lines = (await socket.next())["text"].split("\n")
    assert [decode(line.encode(), Direction.M).type for line in lines] == [
        "control.turn.cancel", "control.turn.cancel", "x-interlock.ack"]
    outflow.send(control(3))
    assert (await socket.frame()).seq == 3
    assert socket.sent.empty()


@pytest.mark.req("D-1")
async def test_a_burst_is_acknowledged_once_per_session(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send_now(WELCOME)
    await socket.frame()
    for seq in range(1, 65):
        outflow.ack("s", seq)
        outflow.ack("other", seq + 1)
    acks = [(await socket.frame()).payload for _ in range(2)]
    assert {(ack.session_id, ack.seq) for ack in acks} == {("s", 64), ("other", 65)}
    outflow.ack("s", 64)  # It was acknowledged.
    outflow.ack("s", 63)
    outflow.ack("s", 65)
    assert (await socket.frame()).payload.seq == 65
    assert socket.sent.empty()


@pytest.mark.req("D-1")
async def test_an_acknowledgement_does_not_wait_for_more_frames(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send_now(WELCOME)
    await socket.frame()
    outflow.ack("s", 1)
    async with asyncio.timeout(max(ACK_DELAY_MS / 1000, 1.0)):
        assert (await socket.frame()).payload.seq == 1


@pytest.mark.req("D-7")
async def test_control_frames_keep_their_order_while_the_runner_reads_slowly(
    outflow: RunnerOutflow, socket: Socket
) -> None:
    outflow.send_now(WELCOME)
    socket.reading.clear()
    for number in range(1, 101):
        outflow.send(control(number))
        if number % 10 == 0:
            await a_turn_of_the_loop()
    socket.reading.set()
    assert (await socket.frame()).type == "x-interlock.welcome"
    assert [(await socket.frame()).seq for _ in range(100)] == list(range(1, 101))


@pytest.mark.req("D-7")
async def test_a_runner_that_does_not_read_loses_its_link_and_not_the_gateways_memory(
    outflow: RunnerOutflow, socket: Socket
) -> None:
    outflow.send_now(WELCOME)
    await socket.frame()
    socket.reading.clear()
    outflow.send(b" " * (OUTFLOW_BYTES // 2))
    outflow.send(b" " * (OUTFLOW_BYTES // 2 + 1))
    socket.reading.set()
    for _ in range(2):
        assert (await socket.next())["type"] == "websocket.send"
    closed = await socket.next()
    assert (closed["code"], closed["reason"]) == (1011, "the runner does not read its control frames")


@pytest.mark.req("D-1")
async def test_a_ledger_that_failed_closes_the_link_with_its_sentence(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send_now(WELCOME)
    outflow.fail("The write was rejected: " + "없" * 500)
    outflow.fail("something later")
    await socket.frame()
    closed = await socket.next()
    assert closed["code"] == 1011
    assert closed["reason"].startswith("The write was rejected")
    assert len(closed["reason"].encode()) <= 123, "what a close frame can carry"


@pytest.mark.req("C-7")
async def test_a_link_that_breaks_while_it_is_written_to_breaks_nothing_else(
    outflow: RunnerOutflow, socket: Socket
) -> None:
    outflow.send_now(WELCOME)
    await socket.frame()
    socket.broken = True
    outflow.send(control(1))
    outflow.ack("s", 1)
    await outflow.close(1011, "gone")
    assert socket.sent.empty()


@pytest.mark.req("D-7")
async def test_nothing_is_kept_for_a_link_that_is_being_closed(outflow: RunnerOutflow, socket: Socket) -> None:
    outflow.send_now(WELCOME)
    await socket.frame()
    socket.reading.clear()
    outflow.send(control(1))
    outflow.fail("the write was rejected")
    outflow.send(control(2))
    socket.reading.set()
    assert (await socket.frame()).seq == 1
    assert (await socket.next())["type"] == "websocket.close"
