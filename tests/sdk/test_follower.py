"""A stream that resumes by itself: conversations with the flow, without any network (S-1, S-2)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk import problems
from interlock.sdk.exchange import ConnectionCut, Give, HttpReply, Now, Open, ReadMore, Rest, RetryPolicy
from interlock.sdk.follower import EventParser, Following, Lost, Reattached, StreamEvent, follow

STEADY = RetryPolicy(draw=lambda: 1.0)
OPENED = HttpReply(200, b"")
OVER = HttpReply(204, b"")
GONE = ConnectionCut("reset by peer")


def sse(cursor: str | None, data: str, event: str = "state") -> bytes:
    return ((f"id: {cursor}\n" if cursor else "") + f"event: {event}\ndata: {data}\n\n").encode()


class Conversation:
    """Plays the gateway: `play` returns the replies in order; the clock advances by the waits."""

    def __init__(self, since: str | None = None) -> None:
        self.flow = follow(Following("/v1/x", lambda event, data: (event, data.decode()), {}, since), STEADY)
        self.events: list[Any] = []
        self.opened: list[str | None] = []
        self.clock = 100.0
        self.ended = False

    def play(self, *came: Any) -> Conversation:
        waiting, answer = list(came), None
        try:
            while True:
                effect = self.flow.send(answer)
                answer = None
                match effect:
                    case Open(ask):
                        self.opened.append(ask.last_event_id)
                        answer = waiting.pop(0)
                    case ReadMore():
                        answer = waiting.pop(0)
                    case Rest(seconds):
                        self.clock += seconds
                    case Now():
                        answer = self.clock
                    case Give(item):
                        self.events.append(item)
        except StopIteration:
            self.ended = True
        assert not waiting
        return self

    def received(self) -> list[str]:
        return [one.data[1] if isinstance(one, StreamEvent) else type(one).__name__ for one in self.events]


@pytest.mark.req("S-2")
def test_an_ended_stream_ends_without_an_event() -> None:
    chat = Conversation().play(OPENED, sse("c1", "1") + sse("c2", "2"), b"", OVER)
    assert (chat.received(), chat.opened, chat.ended) == (["1", "2"], [None, "c2"], True)


@pytest.mark.req("S-1", "S-3")
def test_a_cut_is_reported_and_the_stream_continues_after_the_last_durable_event() -> None:
    chat = Conversation("c0").play(OPENED, sse("c1", "1") + sse(None, "delta", "delta"), GONE, GONE, OPENED,
                                   sse("c2", "2"), b"", OVER)
    assert chat.opened == ["c0", "c1", "c1", "c2"]
    assert chat.received() == ["1", "delta", "Lost", "Reattached", "2"]
    assert [one for one in chat.events if isinstance(one, Lost)] == [Lost("reset by peer")]
    assert [one for one in chat.events if isinstance(one, Reattached)] == [Reattached(0.25)]


def test_an_event_may_arrive_in_any_pieces() -> None:
    whole = sse("c1", "one") + b": hb\n\n" + sse(None, "two", "heartbeat")
    for at in range(1, len(whole)):
        lines = EventParser()
        found = [*lines.feed(whole[:at]), *lines.feed(whole[at:])]
        assert found == [("c1", "state", b"one"), (None, "heartbeat", b"two")]


def test_data_of_several_lines_is_one_event_without_carriage_returns() -> None:
    assert list(EventParser().feed(b"id: c\r\ndata: {\r\ndata: }\r\n\r\n")) == [("c", "message", b"{\n}")]


def test_an_endless_event_is_an_error() -> None:
    with pytest.raises(problems.NotAGateway):
        list(EventParser().feed(b"data: " + b"x" * (5 * 1024 * 1024)))


@pytest.mark.req("S-4")
def test_a_follower_that_was_too_slow_continues_from_its_cursor() -> None:
    chat = Conversation().play(OPENED, sse("c1", "1") + sse(None, "{}", "behind"), OPENED, sse("c2", "2"), b"", OVER)
    assert chat.received() == ["1", "Lost", "Reattached", "2"]
    assert "too slow" in chat.events[1].why


def test_a_stopping_gateway_is_awaited_until_it_returns() -> None:
    busy = HttpReply(503, b'{"code": "Unavailable"}', "3")
    chat = Conversation().play(OPENED, sse("c1", "1"), b"", GONE, busy, OPENED, sse("c2", "2"), b"", OVER)
    assert chat.received() == ["1", "Lost", "Reattached", "2"]
    assert chat.events[1].why == "the gateway ended the stream"
    assert chat.events[2].away_s >= 3


@pytest.mark.parametrize(("code", "status"), [("CursorExpired", 410), ("Unauthorized", 401), ("NotFound", 404)])
def test_a_refusal_is_raised(code: str, status: int) -> None:
    with pytest.raises(problems.BY_CODE[code]):
        Conversation("c9").play(HttpReply(status, b'{"code": "%s"}' % code.encode()))


def test_a_gateway_that_stays_away_ends_the_follower() -> None:
    with pytest.raises(problems.Unreachable, match="reset by peer"):
        Conversation().play(OPENED, sse("c1", "1"), *[GONE] * 400)
