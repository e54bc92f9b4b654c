"""The link, as conversations between a runner and a gateway that follows a script."""

from __future__ import annotations

import asyncio
import gc
import http
import json
import socket
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.outbox import MemoryOutbox
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import CloseBlock, OutboxError, OutboxWrite, PutPolicy, StoreControl, StoredFrame
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import BATCH
from interlock.protocol.limits import LARGEST_SEQ, LINK_JUMP, MAX_FRAME_BYTES
from interlock.protocol.refusals import LinkRefusal, outdated, problem
from interlock.runner.link.attachment import LOOKS_WAITING
from interlock.runner.link.link import NORMAL_PACE, TokenRefused
from interlock.runner.link.outflow import Outflow
from ports.outbox_words import OTHER, SESSION, changed, delta, done, output
from runner.scripted_gateway import PATIENCE_S, QUICK, TOKEN, Peer, conversation, inner

pytestmark = pytest.mark.anyio


@pytest.mark.req("L-2", "L-4")
async def test_the_runner_connects_with_token_subprotocol_and_hello() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        hello = await peer.welcome(gateway_id="g7", s=0)
        assert peer.socket.subprotocol == DPS_VERSION
        assert gateway.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert "Sec-WebSocket-Extensions" not in gateway.requests[0].headers
        assert [s.session_id for s in hello.payload.sessions] == [SESSION]
        assert (await runner.state("attached")).gateway_id == "g7"
        assert runner.link.attached
        assert runner.link.gateway_id == "g7"


@pytest.mark.req("L-4", "D-2")
async def test_nothing_is_sent_before_the_welcome_and_the_history_first() -> None:
    async with conversation() as (gateway, runner):
        await runner.outflow.emit(changed())
        await runner.outflow.flushed()
        peer = await gateway.peer()
        await peer.welcome(s=0)
        (history,) = await peer.expect("session.history")
        assert [f["seq"] for f in inner(history)] == [1]
        assert history.metadata == {"part": 1, "parts": 1}
        assert history.payload.last_message_id == ""
        assert history.payload.last_sync_timestamp == "2023-11-14T22:13:20.000Z"
        assert history.payload.buffer_status.truncated is False


@pytest.mark.req("D-1", "E-4")
async def test_live_frames_follow_in_order_and_acks_trim_the_outbox() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await runner.outflow.emit_delta(*delta("Hello", 0))
        await runner.outflow.emit(done("Hello"), CloseBlock(SESSION, "b"))
        await runner.outflow.emit(changed())
        _, text, state = await peer.expect("agent.text.delta", "agent.text.done", "agent.state.changed")
        assert (text.seq, state.seq) == (1, 2)

        await peer.ack(1)
        while await runner.kept() != [2]:
            await _turn_of_the_loop()


async def _turn_of_the_loop() -> None:
    """Let every task that is ready run once."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_later(0.002, turned.set_result, None)
    await turned


@pytest.mark.req("D-2", "D-6")
async def test_after_a_cut_in_mid_stream_history_and_open_block_text_are_sent() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await runner.outflow.emit(changed())
        await runner.outflow.emit_delta(*delta("Once ", 0))
        await peer.expect("agent.state.changed", "agent.text.delta")
        await peer.ack(1)
        peer.cut()
        await runner.state("detached")
        await runner.outflow.emit(changed())
        await runner.outflow.emit_delta(*delta("upon ", 5))
        await runner.outflow.emit_delta(*delta("a time", 10))
        await runner.outflow.flushed()

        again = await gateway.peer()
        hello = await again.welcome(s=1)
        assert hello.payload.sessions[0].last_seq_sent == 2
        (history,) = await again.expect("session.history")
        frame, text = inner(history)
        assert frame["seq"] == 2
        assert text["type"] == "agent.text.delta"
        assert text["payload"] == {"turn_id": "t", "block_id": "b", "offset": 0, "text": "Once upon a time"}
        await runner.outflow.emit_delta(*delta(" there", 16))
        (more,) = await again.expect("agent.text.delta")
        assert (more.payload.offset, more.payload.text) == (16, " there")


@pytest.mark.req("E-4", "D-6")
async def test_waiting_deltas_are_merged_and_none_is_repeated_or_lost() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        text = "".join(chr(0x4E00 + n % 500) for n in range(3_000))
        for offset in range(len(text)):
            await runner.outflow.emit_delta(*delta(text[offset], offset))
        await runner.outflow.emit(changed())
        got, frames = "", 0
        while (frame := await peer.receive()).type != "agent.state.changed":
            assert frame.payload.offset == len(got)
            got += frame.payload.text
            frames += 1
        assert got == text
        assert frames < 100


@pytest.mark.req("D-2", "E-5")
async def test_a_long_tool_channel_reports_its_omitted_text() -> None:
    async with conversation(dial=False) as (gateway, runner):
        for number in range(8):
            await runner.outflow.emit_delta(*output("x" * 60_000, number * 60_000))
        await runner.outflow.flushed()
        runner.running = asyncio.create_task(runner.link.run())
        peer = await gateway.peer()
        await peer.welcome(s=0)
        (history,) = await peer.expect("session.history")
        head, tail = inner(history)
        assert (head["payload"]["offset"], "metadata" in head) == (0, False)
        assert tail["metadata"]["omitted"] == tail["payload"]["offset"] - len(head["payload"]["text"])
        assert tail["payload"]["offset"] + len(tail["payload"]["text"]) == 480_000


@pytest.mark.req("D-2", "E-5")
async def test_a_long_history_is_sent_in_parts_before_live_frames(tmp_path: Path) -> None:
    async with conversation(dial=False, outbox=SqliteOutbox(tmp_path / "outbox.db")) as (gateway, runner):
        for _ in range(10_000):
            await runner.outflow.emit(done("x" * 300))
        await runner.outflow.emit_delta(*delta("open", 0))
        await runner.outflow.flushed()
        runner.running = asyncio.create_task(runner.link.run())
        peer = await gateway.peer()
        await peer.welcome(s=4)
        emitting = asyncio.create_task(_emit_many(runner.outflow, 200))
        seqs: list[int] = []
        while True:
            frame = await peer.receive()
            assert frame.type == "session.history"
            seqs += [f["seq"] for f in inner(frame) if "seq" in f]
            if frame.metadata["part"] == frame.metadata["parts"]:
                break
        assert frame.metadata["parts"] >= 4
        assert inner(frame)[-1]["payload"]["text"] == "open"
        while len(seqs) < 10_196:
            seqs.append((await peer.receive()).seq or 0)
        assert seqs == list(range(5, 10_201))
        await emitting


async def _emit_many(outflow: Outflow, count: int) -> None:
    for _ in range(count):
        await outflow.emit(changed())


@pytest.mark.req("D-3", "D-4")
async def test_lost_frames_are_reported_as_ranges() -> None:
    async with conversation(dial=False, outbox=MemoryOutbox(limit_bytes=3_000)) as (gateway, runner):
        for _ in range(10):
            await runner.outflow.emit(changed(), done("x" * 300))
        await runner.outflow.flushed()
        runner.running = asyncio.create_task(runner.link.run())
        peer = await gateway.peer()
        await peer.welcome(s=0)
        (history,) = await peer.expect("session.history")
        lost = [seq for first, last in history.metadata["lost_ranges"] for seq in range(first, last + 1)]
        kept = [f["seq"] for f in inner(history)]
        assert sorted(lost + kept) == list(range(1, 21))
        assert history.payload.buffer_status.truncated
        assert history.payload.buffer_status.lost_frame_count == len(lost) > 0


@pytest.mark.req("D-2")
async def test_the_history_reports_the_peak_of_its_buffer() -> None:
    """What the welcome confirms was in the buffer, too, while the link was down (D-2)."""
    async with conversation(dial=False) as (gateway, runner):
        await runner.outflow.emit(changed(), changed(), changed())
        await runner.outflow.flushed()
        kept = sum(len(frame.raw) for frame in await runner.outbox.frames(SESSION, 0, 1 << 20))
        runner.running = asyncio.create_task(runner.link.run())
        peer = await gateway.peer()
        await peer.welcome(s=2)
        (history,) = await peer.expect("session.history")
        assert len(inner(history)) == 1
        assert history.payload.buffer_status.buffer_high_watermark == kept


@pytest.mark.req("D-2", "D-3")
async def test_with_none_only_content_of_the_outage_is_lost_and_reported() -> None:
    async with conversation() as (gateway, runner):
        await runner.outflow.emit(PutPolicy(SESSION, "NONE"))
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await runner.outflow.emit(done("while it was up"))
        await peer.expect("agent.text.done")
        await peer.ack(1)
        gateway.status = http.HTTPStatus.SERVICE_UNAVAILABLE
        peer.cut()
        await runner.state("detached")
        await runner.outflow.emit(changed(), done("x"), done("y"))
        await runner.outflow.flushed()
        gateway.status = None
        peer = await gateway.peer()
        await peer.welcome(s=1)
        (history,) = await peer.expect("session.history")
        assert history.metadata["lost_ranges"] == [[3, 4]]
        status = history.payload.buffer_status
        assert (status.policy_applied, status.truncated, status.lost_frame_count) == ("NONE", True, 2)
        assert [f["seq"] for f in inner(history)] == [2]
        await runner.outflow.emit(done("z"))
        assert (await peer.expect("agent.text.done"))[0].seq == 5


@pytest.mark.req("D-6")
async def test_an_outbox_behind_the_welcome_continues_from_the_larger_number() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=41)
        (history,) = await peer.expect("session.history")
        assert history.payload.frames == []
        await runner.outflow.emit(changed())
        (frame,) = await peer.expect("agent.state.changed")
        assert frame.seq == 42


@pytest.mark.req("D-7")
async def test_a_control_frame_is_stored_then_delivered_then_acknowledged_once() -> None:
    async with conversation() as (gateway, runner):
        runner.hold.clear()
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await peer.cancel_turn(1, "m1")
        await peer.cancel_turn(2, "m2")
        assert (await runner.control()).message_id == "m1"
        acks = [(await peer.receive()).payload.seq]
        while acks[-1] < 2:
            acks.append((await peer.receive()).payload.seq)
        assert [c.message_id for c in await runner.outbox.controls(SESSION, 0)] == ["m1", "m2"]
        assert runner.controls.empty(), "The second waits for the first."
        await peer.cancel_turn(2, "m2")
        assert (await peer.receive()).payload == p.Ack(session_id=SESSION, seq=2)
        runner.hold.set()
        assert (await runner.control()).message_id == "m2"
        await peer.cancel_turn(3, "m3")
        assert (await runner.control()).message_id == "m3"


@pytest.mark.req("D-7")
async def test_an_open_creates_a_new_session_and_its_frames_flow() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        payload = p.SessionOpen(session_id=OTHER, agent_id="shell", workspace="", workspace_access="rw")
        await peer.send("control.session.open", payload, seq=1, session_id=OTHER)
        assert (await runner.control()).payload == payload
        await runner.outbox.open_session(OTHER, 1, b"mine")
        await runner.outflow.emit(changed(OTHER))
        await runner.outflow.emit(changed(OTHER))
        one, two = await peer.expect("agent.state.changed", "agent.state.changed")
        assert [(f.session_id, f.seq) for f in (one, two)] == [(OTHER, 1), (OTHER, 2)]


@pytest.mark.req("E-1", "W-2")
@pytest.mark.parametrize("payload", [p.TurnCancel(reason="user"), {"reason": 7}])
async def test_a_control_frame_without_a_session_name_is_logged_and_has_no_effect(payload: Any) -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        frame = Frame(type="control.turn.cancel", message_id="m", session_id="", seq=1, timestamp="", payload=payload)
        await peer.socket.send(msgspec.json.encode(frame), text=True)
        assert "control.turn.cancel" in (await runner.state("notice")).sentence
        await peer.cancel_turn(1, "m1")
        assert (await runner.control()).message_id == "m1"
        assert [row.session_id for row in await runner.outbox.sessions()] == [SESSION]


@pytest.mark.req("E-1", "W-2")
@pytest.mark.parametrize("seq", [2**53 + 1, 2**63, 2**64, 10**400])
async def test_a_number_beyond_the_stores_range_is_refused_and_has_no_effect(seq: int) -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        frame = {"type": "control.turn.cancel", "message_id": "m", "session_id": OTHER, "seq": seq, "timestamp": "",
                 "payload": {"reason": "user"}}
        await peer.socket.send(json.dumps(frame))
        assert (await runner.state("notice")).sentence
        await peer.cancel_turn(1, "m1")
        assert (await runner.control()).message_id == "m1"
        assert [row.session_id for row in await runner.outbox.sessions()] == [SESSION]


@pytest.mark.req("E-1", "D-7")
async def test_an_invalid_control_frame_is_refused_by_name_and_the_link_continues() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await peer.send("control.turn.cancel", {"reason": 7}, seq=1, message_id="bad")
        (error,) = await peer.expect("session.error")
        assert (error.payload.error_code, error.payload.fatal) == ("INVALID_FRAME", False)
        assert "$.payload.reason" in error.payload.message
        assert error.metadata["in_reply_to"] == "bad"
        await peer.socket.send("{")
        await peer.socket.send('{"type":"agent.text.delta","payload":{},"message_id":"m"}')
        assert "not a frame" in (await runner.state("notice")).sentence
        await peer.cancel_turn(2, "good")
        assert (await runner.control()).message_id == "good"


@pytest.mark.req("E-1", "D-7")
async def test_a_control_frame_with_a_broken_envelope_is_refused_by_its_number() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        for seq, broken in ((1, {"metadata": 7}), (2, {"message_id": []}), (3, {"message_id": []}), (4, {"type": 7})):
            frame = {"type": "control.turn.cancel", "payload": {"reason": "user"}, "message_id": f"m{seq}",
                     "session_id": SESSION, "seq": seq, **broken}
            await peer.socket.send(json.dumps(frame))
            (error,) = await peer.expect("session.error")
            assert (error.payload.error_code, error.payload.fatal) == ("INVALID_FRAME", False)
            assert "$." + next(iter(broken)) in error.payload.message
        await peer.cancel_turn(5, "good")
        assert (await runner.control()).message_id == "good"


@pytest.mark.req("E-3", "T-5", "W-2")
async def test_a_gap_closes_the_link_and_a_repeated_gap_the_session() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.cancel_turn(2)
        assert await peer.closed() == CloseCode.GAP
        again = await gateway.peer()
        await again.welcome(s=0)
        await again.expect("session.history")
        await again.cancel_turn(2)
        (error,) = await again.expect("session.error")
        assert (error.payload.error_code, error.payload.fatal) == ("INTERNAL", True)
        # The session receives it as if from the gateway, which ends its agent (T-5).
        ending = await runner.control()
        assert (ending.type, ending.payload) == ("session.error", error.payload)
        await again.cancel_turn(1, "m1")
        assert (await runner.control()).message_id == "m1"


@pytest.mark.req("L-5", "L-3")
@pytest.mark.parametrize("status", [http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN])
async def test_a_refused_token_is_not_tried_again(status: http.HTTPStatus) -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = status
        with pytest.raises(TokenRefused, match="interlock runner pair"):
            await asyncio.wait_for(runner.link.run(), PATIENCE_S)
        assert len(gateway.requests) == 1
        assert (await runner.state("refused")).sentence


@pytest.mark.req("L-3")
async def test_a_revoked_token_ends_the_link_permanently() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.close(CloseCode.UNAUTHORIZED, "revoked")
        assert "revoked" in (await runner.state("refused")).sentence
        assert runner.running is not None
        with pytest.raises(TokenRefused):
            await runner.running
        assert not runner.link.attached


@pytest.mark.req("W-2", "L-3")
async def test_the_code_and_text_of_a_token_refusal_reach_the_user() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.UNAUTHORIZED
        gateway.body = problem(LinkRefusal(Code.UNAUTHORIZED, "the token was rotated")).decode()
        with pytest.raises(TokenRefused, match="the token was rotated"):
            await asyncio.wait_for(runner.link.run(), PATIENCE_S)
        assert (await runner.state("refused")).error_code == "UNAUTHORIZED"


@pytest.mark.req("W-2", "L-4")
async def test_an_unshared_version_is_reported_with_its_code_and_retried() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.NOT_ACCEPTABLE
        gateway.body = problem(LinkRefusal(Code.VERSION_UNSUPPORTED, "this gateway speaks rawp-dps-2.0")).decode()
        runner.running = asyncio.create_task(runner.link.run())
        reported = await runner.state("detached")
        assert reported.error_code == "VERSION_UNSUPPORTED"
        assert reported.sentence == ("Gateway and runner share no protocol version (this gateway speaks rawp-dps-2.0). "
                                     "Update the older of the two.")
        gateway.status = None
        peer = await gateway.peer()
        await peer.expect("x-interlock.hello")
        await peer.close(CloseCode.VERSION, "VERSION_UNSUPPORTED: the runner offers none of ours")
        reported = await runner.state("detached")
        assert reported.error_code == "VERSION_UNSUPPORTED"
        assert "the runner offers none of ours" in reported.sentence


@pytest.mark.req("K-1", "L-2")
async def test_a_runner_follows_its_tenant_to_another_gateway() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.MISDIRECTED_REQUEST
        gateway.body = json.dumps({"moved_to": gateway.url.replace("ws:", "http:").removesuffix("/rawp")})
        runner.running = asyncio.create_task(runner.link.run())
        assert "was moved to http://" in (await runner.state("detached")).sentence
        gateway.status = None
        await (await gateway.peer()).welcome(s=0)
        await runner.state("attached")


@pytest.mark.req("K-1", "L-2")
async def test_a_runner_does_not_follow_its_tenant_to_a_plaintext_gateway() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.MISDIRECTED_REQUEST
        gateway.body = json.dumps({"moved_to": "http://gateway.example"})
        runner.running = asyncio.create_task(runner.link.run())
        assert "does not follow: The runner does not send its token in clear" in (
            await runner.state("detached")).sentence
        gateway.status = None
        await (await gateway.peer()).welcome(s=0)


@pytest.mark.req("L-5")
async def test_a_temporary_refusal_is_retried() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.SERVICE_UNAVAILABLE
        runner.running = asyncio.create_task(runner.link.run())
        assert "HTTP 503" in (await runner.state("detached")).sentence
        gateway.status = None
        await (await gateway.peer()).welcome(s=0)
        await runner.state("attached")


@pytest.mark.req("L-5")
async def test_an_absent_gateway_gives_one_sentence() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await gateway.stop()
        sentences = {(await runner.state("detached")).sentence for _ in range(3)}
        assert "The gateway at 127.0.0.1 cannot be reached: Connection refused." in sentences


@pytest.mark.req("L-5")
async def test_a_replaced_runner_stops() -> None:
    async with conversation(pace=QUICK._replace(reconnect_max_ms=10_000_000)) as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.close(CloseCode.REPLACED)
        assert "Another runner opened a link" in (await runner.state("detached")).sentence
        assert not runner.link.attached
        assert len(gateway.requests) == 1


@pytest.mark.req("L-5")
async def test_a_runner_with_a_restored_outbox_continues_from_the_gateways_number() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        assert (await peer.welcome(s=0)).payload.link_number == 1
        await peer.close(CloseCode.OUTDATED, outdated(41))
        assert "knows link 41" in (await runner.state("detached")).sentence
        assert (await (await gateway.peer()).welcome(s=0)).payload.link_number == 42


@pytest.mark.req("L-5")
async def test_a_gateway_cannot_exhaust_the_numbers_of_a_runners_links() -> None:
    async with conversation() as (gateway, _):
        number = 0
        for _ in range(3):
            peer = await gateway.peer()
            reported = (await peer.welcome(s=0)).payload.link_number
            assert number < reported <= number + LINK_JUMP + 1
            number = reported
            await peer.close(CloseCode.OUTDATED, outdated(LARGEST_SEQ - 1))
        assert number > 2 * LINK_JUMP, "it continues from the number in the welcome, step by step"


@pytest.mark.req("L-5")
async def test_a_redirect_is_not_followed() -> None:
    async with conversation(dial=False) as (gateway, runner):
        gateway.status = http.HTTPStatus.FOUND
        runner.running = asyncio.create_task(runner.link.run())
        assert "HTTP 302" in (await runner.state("detached")).sentence


@pytest.mark.req("L-4")
async def test_a_gateway_without_a_welcome_is_left_in_time() -> None:
    async with conversation(pace=QUICK._replace(opening_s=0.05)) as (gateway, runner):
        peer = await gateway.peer()
        await peer.expect("x-interlock.hello")
        assert "did not answer in time" in (await runner.state("detached")).sentence
        await gateway.peer()


@pytest.mark.req("L-4")
async def test_a_runner_of_many_sessions_waits_longer_for_its_welcome() -> None:
    pace = NORMAL_PACE
    assert [pace.welcome_s(sessions) for sessions in (0, 250, 251, 3_250)] == [10.0, 10.0, 10.04, 130.0]


@pytest.mark.req("L-4")
async def test_another_message_before_the_welcome_ends_the_link() -> None:
    async with conversation() as (gateway, _):
        peer = await gateway.peer()
        await peer.cancel_turn(1)
        assert await peer.closed() == CloseCode.OPENING


@pytest.mark.req("L-4")
@pytest.mark.parametrize("version", ["rawp-dps-9.0", "rawp-dps-1.9", "rawp-dps-2.0.1", ""])
async def test_a_welcome_in_a_version_that_was_not_offered_ends_the_link(version: str) -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.send("x-interlock.welcome", p.Welcome(version=version, link_id="l", gateway_id="g", limits={},
                                                         sessions=[]))
        assert await peer.closed() == CloseCode.VERSION
        assert f"version {version}" in (await runner.state("detached")).sentence
        assert not runner.link.attached


class Relay:
    """Passes bytes both ways; once `stalled` it passes nothing and closes nothing, as a network may."""

    def __init__(self) -> None:
        self.stalled = False
        self.ended = asyncio.Event()
        self._port = 0
        self._listener = socket.create_server(("127.0.0.1", 0))

    def url(self, url: str) -> str:
        """Put the relay before the gateway at `url`."""
        self._port = int(url.split(":")[2].split("/")[0])
        return f"ws://127.0.0.1:{self._listener.getsockname()[1]}/rawp"

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, sock=self._listener)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        pumps = [asyncio.create_task(self._pump(reader, far_writer)),
                 asyncio.create_task(self._pump(far_reader, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for end in (writer, far_writer):
            end.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)
        self.ended.set()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            if not self.stalled:
                sink.write(data)


@pytest.mark.req("L-5")
async def test_a_half_open_link_is_detected_by_its_pings() -> None:
    relay = Relay()
    pace = QUICK._replace(ping_interval_s=0.05, ping_timeout_s=0.1, reconnect_min_ms=60_000)
    async with conversation(pace=pace, dial=False, through=relay.url) as (gateway, runner):
        server = await relay.start()
        runner.running = asyncio.create_task(runner.link.run())
        await (await gateway.peer()).welcome(s=0)
        await runner.state("attached")
        relay.stalled = True
        await runner.state("detached")
        await asyncio.wait_for(relay.ended.wait(), PATIENCE_S)
        server.close()
        await server.wait_closed()


@pytest.mark.req("L-5", "J-14")
async def test_the_runner_names_its_agents_and_the_content_of_its_outbox() -> None:
    async with conversation(pace=QUICK._replace(heartbeat_s=0.02)) as (gateway, _):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        while (frame := await peer.receive()).type != "x-interlock.heartbeat":
            pass
        assert [agent.agent_id for agent in frame.payload.agents] == ["shell"]
        assert frame.payload.outbox_bytes is not None


@pytest.mark.req("J-14")
async def test_heartbeats_do_not_count_what_the_gateway_acknowledged() -> None:
    async with conversation(pace=QUICK._replace(heartbeat_s=0.02)) as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await runner.outflow.emit(changed())
        while (frame := await peer.receive()).type != "x-interlock.heartbeat" or not frame.payload.outbox_bytes:
            pass
        await peer.ack(1)
        async with asyncio.timeout(PATIENCE_S):
            while (frame := await peer.receive()).type != "x-interlock.heartbeat" or frame.payload.outbox_bytes:
                pass


@pytest.mark.req("D-1")
async def test_a_slow_gateway_gets_every_frame_in_order() -> None:
    """More is emitted than the link queues: the session falls behind, and is read from the outbox."""
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        text = "x" * (MAX_FRAME_BYTES // 2)
        for _ in range(40):
            await runner.outflow.emit(done(text))
        await runner.outflow.emit_delta(*delta("live", 0, "c"))
        await runner.outflow.flushed()
        frames = [await peer.receive() for _ in range(41)]
        assert [f.seq for f in frames] == [*range(1, 41), None]
        assert frames[-1].payload.text == "live"


@pytest.mark.req("D-1")
async def test_an_ack_beyond_the_sent_frames_is_rejected() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.expect("session.history")
        await runner.outflow.emit(changed())
        await peer.expect("agent.state.changed")
        await peer.ack(99)
        while await runner.kept():
            await _turn_of_the_loop()
        await runner.outflow.emit(changed())
        (frame,) = await peer.expect("agent.state.changed")
        assert frame.seq == 2


async def test_a_failing_control_frame_ends_the_run() -> None:
    async with conversation(dial=False) as (gateway, runner):
        runner.failure = RuntimeError("cannot act on it")
        runner.running = asyncio.create_task(runner.link.run())
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.cancel_turn(1)
        with pytest.raises(RuntimeError, match="cannot act on it"):
            await asyncio.wait_for(runner.running, PATIENCE_S)


class SlowDisk(MemoryOutbox):
    """Its control frames are durable before their writers are notified, as with a slow fsync."""

    def __init__(self) -> None:
        super().__init__(limit_bytes=1 << 26)
        self.hold = asyncio.Event()
        self.durable = asyncio.Event()
        self.stores: list[list[int]] = []

    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        written = await super().write(writes, attached=attached)
        if controls := [write.record.seq for write in writes if isinstance(write, StoreControl)]:
            self.stores.append(controls)
            self.durable.set()
            await self.hold.wait()
        return written


@pytest.mark.req("D-7")
async def test_a_control_frame_whose_link_breaks_during_its_write_is_handled_once() -> None:
    disk = SlowDisk()
    # A link that waits for its disk reads nothing: it sees the cut when it sends its next heartbeat.
    async with conversation(outbox=disk, pace=QUICK._replace(heartbeat_s=0.1)) as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.cancel_turn(1, "m1")
        await asyncio.wait_for(disk.durable.wait(), PATIENCE_S)
        peer.cut()
        await runner.state("detached")
        again = await gateway.peer()
        hello = await again.welcome(s=0)
        assert hello.payload.sessions[0].control_seq == 1  # So the gateway does not send it again.
        disk.hold.set()
        assert (await runner.control()).message_id == "m1"
        await again.cancel_turn(2, "m2")
        assert (await runner.control()).message_id == "m2"
        assert runner.controls.empty()


@pytest.mark.req("D-7", "L-2")
async def test_control_frames_of_one_message_are_stored_in_one_write_except_invalid_ones() -> None:
    disk = SlowDisk()
    disk.hold.set()
    async with conversation(outbox=disk, features=[BATCH]) as (gateway, runner):
        peer = await gateway.peer()
        await peer.expect("x-interlock.hello")
        await peer.send("x-interlock.welcome", p.Welcome(
            version=DPS_VERSION, link_id="l", gateway_id="g1", limits={}, features=[BATCH],
            sessions=[p.WelcomeSession(session_id=SESSION, last_durable_seq=0)]))
        frames: list[dict[str, Any]] = [
            {"type": "control.turn.cancel", "message_id": f"m{seq}", "session_id": SESSION, "seq": seq,
             "timestamp": "2026-11-21T10:00:00.000Z", "payload": payload}
            for seq, payload in ((1, {"reason": "user"}), (2, {"reason": "user"}), (3, {"reason": 7}),
                                 (4, {"reason": "user"}), (4, {"reason": "user"}), (6, {"reason": "user"}))]
        await peer.socket.send("\n".join(map(json.dumps, frames)), text=True)
        assert await peer.closed() == CloseCode.GAP  # 5 is missing; what came before it counts.
        assert [(await runner.control()).message_id for _ in range(3)] == ["m1", "m2", "m4"]
        assert disk.stores == [[1, 2], [3], [4]]
        hello = await (await gateway.peer()).welcome(s=0)
        assert hello.payload.sessions[0].control_seq == 4


async def looked(peer: Peer) -> Frame:
    """The next answer to a workspace query; other frames of the runner are skipped."""
    while (frame := await peer.receive()).type != "x-interlock.workspace.changes":
        pass
    return frame


@pytest.mark.req("J-4")
async def test_a_workspace_query_is_answered_concurrently_and_too_many_are_refused() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        runner.hold.clear()
        for number in range(LOOKS_WAITING + 1):
            await peer.send("x-interlock.workspace.look", p.WorkspaceLook(request_id=f"r{number}", session_id=SESSION))
        refused = await looked(peer)
        assert (refused.payload.request_id, bool(refused.payload.why_not)) == (f"r{LOOKS_WAITING}", True)
        runner.hold.set()
        answers = [await looked(peer) for _ in range(LOOKS_WAITING)]
        assert {one.payload.request_id: one.payload.branch for one in answers} == {
            f"r{number}": "work" for number in range(LOOKS_WAITING)}


class FailsToLeave(MemoryOutbox):
    """An outbox whose `leave` fails once the test releases it, as on a full disk."""

    def __init__(self) -> None:
        super().__init__()
        self.leaving, self.released, self.failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def leave(self, gateway_id: str, at_ms: int) -> None:
        self.leaving.set()
        await self.released.wait()
        self.failed.set()
        raise OutboxError("The disk is full.")


async def test_a_runner_that_stops_while_its_outbox_fails_leaves_no_unhandled_exception() -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
    outbox = FailsToLeave()
    async with conversation(outbox=outbox) as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome(s=0)
        await peer.socket.close()
        await asyncio.wait_for(outbox.leaving.wait(), PATIENCE_S)
        assert runner.running is not None
        runner.running.cancel()
        await asyncio.gather(runner.running, return_exceptions=True)
        outbox.released.set()
        await outbox.failed.wait()
    del gateway, runner, peer  # Their frames hold the task whose exception is looked for.
    gc.collect()
    assert unhandled == []
