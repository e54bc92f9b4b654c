"""The API's streams over one WebSocket: the same ids and data as server-sent events, byte for byte (S-1, S-3, S-6)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.rest.test_streams import FRAMES, delta, done, end, send_transient
from interlock.gateway.rest import socket as socket_streams
from interlock.gateway.rest.socket import MAX_ASKED, MAX_STREAMS, as_json
from interlock.gateway.rest.streams import KEEP_ALIVE, event
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
OWNER = Principal(tenant_id="default", actor=Actor(type="user", id="owner"), role="owner", key_id="k")


@asynccontextmanager
async def socket(gateway: Gateway, role: str = "owner", path: str = "/v1/stream") -> AsyncIterator[ClientConnection]:
    url = gateway.base.replace("http", "ws") + path
    # A client that stops reading at a full queue does not see the close either, and waits until its time is up.
    async with connect(url, additional_headers={"Authorization": f"Bearer ilk_default_{role}"},
                       max_queue=None) as there:
        yield there


async def ask(there: ClientConnection, op: str = "subscribe", ref: str = "a", **more: Any) -> None:
    await there.send(json.dumps({"op": op, "ref": ref, **more}))


async def received(there: ClientConnection) -> dict[str, Any]:
    return json.loads(await there.recv())


async def events(there: ClientConnection, count: int, ref: str = "a") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        message = await received(there)
        assert message["ref"] == ref
        found += message["events"]
    return found


@pytest.mark.req("S-1", "S-3", "S-6")
async def test_a_socket_carries_what_server_sent_events_carry(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.frame(end(1))
    send_transient(gateway, delta(0, "Hel"))
    send_transient(gateway, delta(3, "lo"))
    async with gateway.sse(FRAMES) as sse, socket(gateway) as there:
        await ask(there, path=FRAMES)
        by_socket = await events(there, 2)
        for one in by_socket:
            expected = await sse.next()
            assert expected is not None
            assert (one.get("id"), one["event"], one["data"]) == (expected[0], expected[1], json.loads(expected[2]))
        send_transient(gateway, delta(5, "!"))
        await gateway.desk.frame(done(2, "Hello!"))
        live = await events(there, 2)
        assert [one["event"] for one in live] == ["delta", "frame"]
    async with socket(gateway) as again:
        await ask(again, path=FRAMES, since=by_socket[0]["id"])
        assert await events(again, 1) == [live[1]]


@pytest.mark.req("S-2", "S-3")
async def test_several_streams_share_a_socket_and_each_ends_by_itself(gateway: Gateway) -> None:
    command = await gateway.execute()
    async with socket(gateway) as there:
        await ask(there, ref="status", path=f"/v1/commands/{command}/status")
        assert (await events(there, 1, "status"))[0]["data"]["state"] == "queued"
        await ask(there, ref="feed", path="/v1/events")
        await gateway.desk.finish(command)
        assert [one["event"] for one in await events(there, 2, "status")] == ["state", "result"]
        assert await received(there) == {"ref": "status", "end": "over"}
        await gateway.desk.feed(b'{"event":"command"}')
        assert (await events(there, 1, "feed"))[0]["data"] == {"event": "command"}
        await ask(there, "unsubscribe", "feed")
        assert await received(there) == {"ref": "feed", "end": "unsubscribed"}
        await ask(there, ref="again", path=f"/v1/commands/{command}/status")
        assert [one["event"] for one in await events(there, 3, "again")] == ["state", "state", "result"]


@pytest.mark.req("S-2", "K-1", "S-6")
@pytest.mark.parametrize(("path", "since", "code"), [
    ("/v1/commands/cmd_none/status", None, "NotFound"), ("/v1/nothing", None, "NotFound"),
    ("/v1/commands", None, "NotAcceptable"), ("/v1/events", "nonsense", "InvalidPayload"),
    ("/v1/events?view=raw", None, "InvalidPayload"), (FRAMES + "?view=raw", None, "Forbidden"), ("", None, "NotFound"),
])
async def test_a_stream_that_cannot_begin_gets_a_problem_of_its_own(
    gateway: Gateway, path: str, since: str | None, code: str
) -> None:
    await gateway.desk.add_session()
    async with socket(gateway, "viewer") as there:
        await ask(there, path=path, since=since)
        assert (await received(there))["problem"]["code"] == code
        await ask(there, path="/v1/events")
        await gateway.desk.feed(b"{}")
        assert len(await events(there, 1)) == 1


@pytest.mark.req("K-1")
async def test_without_a_key_the_upgrade_is_refused_with_the_problem(gateway: Gateway) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(gateway.base.replace("http", "ws") + "/v1/stream"):
            pass
    assert refused.value.response.status_code == 401
    assert msgspec.json.decode(refused.value.response.body)["code"] == "Unauthorized"


@pytest.mark.req("S-4")
@pytest.mark.parametrize("message", [
    "no json", '{"op":"subscribe"}', '{"op":"sing","ref":"a"}', '{"op":"subscribe","ref":""}', b"bytes",
    '"' + "x" * 20_000 + '"',
])
async def test_a_malformed_request_closes_the_socket_with_a_sentence(gateway: Gateway, message: str | bytes) -> None:
    async with socket(gateway) as there:
        await there.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            await there.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400
    assert closed.value.rcvd.reason


@pytest.mark.req("S-4")
async def test_the_streams_of_a_socket_are_bounded(gateway: Gateway) -> None:
    async with socket(gateway) as there:
        for number in range(MAX_STREAMS + 1):
            await ask(there, ref=f"r{number}", path="/v1/events")
        assert (await received(there))["problem"]["code"] == "QuotaExceeded"


@pytest.mark.req("S-4", "K-3")
async def test_requests_of_a_reader_that_takes_nothing_are_not_gathered() -> None:
    sent: list[Any] = []
    incoming = iter([{"type": "websocket.connect"}, *(
        {"type": "websocket.receive", "text": json.dumps({"op": "subscribe", "ref": f"r{number}", "path": "/v1/x"})}
        for number in range(2 * MAX_ASKED))])

    async def receive() -> Any:
        return next(incoming)

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()
        sent.append(message)

    async def answer(*_: Any) -> Any:
        raise Problem("NotFound", "There is nothing there.")

    await socket_streams.Socket(answer, nullcontext, OWNER, {"path": "/v1/stream"}, receive, send).serve(
        asyncio.Event())
    assert (sent[-1]["code"], sent[-1]["reason"]) == (4400, "128 requests are open or wait for their answers")


@pytest.mark.req("S-4")
async def test_a_reader_that_reads_nothing_is_closed_with_a_resume_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_streams, "SEND_STALL_S", 0)
    sent: list[Any] = []
    incoming = iter([{"type": "websocket.connect"},
                     {"type": "websocket.receive", "text": '{"op":"subscribe","ref":"a","path":"/v1/events"}'}])

    async def receive() -> Any:
        return next(incoming, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()
        sent.append(message)

    async def answer(*_: Any) -> Any:
        raise Problem("NotFound", "There is nothing there.")

    await socket_streams.Socket(answer, nullcontext, OWNER, {"path": "/v1/stream"}, receive, send).serve(
        asyncio.Event())
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.close"]
    assert (sent[-1]["code"], sent[-1]["reason"]) == (4408, "too slow to keep up; resume from your cursors")


@pytest.mark.req("S-1")
@pytest.mark.req("S-2", "J-4")
async def test_a_quiet_stream_sends_a_message_without_events_at_each_heartbeat() -> None:
    """A page cannot see its socket's pings: it treats a silent socket as lost."""
    async with running(0.01) as gateway, socket(gateway) as there:
        await ask(there, ref="feed", path="/v1/events")
        for _ in range(3):
            assert await received(there) == {"ref": "feed", "events": []}
        await gateway.desk.feed(b'{"event":"command"}')
        found: list[dict[str, Any]] = []
        while not found:
            found = (await received(there))["events"]
        assert found[0]["data"] == {"event": "command"}


def test_an_event_is_written_as_json_with_its_data_as_they_are() -> None:
    assert as_json(event("state", b'{"a": 1}', "c1")) == b'{"id":"c1","event":"state","data":{"a": 1}}'
    assert as_json(event("delta", b'{\n"a":1}')) == b'{"event":"delta","data":{\n"a":1}}'
    assert as_json(KEEP_ALIVE) is None


@pytest.mark.req("S-2", "S-6")
async def test_a_stopping_gateway_ends_every_stream_with_a_reason_and_logs_no_failure(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    async with socket(gateway) as one, socket(gateway) as other:
        for there in (one, other):
            await ask(there, path="/v1/events")
            await ask(there, "subscribe", "b", path="/v1/events")
        await gateway.desk.feed(b'{"event":"command"}')
        for there in (one, other):
            assert {(await received(there))["ref"] for _ in "ab"} == {"a", "b"}
        gateway.server.should_exit = True
        for there in (one, other):
            ends = [await received(there) for _ in "ab"]
            assert sorted((one["ref"], one["end"]) for one in ends) == [("a", "stopping"), ("b", "stopping")]
            with pytest.raises(ConnectionClosed):
                await there.recv()
    assert "stream_failed" not in capsys.readouterr().out
