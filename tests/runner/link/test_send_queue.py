"""Frames that wait for a link are sent together if both sides offered batches (L-2)."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from interlock.ports.outbox import StoredFrame
from interlock.protocol import payloads as p
from interlock.protocol.frames import BATCH
from interlock.protocol.limits import MAX_MESSAGE_BYTES
from interlock.runner.link.send_queue import Sending
from ports.outbox_words import SESSION, changed
from runner.scripted_gateway import PATIENCE_S, Peer, conversation


def sending() -> Sending:
    return Sending(lambda: None)


@pytest.mark.req("L-2")
def test_all_waiting_frames_are_one_message_with_link_frames_first() -> None:
    queue = sending()
    for number in range(3):
        queue.push(b"frame %d" % number)
    queue.urge(b"ack")
    assert queue.pop_all() == b"ack\nframe 0\nframe 1\nframe 2"
    assert queue.pop_all() is None


@pytest.mark.req("L-2", "D-2")
def test_a_message_holds_what_fits_and_a_history_is_sent_alone() -> None:
    queue = sending()
    half = b"x" * (MAX_MESSAGE_BYTES // 2)
    for message in (half[1:], half, b"third"):
        queue.push(message)
    queue.push(lambda: b"history", 100)
    queue.push(b"live")
    assert queue.pop_all() == half[1:] + b"\n" + half
    assert [queue.pop_all() for _ in range(4)] == [b"third", b"history", b"live", None]
    assert queue.roomy


@pytest.mark.req("L-2")
def test_without_batches_each_message_has_one_frame() -> None:
    queue = sending()
    queue.push(b"a")
    queue.push(b"b")
    assert [queue.pop(), queue.pop(), queue.pop()] == [b"a", b"b", None]


@pytest.mark.req("D-2", "L-4")
def test_an_ended_session_uses_no_space_and_restarts_after_the_acknowledged_frames() -> None:
    queue = sending()
    queue.expect("owes", 3)
    queue.offer([StoredFrame(SESSION, 1, "m", "agent.state.changed", b"one")])
    queue.go_live(queue.lanes[SESSION], 1, [])
    queue.forget(SESSION)
    queue.forget("owes")
    assert list(queue.lanes) == ["owes"]
    assert queue.sent_seq(SESSION) == 0
    queue.offer([StoredFrame(SESSION, 2, "n", "agent.state.changed", b"two")])
    assert queue.pop() is None  # It is read from the outbox.
    assert queue.lanes[SESSION].seq is None


async def message(peer: Peer) -> list[bytes]:
    return (await asyncio.wait_for(peer.socket.recv(decode=False), PATIENCE_S)).split(b"\n")


@pytest.mark.anyio
@pytest.mark.req("L-2", "D-7")
async def test_a_gateway_that_offers_batches_gets_them_and_may_send_them() -> None:
    async with conversation(features=[BATCH]) as (gateway, runner):
        peer = await gateway.peer()
        (hello,) = await peer.expect("x-interlock.hello")
        assert hello.payload.features == [BATCH]
        sessions = [p.WelcomeSession(session_id=SESSION, last_durable_seq=0)]
        await peer.send("x-interlock.welcome", p.Welcome(version="rawp-dps-1.0", link_id="l", gateway_id="g", limits={},
                                                         sessions=sessions, features=[BATCH]))
        await peer.expect("session.history")
        for _ in range(20):
            await runner.outflow.emit(changed())
        seqs: list[int] = []
        while len(seqs) < 20:
            seqs += [json.loads(line)["seq"] for line in await message(peer)]
        assert seqs == list(range(1, 21))

        cancels = [msgspec.json.encode({"type": "control.turn.cancel", "message_id": f"c{seq}", "session_id": SESSION,
                                        "seq": seq, "timestamp": "", "payload": {"reason": "user"}}) for seq in (1, 2)]
        await peer.socket.send(b"\n".join(cancels), text=True)
        assert [(await runner.control()).seq for _ in range(2)] == [1, 2]
        (acked,) = await message(peer)
        assert json.loads(acked)["payload"] == {"session_id": SESSION, "seq": 2}
