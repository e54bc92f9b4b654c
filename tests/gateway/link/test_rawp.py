"""The gateway's end of the link, as a runner on a raw WebSocket sees it (L-2, L-4, E-1, E-3, D-1, D-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from gateway.raw_runner import CAPABILITIES, TOKEN, Server, warning
from interlock.engine.lanes.inbox import RUN_FRAMES
from interlock.gateway.link import rawp
from interlock.gateway.link.intake import Inflow
from interlock.ports.ledger import LaneName, LedgerError, Receipt, WriteBatch
from interlock.ports.stored_lanes import StoredLane
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import Direction, decode
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


@pytest.mark.req("L-2", "L-3", "W-2")
@pytest.mark.parametrize(("token", "subprotocol", "status"),
                         [("wrong", DPS_VERSION, 401), ("", DPS_VERSION, 401), (TOKEN, "rawp-dps-9.9", 406)])
async def test_a_link_without_its_token_or_protocol_is_refused_before_it_opens(
    server: Server, token: str, subprotocol: str, status: int
) -> None:
    async with server.link(token, subprotocol) as runner:
        start, body = await runner.next(), await runner.next()
        assert (start["type"], start["status"]) == ("websocket.http.response.start", status)
        relayed = json.loads(body["body"])
        code = {401: "UNAUTHORIZED", 406: "VERSION_UNSUPPORTED"}[status]
        assert (relayed["status"], relayed["error_code"]) == (status, code)
        assert relayed["detail"]
        assert relayed["hint"]


@pytest.mark.req("L-4")
async def test_a_welcome_is_the_first_reply_to_a_hello(server: Server) -> None:
    async with server.link() as runner:
        assert await runner.next() == {"type": "websocket.accept", "subprotocol": DPS_VERSION}
        runner.hello(p.HelloSession(session_id="gone", last_seq_sent=3, control_seq=1, state="idle"))
        first = decode((await runner.next())["text"].encode(), Direction.M)
        assert first.type == "x-interlock.welcome"
        assert (first.payload.version, first.payload.gateway_id) == (DPS_VERSION, "g1")
        assert first.payload.limits["max_frame_bytes"] == 768 * 1024
        assert first.payload.sessions == [p.WelcomeSession(session_id="gone", last_durable_seq=0)]


@pytest.mark.req("L-4", "W-2")
@pytest.mark.parametrize(
    ("changes", "code", "named"), [({"versions": ["rawp-dps-0.9"]}, 4406, "VERSION_UNSUPPORTED"),
                                   ({"runner_id": "somebody"}, 4401, "UNAUTHORIZED")]
)
async def test_an_invalid_hello_closes_the_link_and_names_its_code(
    server: Server, changes: dict[str, Any], code: int, named: str
) -> None:
    async with server.link() as runner:
        runner.hello(**changes)
        assert (await runner.next())["type"] == "websocket.accept"
        closed = await runner.next()
        assert (closed["code"], closed["reason"].partition(": ")[0]) == (code, named)


@pytest.mark.req("L-4")
@pytest.mark.parametrize("first", ["not json", '{"type":"x-interlock.hello","payload":{},"message_id":"m"}',
                                   '{"type":"x-interlock.heartbeat","payload":{"agents":[]},"message_id":"m"}'])
async def test_anything_but_a_hello_closes_the_link(server: Server, first: str) -> None:
    async with server.link() as runner:
        runner.text(first)
        code, reason = await runner.closed()
        assert code == 4408
        assert "hello" in reason


@pytest.mark.req("D-1", "E-3")
async def test_a_frame_is_acknowledged_once_it_is_in_the_ledger_and_applied_once(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        for seq in (2, 3, 2, 3, 4):
            runner.send("agent.error", warning(str(seq)), session_id=session_id, seq=seq)
        acked = 0
        while acked < 4:
            acked = (await runner.frame("x-interlock.ack")).payload.seq
            assert len(await server.kinds(session_id)) >= acked
        assert await server.kinds(session_id) == ["session.capabilities", *["agent.error"] * 3]


@pytest.mark.req("E-1", "W-2")
@pytest.mark.parametrize(
    ("broken", "place"),
    [
        ({"payload": {"severity": "warning"}}, "$.payload.error_code"),
        ({"payload": {"severity": "loud", "error_code": "X", "message": ""}}, "$.payload.severity"),
        ({"payload": None}, "$.payload"),
        ({"metadata": 7}, "$.metadata"),
        ({"type": "control.prompt.request"}, "$.type"),
    ],
)
async def test_a_malformed_frame_is_refused_by_its_number_and_the_link_stays_up(
    server: Server, broken: dict[str, Any], place: str
) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send(**{"frame_type": "agent.error", "payload": {}, "session_id": session_id, "seq": 2,
                       **({"frame_type": broken["type"]} if "type" in broken else broken)})
        error = await runner.frame("session.error")
        assert (error.payload.error_code, error.payload.fatal) == ("INVALID_FRAME", False)
        assert place in error.payload.message
        runner.send("agent.error", warning(), session_id=session_id, seq=3)
        await runner.acked(3)
        assert await server.kinds(session_id) == ["session.capabilities", "refused", "agent.error"]


@pytest.mark.req("E-1", "E-4")
async def test_a_number_on_an_unnumbered_frame_stays_free_for_another_frame(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send("tool.invoke.stream", p.ToolStream(invocation_id="i", channel="stdout", offset=0, text=""),
                    session_id=session_id, seq=2)
        assert "$.seq" in (await runner.frame("session.error")).payload.message
        runner.send("agent.error", warning(), session_id=session_id, seq=2)
        await runner.acked(2)
        assert await server.kinds(session_id) == ["session.capabilities", "refused", "agent.error"]


@pytest.mark.req("E-1", "E-2")
@pytest.mark.parametrize("name", ["x-acme.weather", "moon.phase", "agent.sang"])
async def test_an_unknown_frame_is_stored_and_relayed_to_viewers_unchanged(server: Server, name: str) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send(name, {"deep": [1, {"er": None}]}, session_id=session_id, seq=2, colour="red")
        await runner.acked(2)
        last = (await server.ledger.events("default", f"s/{session_id}", 0, 100))[-1]
        assert last.kind == "C"
        relayed = json.loads(last.body)
        assert (relayed["type"], relayed["payload"], relayed["colour"]) == (name, {"deep": [1, {"er": None}]}, "red")


@pytest.mark.req("E-1")
@pytest.mark.parametrize("text", ['{"type":"x-interlock.heartbeat","payload":{"agents":7},"message_id":"m"}',
                                  '{"type":"x-acme.ping","payload":{},"message_id":"m"}'])
async def test_a_malformed_frame_of_the_link_itself_is_ignored(server: Server, text: str) -> None:
    async with server.session() as (runner, session_id, _):
        runner.text(text)
        runner.send("agent.error", warning(), session_id=session_id, seq=2)
        await runner.acked(2)


@pytest.mark.req("E-1")
async def test_text_that_is_not_a_frame_closes_the_link_and_the_gateway_stays_up(server: Server) -> None:
    async with server.attached() as runner:
        runner.text("GET / HTTP/1.1")
        assert (await runner.closed())[0] == 1003
    async with server.attached():
        pass


@pytest.mark.req("E-3")
async def test_a_gap_closes_the_link_and_the_reattach_repairs_it(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send("agent.error", warning(), session_id=session_id, seq=3)
        code, reason = await runner.closed()
        assert (code, reason) == (4409, f"session {session_id}: expected seq 2, got 3")
    async with server.link() as runner:
        runner.hello(p.HelloSession(session_id=session_id, last_seq_sent=3, control_seq=3, state="idle"))
        await runner.next()  # It is accepted.
        assert (await runner.frame("x-interlock.welcome")).payload.sessions[0].last_durable_seq == 1
        for seq in (2, 3):
            runner.send("agent.error", warning(), session_id=session_id, seq=seq)
        await runner.acked(3)


@pytest.mark.req("E-3", "T-5", "W-2")
async def test_a_repeated_gap_ends_its_session_once_and_keeps_the_link(server: Server) -> None:
    async with server.session() as (runner, session_id, command_id):
        runner.send("agent.error", warning(), session_id=session_id, seq=3)
        assert (await runner.closed())[0] == 4409
    known = p.HelloSession(session_id=session_id, last_seq_sent=5, control_seq=3, state="idle")
    async with server.attached(known) as runner:
        for seq in (3, 4):
            runner.send("agent.error", warning(), session_id=session_id, seq=seq)
        runner.send("session.closed", p.SessionClosed(reason="the gateway asked"), session_id=session_id, seq=5)
        error = await runner.frame("session.error")
        assert (error.payload.error_code, error.payload.fatal) == ("INTERNAL", True)
        await runner.acked(5)
        record = await server.ledger.command(command_id, "default")
        assert record is not None
        assert (record.command.state, record.command.error.code) == ("failed", "INTERNAL")  # type: ignore[union-attr]
        assert await server.kinds(session_id) == [
            "session.capabilities", "agent.error", "agent.error", "session.closed"]
        events = await server.ledger.events("default", f"s/{session_id}", 0, 100)
        assert sum(b'"INTERNAL"' in event.body for event in events if event.kind == "M") == 1
        again = await server.execute()  # The link serves other sessions, and this one's key can be opened again.
        assert (await runner.frame("control.session.open")).session_id == again.target.session_id


@pytest.mark.req("D-2", "D-3", "D-4", "E-3")
async def test_a_history_is_applied_like_live_frames_and_its_loss_reported_once(server: Server) -> None:
    async with server.session() as (runner, session_id, command_id):
        pass
    known = p.HelloSession(session_id=session_id, last_seq_sent=6, control_seq=3, state="idle")
    async with server.attached(known) as runner:
        inner = [{"type": "agent.error", "payload": msgspec.to_builtins(warning()), "message_id": f"h{seq}",
                  "session_id": session_id, "seq": seq, "timestamp": ""} for seq in (1, 4, 5)]
        history = {"frames": inner, "last_sync_timestamp": "", "last_message_id": "",
                   "buffer_status": {"policy_applied": "RING", "truncated": True, "lost_frame_count": 2}}
        for _ in range(2):
            runner.send("session.history", history, session_id=session_id, metadata={"lost_ranges": [[2, 3]]})
        runner.send("agent.error", warning(), session_id=session_id, seq=6)
        await runner.acked(6)
        assert await server.kinds(session_id) == ["session.capabilities", *["agent.error"] * 3]
        record = await server.ledger.command(command_id, "default")
        assert record is not None
        lost = [notice.lost_frame_count for notice in record.command.notices if notice.code == "Truncated"]
        assert lost == [2]


def lossy(session_id: str, seqs: tuple[int, ...], count: int | None, synced: str = "", policy: str = "RING") -> Any:
    """A `session.history` of 7.1.1: its losses are in its buffer_status and nowhere else."""
    status = {"policy_applied": policy, "truncated": True, **({"lost_frame_count": count} if count is not None else {})}
    frames = [{"type": "agent.error", "payload": msgspec.to_builtins(warning()), "message_id": f"h{session_id}{seq}",
               "session_id": session_id, "seq": seq, "timestamp": ""} for seq in seqs]
    return {"frames": frames, "last_sync_timestamp": "", "last_message_id": synced, "buffer_status": status}


async def losses(server: Server, session_id: str) -> list[int | None]:
    """The counts of the notices of loss in the session's stream."""
    events = await server.ledger.events("default", f"s/{session_id}", 0, 200)
    notices = [json.loads(event.body) for event in events if event.kind == "notice"]
    return [notice.get("lost_frame_count") for notice in notices if notice["code"] == "Truncated"]


@pytest.mark.req("D-4")
@pytest.mark.parametrize("policy", ["RING", "DROP", "NONE"])
@pytest.mark.parametrize(("count", "sentence"), [(2, "2 frames were lost"), (None, "an unknown number of frames"),
                                                 (0, "an unknown number of frames")])
async def test_a_truncated_history_without_ranges_is_reported_once(
    server: Server, policy: str, count: int | None, sentence: str
) -> None:
    async with server.session() as (runner, session_id, command_id):
        pass
    known = p.HelloSession(session_id=session_id, last_seq_sent=3, control_seq=3, state="idle")
    async with server.attached(known) as runner:
        for _ in range(2):  # The second one is the first, sent again after a link that broke.
            runner.send("session.history", lossy(session_id, (2, 3), count, "m1", policy), session_id=session_id)
        runner.send("agent.error", warning(), session_id=session_id, seq=4)
        await runner.acked(4)
    record = await server.ledger.command(command_id, "default")
    notices = [n for n in record.command.notices if n.code == "Truncated"]  # type: ignore[union-attr]
    assert [notice.lost_frame_count for notice in notices] == [count or None]
    assert notices[0].message.startswith(sentence)
    assert await losses(server, session_id) == [count or None]


@pytest.mark.req("D-4")
async def test_a_second_loss_of_the_same_size_is_reported_too(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        for synced, seq in (("m1", 2), ("m2", 3), ("m3", 4)):
            count = None if synced == "m3" else 2
            runner.send("session.history", lossy(session_id, (seq,), count, synced), session_id=session_id)
        await runner.acked(4)
        assert await losses(server, session_id) == [2, 2, None]


@pytest.mark.req("D-3", "D-4", "E-3")
async def test_gaps_in_a_truncated_history_are_its_loss_and_later_ones_are_not(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send("session.history", lossy(session_id, (4, 7), 5), session_id=session_id)
        runner.send("agent.error", warning(), session_id=session_id, seq=9)
        await runner.acked(9)
        assert await losses(server, session_id) == [5]
        runner.send("agent.error", warning(), session_id=session_id, seq=11)
        assert (await runner.closed())[0] == 4409


@pytest.mark.req("D-2", "D-4")
async def test_a_history_in_several_parts_is_reported_once_with_its_whole_count(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        for _ in range(2):
            for part, seqs, ranges in ((1, (2,), None), (2, (5,), [[3, 4]]), (3, (7,), [[6, 6], [8, 8]])):
                metadata = {"part": part, "parts": 3, **({"lost_ranges": ranges} if ranges else {})}
                runner.send("session.history", lossy(session_id, seqs, 4), session_id=session_id, metadata=metadata)
        runner.send("agent.error", warning(), session_id=session_id, seq=9)
        await runner.acked(9)
        assert await losses(server, session_id) == [4]


@pytest.mark.req("D-2")
async def test_a_history_never_nests(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        history: dict[str, Any] = {"frames": [], "last_sync_timestamp": "", "last_message_id": "",
                                   "buffer_status": {"policy_applied": "RING", "truncated": False}}
        nested = {"type": "session.history", "payload": history, "message_id": "n", "session_id": session_id}
        runner.send("session.history", {**history, "frames": [nested]}, session_id=session_id)
        assert await runner.closed() == (1003, "a history inside a history")


@pytest.mark.req("D-7")
async def test_unconfirmed_control_frames_follow_the_welcome_in_their_order(server: Server) -> None:
    async with server.attached() as runner:
        command = await server.execute()
        await runner.frame("control.prompt.request")
    session_id = command.target.session_id
    async with server.attached(p.HelloSession(session_id=session_id, last_seq_sent=0, control_seq=1, state="idle")
                              ) as runner:
        assert (await runner.frame("control.prompt.request")).seq == 2


@pytest.mark.req("L-5")
async def test_a_newer_link_of_a_runner_closes_the_older_one(server: Server) -> None:
    async with server.attached() as older, server.attached() as newer:
        code, reason = await older.closed()
        assert (code, reason) == (4410, "the same runner opened a newer link")
        await server.execute()
        await newer.frame("control.prompt.request")


@pytest.mark.req("L-2", "D-1", "E-1")
async def test_frames_are_batched_in_one_message_if_the_runner_offered_it(server: Server) -> None:
    async with server.link() as runner:
        await runner.next()
        runner.hello(features=["batch"])
        assert (await runner.frame("x-interlock.welcome")).payload.features == ["batch"]
        session_id = (await server.execute()).target.session_id
        await runner.next()  # Open and prompt: they waited together.
        frames = [{"type": "agent.error", "message_id": f"m{seq}", "session_id": session_id, "seq": seq,
                   "payload": msgspec.to_builtins(warning())} for seq in (1, 2, 3)]
        frames[1]["payload"] = {}  # It is refused alone.
        runner.text("\n".join(map(json.dumps, frames)))
        while json.loads((await runner.next())["text"].split("\n")[-1])["payload"].get("seq") != 3:
            pass
        assert await server.kinds(session_id) == ["agent.error", "refused", "agent.error"]


@pytest.mark.req("L-2", "L-4")
async def test_a_runner_without_batching_sends_and_receives_one_frame_per_message(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        frame = {"type": "agent.error", "message_id": "m", "session_id": session_id, "seq": 2,
                 "payload": msgspec.to_builtins(warning())}
        runner.text(json.dumps(frame, indent=1))  # A line end between fields is none between frames.
        await runner.acked(2)
        assert await server.kinds(session_id) == ["session.capabilities", "agent.error"]


@pytest.mark.req("L-4", "E-1")
@pytest.mark.parametrize("seqs", [(2**63, 0), (0, 2**63)])
async def test_a_hello_with_a_number_that_no_store_can_hold_is_refused(server: Server, seqs: tuple[int, int]) -> None:
    async with server.link() as runner:
        await runner.next()
        runner.hello(p.HelloSession(session_id="s", last_seq_sent=seqs[0], control_seq=seqs[1], state="idle"))
        assert (await runner.closed())[0] == 4408


@pytest.mark.req("D-2", "D-4", "E-1")
async def test_a_history_with_an_uncountable_loss_ends_the_link(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        runner.send("session.history", {"frames": [], "last_sync_timestamp": "", "last_message_id": "",
                                        "buffer_status": {"policy_applied": "DROP", "truncated": True}},
                    session_id=session_id, metadata={"lost_ranges": [[2, 2**63]]})
        assert (await runner.closed())[0] == 1003


@pytest.mark.req("D-1", "E-3", "L-2")
async def test_the_frames_of_one_message_are_decided_committed_and_acknowledged_together(server: Server) -> None:
    async with server.link() as runner:
        await runner.next()
        runner.hello(features=["batch"])
        await runner.frame("x-interlock.welcome")
        session_id = (await server.execute()).target.session_id
        await runner.next()  # Open and prompt: they waited together.
        shell = await server.lane(session_id)
        groups: list[int] = []
        begin = shell.lane.begin
        shell.lane.begin = lambda *at: (groups.append(shell.lane.state.last_seq), begin(*at))[1]  # type: ignore[method-assign]
        runner.text("\n".join(
            json.dumps({"type": "agent.error", "message_id": f"m{seq}", "session_id": session_id, "seq": seq,
                        "payload": msgspec.to_builtins(warning())}) for seq in range(1, RUN_FRAMES + 11)))
        while json.loads((await runner.next())["text"].split("\n")[-1])["payload"].get("seq") != RUN_FRAMES + 10:
            pass
        assert groups == [0, RUN_FRAMES]
        assert len(await server.ledger.events("default", f"s/{session_id}", 0, 500)) >= RUN_FRAMES + 10


async def _three_sessions(server: Server) -> list[p.HelloSession]:
    """Open three, restart the gateway, and return them as their runner lists them."""
    async with server.attached() as runner:
        opened = [await server.execute(target=Target(agent_id="shell", session_key=f"agent:shell:{name}"))
                  for name in ("one", "two", "three")]
        sessions = [command.target.session_id for command in opened]
        for session_id in sessions:
            await runner.frame("control.prompt.request")
            runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
        for _ in sessions:
            await runner.frame("session.capabilities")
    await server.restart()
    return [p.HelloSession(session_id=one, last_seq_sent=1, control_seq=2, state="idle") for one in sessions]


@pytest.mark.req("L-4", "C-4")
async def test_the_sessions_of_a_reconnected_runner_are_compared_concurrently(server: Server) -> None:
    """A lane that was read notes its runner's absence first: one commit each, which must not wait for one another."""
    listed = await _three_sessions(server)
    together, first, commit = asyncio.Barrier(len(listed)), {one.session_id for one in listed}, server.ledger.commit

    async def commit_together(batch: WriteBatch) -> Receipt:
        for lane, _ in batch.epochs:
            if lane.name in first:
                first.discard(lane.name)
                await together.wait()
        return await commit(batch)

    server.ledger.commit = commit_together  # type: ignore[method-assign]
    async with server.attached(*listed):
        notices = [await server.has_notice(one.session_id, "Detached") for one in listed]
    assert notices == [True, True, True]


@pytest.mark.req("C-7")
@pytest.mark.parametrize(("code", "noticed"), [
    (CloseCode.REOPENING, False), (1000, True), (1006, True),
])
async def test_a_link_that_its_runner_reopens_is_not_reported_as_detached(
    server: Server, code: int, noticed: bool
) -> None:
    async with server.session() as (runner, session_id, _):
        runner.incoming.put_nowait({"type": "websocket.disconnect", "code": code})
    assert await server.has_notice(session_id, "Detached") is noticed


@pytest.mark.req("L-4", "C-4")
async def test_portions_of_a_runners_sessions_are_read_concurrently(
        server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them waits for several round trips in a row."""
    listed = await _three_sessions(server)
    monkeypatch.setattr(rawp, "ATTACHED_TOGETHER", 1)
    together, read = asyncio.Barrier(len(listed)), server.ledger.stored_lanes

    async def read_together(lanes: Sequence[LaneName], recent: int) -> dict[str, StoredLane]:
        async with asyncio.timeout(10):  # One behind the other would wait for ever.
            await together.wait()
        return await read(lanes, recent)

    server.ledger.stored_lanes = read_together  # type: ignore[method-assign]
    async with server.link() as runner:
        runner.hello(*listed)
        await runner.next()
        welcome = await runner.frame("x-interlock.welcome")
    assert {one.session_id: one.last_durable_seq for one in welcome.payload.sessions} == {
        one.session_id: 1 for one in listed}


@pytest.mark.req("L-4", "C-4")
async def test_no_portion_is_read_after_one_that_fails(
        server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is closed at once, whatever number of sessions its runner has."""
    listed = await _three_sessions(server)
    monkeypatch.setattr(rawp, "ATTACHED_TOGETHER", 1)
    monkeypatch.setattr(rawp, "PORTIONS_AT_ONCE", 2)
    asked, whole = list[str](), asyncio.Barrier(2)

    async def fail(lanes: Sequence[LaneName], _recent: int) -> dict[str, StoredLane]:
        asked.extend(one.name for one in lanes)
        async with asyncio.timeout(10):
            await whole.wait()
        raise LedgerError("the ledger is gone")

    server.ledger.stored_lanes = fail  # type: ignore[method-assign]
    async with server.link() as runner:
        runner.hello(*listed)
        await runner.next()
        assert (await runner.closed())[0] == CloseCode.LEDGER
    assert sorted(asked) == sorted(one.session_id for one in listed[:2])


@pytest.mark.req("D-1", "E-3", "L-2")
async def test_frames_of_sessions_that_are_not_the_runners_leave_neither_state_nor_a_flood_of_log_lines(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    inflows: list[Inflow] = []
    monkeypatch.setattr(rawp, "Inflow", lambda gaps: inflows.append(Inflow(gaps)) or inflows[-1])
    history = {"frames": [], "last_sync_timestamp": "", "last_message_id": "",
               "buffer_status": {"policy_applied": "RING", "truncated": True}}
    with capture_logs() as logged:
        async with server.session() as (runner, session_id, _):
            for number in range(200):
                runner.send("x-v.odd", {}, session_id=f"other-{number}", seq=1 + number % 3)
                runner.send("agent.text.done", {"turn_id": 7}, session_id=f"other-{number}", seq=2)
                runner.send("agent.text.done", {"turn_id": 7})
                runner.send("session.history", history, session_id=f"other-{number}",
                            metadata={"lost_ranges": [[5, 6]]})
            runner.send("agent.error", warning(), session_id=session_id, seq=2)
            await runner.acked(2)
            assert {one: inflows[0].knows(one) for one in (session_id, "other-0", "other-1", "other-2")} == {
                session_id: True, "other-0": False, "other-1": False, "other-2": False}
    passed = [line for line in logged if line["event"] == "frame passed over"]
    assert [line["count"] for line in passed] == [1, 10, 100]
    async with server.attached():  # The count continues on the next link.
        assert server.engine.presence.node(server.record).frames_passed_over == 600
    assert passed[0]["reason"] == "session other-0 is not this runner's"
