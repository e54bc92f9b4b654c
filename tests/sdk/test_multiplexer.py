"""Many streams over one WebSocket that reconnects by itself: conversations with the flow, and both shells (S-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.sdk import AsyncInterlock, Interlock, Lost, Reattached, RetryPolicy, StreamEnd, StreamEvent, problems
from interlock.sdk.exchange import Connect, ConnectionCut, Give, HttpReply, Now, ReceiveMessage, Rest, SendMessage
from interlock.sdk.multiplexer import Watched, watching
from small_gateway.running import Gateway, running

OPENED = HttpReply(101, b"")
GONE = ConnectionCut("reset by peer")
QUICK = RetryPolicy(draw=lambda: -1.0)


def feed(n: int, ref: str = "events", **more: Any) -> str:
    data = {"event": "command", "at": "now", "id": str(n), "state": "queued"}
    event = {"id": f"c{n}", "event": "command", "data": data, **more}
    return json.dumps({"ref": ref, "events": [event]})


def end(how: str, ref: str = "events") -> str:
    return json.dumps({"ref": ref, "end": how})


class Conversation:
    """Plays the gateway: `play` returns the replies in order; the clock advances by the waits."""

    def __init__(self, watched: Watched) -> None:
        self.flow = watching(watched, RetryPolicy(draw=lambda: 1.0))
        self.received: list[Any] = []
        self.requests: list[Any] = []
        self.clock = 100.0
        self.ended = False

    def play(self, *came: Any) -> Conversation:
        waiting, answer = list(came), None
        try:
            while True:
                effect = self.flow.send(answer)
                answer = None
                match effect:
                    case Connect(path):
                        self.requests.append(path)
                        answer = waiting.pop(0)
                    case SendMessage(text):
                        self.requests.append(json.loads(text))
                    case ReceiveMessage():
                        answer = waiting.pop(0)
                    case Rest(seconds):
                        self.clock += seconds
                    case Now():
                        answer = self.clock
                    case Give(item):
                        self.received.append(item)
        except StopIteration:
            self.ended = True
        assert not waiting
        return self

    def results(self) -> list[Any]:
        return [int(one.data.id) if isinstance(one, StreamEvent) else type(one).__name__ for one in self.received]


def subscribed(ref: str = "events", **more: Any) -> dict[str, Any]:
    return {"op": "subscribe", "ref": ref, "path": "/v1/events", **more}


@pytest.mark.req("S-1", "S-3")
def test_a_cut_is_reported_and_every_stream_continues_from_its_own_cursor() -> None:
    watched = Watched()
    watched.events()
    watched.events(ref="other", since="c0")
    chat = Conversation(watched).play(OPENED, feed(1), GONE, GONE, OPENED, feed(2), feed(9, "other"), end("over"),
                                      end("over", "other"))
    assert chat.requests == ["/v1/stream", subscribed(), subscribed("other", since="c0"), "/v1/stream", "/v1/stream",
                             subscribed(since="c1"), subscribed("other", since="c0")]
    assert chat.results() == [1, "Lost", "Reattached", 2, 9, "StreamEnd", "StreamEnd"]
    assert [one.ref for one in chat.received if isinstance(one, StreamEvent)] == ["events", "events", "other"]
    assert chat.ended


@pytest.mark.req("S-4")
def test_a_stream_that_fell_behind_is_requested_again_on_the_same_connection() -> None:
    watched = Watched()
    watched.events()
    chat = Conversation(watched).play(OPENED, feed(1), end("behind"), feed(2), end("over"))
    assert chat.requests == ["/v1/stream", subscribed(), subscribed(since="c1")]
    assert chat.results() == [1, 2, "StreamEnd"]


def test_a_stopping_gateway_is_awaited() -> None:
    watched = Watched()
    watched.events()
    busy = HttpReply(503, b'{"code": "Unavailable"}', "3")
    chat = Conversation(watched).play(OPENED, feed(1), end("stopping"), busy, OPENED, feed(2), end("over"))
    assert chat.results() == [1, "Lost", "Reattached", 2, "StreamEnd"]
    assert chat.received[2].away_s >= 3


def test_a_stream_that_cannot_begin_has_a_reason_and_the_others_continue() -> None:
    watched = Watched()
    watched.events()
    watched.command("cmd_gone")
    problem = {"code": "NotFound", "status": 404, "detail": "There is no command cmd_gone."}
    chat = Conversation(watched).play(OPENED, json.dumps({"ref": "cmd_gone", "problem": problem}), feed(1), end("over"))
    assert chat.results() == ["StreamEnd", 1, "StreamEnd"]
    assert isinstance(chat.received[0].error, problems.NotFound)
    assert chat.received[0].error.status == 404


def test_a_stream_dropped_in_the_loop_receives_nothing_more() -> None:
    watched = Watched()
    watched.events()
    watched.events(ref="other")
    chat = Conversation(watched)
    chat.flow.send(None)
    for answer in (OPENED, None, None):
        chat.flow.send(answer)
    given = chat.flow.send(feed(1))
    assert isinstance(given, Give)
    watched.drop("events")
    sent = chat.flow.send(None)
    assert isinstance(sent, SendMessage)
    assert json.loads(sent.text) == {"op": "unsubscribe", "ref": "events"}
    chat.play(feed(2), feed(3, "other"), end("over", "other"))
    assert chat.results() == [3, "StreamEnd"]


def test_a_name_can_be_followed_once() -> None:
    watched = Watched()
    watched.events()
    with pytest.raises(ValueError, match="another `ref`"):
        watched.events()


def test_a_refused_connection_and_a_malformed_message_are_exceptions() -> None:
    watched = Watched()
    watched.events()
    with pytest.raises(problems.Unauthorized):
        Conversation(watched).play(HttpReply(401, b'{"code": "Unauthorized"}'))
    with pytest.raises(problems.NotAGateway):
        Conversation(watched).play(OPENED, "<html>")
    with pytest.raises(problems.Unreachable, match="reset by peer"):
        Conversation(watched).play(*[GONE] * 400)


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


def cut(gateway: Gateway) -> None:
    """Tear every connection that is open, as a network does."""
    for connection in list(gateway.server.server_state.connections):
        connection.transport.abort()


@pytest.mark.req("S-1", "S-3")
@pytest.mark.anyio
async def test_the_async_client_watches_and_reconnects(gateway: Gateway) -> None:
    async with AsyncInterlock(gateway.base, "ilk_default_owner", retries=QUICK) as there:
        command = await there.commands.submit("hello", agent="shell")
        watch = there.watch()
        watch.command(command.id)
        watch.command("cmd_none")
        received: list[Any] = []
        async for one in watch:
            received.append(one)
            if isinstance(one, StreamEvent) and one.data.state == "queued":
                cut(gateway)
            if isinstance(one, Reattached):
                await gateway.desk.finish(command.id)
    results = [one.data.state or one.data.event for one in received if isinstance(one, StreamEvent)]
    assert results == ["queued", "succeeded", "result"]
    assert [type(one) for one in received if isinstance(one, Lost | Reattached)] == [Lost, Reattached]
    assert {one.ref: type(one.error) for one in received if isinstance(one, StreamEnd)} == {
        "cmd_none": problems.NotFound, command.id: type(None)}
    assert watch.cursor(command.id) == [one.cursor for one in received if isinstance(one, StreamEvent)][-1]


@pytest.mark.anyio
async def test_the_blocking_client_watches_and_resumes_an_abandoned_loop(gateway: Gateway) -> None:
    def chat() -> list[str]:
        with Interlock(gateway.base, "ilk_default_owner", retries=QUICK) as there:
            command = there.commands.submit("hello", agent="shell")
            watch = there.watch()
            watch.command(command.id)
            seen: list[str] = []
            for one in watch:
                assert isinstance(one, StreamEvent)
                seen.append(one.data.state)
                break
            asyncio.run_coroutine_threadsafe(gateway.desk.finish(command.id), loop).result()
            return seen + [one.data.event for one in watch if isinstance(one, StreamEvent)]

    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(chat) == ["queued", "state", "result"]


@pytest.mark.anyio
async def test_an_unknown_key_is_refused_before_any_event(gateway: Gateway) -> None:
    async with AsyncInterlock(gateway.base, "ilk_wrong", retries=QUICK) as there:
        watch = there.watch()
        watch.events()
        with pytest.raises(problems.Unauthorized):
            await anext(aiter(watch))
