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
    """Plays the gateway: `play` gives what comes back in order; the clock goes on by what is rested."""

    def __init__(self, watched: Watched) -> None:
        self.flow = watching(watched, RetryPolicy(draw=lambda: 1.0))
        self.heard: list[Any] = []
        self.said: list[Any] = []
        self.clock = 100.0
        self.over = False

    def play(self, *came: Any) -> Conversation:
        waiting, answer = list(came), None
        try:
            while True:
                effect = self.flow.send(answer)
                answer = None
                match effect:
                    case Connect(path):
                        self.said.append(path)
                        answer = waiting.pop(0)
                    case SendMessage(text):
                        self.said.append(json.loads(text))
                    case ReceiveMessage():
                        answer = waiting.pop(0)
                    case Rest(seconds):
                        self.clock += seconds
                    case Now():
                        answer = self.clock
                    case Give(item):
                        self.heard.append(item)
        except StopIteration:
            self.over = True
        assert not waiting
        return self

    def told(self) -> list[Any]:
        return [int(one.data.id) if isinstance(one, StreamEvent) else type(one).__name__ for one in self.heard]


def subscribed(ref: str = "events", **more: Any) -> dict[str, Any]:
    return {"op": "subscribe", "ref": ref, "path": "/v1/events", **more}


@pytest.mark.req("S-1", "S-3")
def test_a_cut_is_told_and_every_stream_goes_on_from_its_own_cursor() -> None:
    watched = Watched()
    watched.events()
    watched.events(ref="other", since="c0")
    talk = Conversation(watched).play(OPENED, feed(1), GONE, GONE, OPENED, feed(2), feed(9, "other"), end("over"),
                                      end("over", "other"))
    assert talk.said == ["/v1/stream", subscribed(), subscribed("other", since="c0"), "/v1/stream", "/v1/stream",
                         subscribed(since="c1"), subscribed("other", since="c0")]
    assert talk.told() == [1, "Lost", "Reattached", 2, 9, "StreamEnd", "StreamEnd"]
    assert [one.ref for one in talk.heard if isinstance(one, StreamEvent)] == ["events", "events", "other"]
    assert talk.over


@pytest.mark.req("S-4")
def test_a_stream_that_fell_behind_is_asked_for_again_without_a_new_connection() -> None:
    watched = Watched()
    watched.events()
    talk = Conversation(watched).play(OPENED, feed(1), end("behind"), feed(2), end("over"))
    assert talk.said == ["/v1/stream", subscribed(), subscribed(since="c1")]
    assert talk.told() == [1, 2, "StreamEnd"]


def test_a_gateway_that_stops_is_waited_for() -> None:
    watched = Watched()
    watched.events()
    busy = HttpReply(503, b'{"code": "Unavailable"}', "3")
    talk = Conversation(watched).play(OPENED, feed(1), end("stopping"), busy, OPENED, feed(2), end("over"))
    assert talk.told() == [1, "Lost", "Reattached", 2, "StreamEnd"]
    assert talk.heard[2].away_s >= 3


def test_one_that_cannot_begin_says_why_and_the_others_go_on() -> None:
    watched = Watched()
    watched.events()
    watched.command("cmd_gone")
    problem = {"code": "NotFound", "status": 404, "detail": "There is no command cmd_gone."}
    talk = Conversation(watched).play(OPENED, json.dumps({"ref": "cmd_gone", "problem": problem}), feed(1), end("over"))
    assert talk.told() == ["StreamEnd", 1, "StreamEnd"]
    assert isinstance(talk.heard[0].error, problems.NotFound)
    assert talk.heard[0].error.status == 404


def test_what_is_dropped_in_the_loop_is_heard_no_more() -> None:
    watched = Watched()
    watched.events()
    watched.events(ref="other")
    talk = Conversation(watched)
    talk.flow.send(None)
    for answer in (OPENED, None, None):
        talk.flow.send(answer)
    given = talk.flow.send(feed(1))
    assert isinstance(given, Give)
    watched.drop("events")
    assert json.loads(talk.flow.send(None).text) == {"op": "unsubscribe", "ref": "events"}
    talk.play(feed(2), feed(3, "other"), end("over", "other"))
    assert talk.told() == [3, "StreamEnd"]


def test_a_name_is_followed_once() -> None:
    watched = Watched()
    watched.events()
    with pytest.raises(ValueError, match="another `ref`"):
        watched.events()


def test_a_connection_that_is_refused_is_an_exception_and_nonsense_no_gateway() -> None:
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
async def test_the_awaiting_shell_watches_and_comes_back(gateway: Gateway) -> None:
    async with AsyncInterlock(gateway.base, "ilk_default_owner", retries=QUICK) as there:
        command = await there.commands.submit("hello", agent="shell")
        watch = there.watch()
        watch.command(command.id)
        watch.command("cmd_none")
        heard: list[Any] = []
        async for one in watch:
            heard.append(one)
            if isinstance(one, StreamEvent) and one.data.state == "queued":
                cut(gateway)
            if isinstance(one, Reattached):
                await gateway.desk.finish(command.id)
    told = [one.data.state or one.data.event for one in heard if isinstance(one, StreamEvent)]
    assert told == ["queued", "succeeded", "result"]
    assert [type(one) for one in heard if isinstance(one, Lost | Reattached)] == [Lost, Reattached]
    assert {one.ref: type(one.error) for one in heard if isinstance(one, StreamEnd)} == {
        "cmd_none": problems.NotFound, command.id: type(None)}
    assert watch.cursor(command.id) == [one.cursor for one in heard if isinstance(one, StreamEvent)][-1]


@pytest.mark.anyio
async def test_the_blocking_shell_watches_too_and_takes_up_a_loop_that_was_left(gateway: Gateway) -> None:
    def talk() -> list[str]:
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
    assert await asyncio.to_thread(talk) == ["queued", "state", "result"]


@pytest.mark.anyio
async def test_a_key_that_is_not_known_is_refused_before_anything_is_heard(gateway: Gateway) -> None:
    async with AsyncInterlock(gateway.base, "ilk_wrong", retries=QUICK) as there:
        watch = there.watch()
        watch.events()
        with pytest.raises(problems.Unauthorized):
            await anext(aiter(watch))
