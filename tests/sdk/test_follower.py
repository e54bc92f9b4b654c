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
    """Plays the gateway: `play` gives what comes back in order; the clock goes on by what is rested."""

    def __init__(self, since: str | None = None) -> None:
        self.flow = follow(Following("/v1/x", lambda event, data: (event, data.decode()), {}, since), STEADY)
        self.heard: list[Any] = []
        self.opened: list[str | None] = []
        self.clock = 100.0
        self.over = False

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
                        self.heard.append(item)
        except StopIteration:
            self.over = True
        assert not waiting
        return self

    def told(self) -> list[str]:
        return [one.data[1] if isinstance(one, StreamEvent) else type(one).__name__ for one in self.heard]


@pytest.mark.req("S-2")
def test_a_stream_that_has_ended_ends_without_a_word_about_it() -> None:
    talk = Conversation().play(OPENED, sse("c1", "1") + sse("c2", "2"), b"", OVER)
    assert (talk.told(), talk.opened, talk.over) == (["1", "2"], [None, "c2"], True)


@pytest.mark.req("S-1", "S-3")
def test_a_cut_is_told_and_it_goes_on_from_the_last_durable_event() -> None:
    talk = Conversation("c0").play(OPENED, sse("c1", "1") + sse(None, "delta", "delta"), GONE, GONE, OPENED,
                                   sse("c2", "2"), b"", OVER)
    assert talk.opened == ["c0", "c1", "c1", "c2"]
    assert talk.told() == ["1", "delta", "Lost", "Reattached", "2"]
    assert [one for one in talk.heard if isinstance(one, Lost)] == [Lost("reset by peer")]
    assert [one for one in talk.heard if isinstance(one, Reattached)] == [Reattached(0.25)]


def test_an_event_may_come_in_any_pieces() -> None:
    whole = sse("c1", "one") + b": hb\n\n" + sse(None, "two", "heartbeat")
    for at in range(1, len(whole)):
        lines = EventParser()
        found = [*lines.feed(whole[:at]), *lines.feed(whole[at:])]
        assert found == [("c1", "state", b"one"), (None, "heartbeat", b"two")]


def test_data_of_several_lines_is_one_event_and_carriage_returns_go() -> None:
    assert list(EventParser().feed(b"id: c\r\ndata: {\r\ndata: }\r\n\r\n")) == [("c", "message", b"{\n}")]


def test_an_event_without_end_is_no_gateway() -> None:
    with pytest.raises(problems.NotAGateway):
        list(EventParser().feed(b"data: " + b"x" * (5 * 1024 * 1024)))


@pytest.mark.req("S-4")
def test_one_that_was_too_slow_goes_on_from_its_cursor() -> None:
    talk = Conversation().play(OPENED, sse("c1", "1") + sse(None, "{}", "behind"), OPENED, sse("c2", "2"), b"", OVER)
    assert talk.told() == ["1", "Lost", "Reattached", "2"]
    assert "too slow" in talk.heard[1].why


def test_a_gateway_that_stops_and_comes_back_is_waited_for() -> None:
    busy = HttpReply(503, b'{"code": "Unavailable"}', "3")
    talk = Conversation().play(OPENED, sse("c1", "1"), b"", GONE, busy, OPENED, sse("c2", "2"), b"", OVER)
    assert talk.told() == ["1", "Lost", "Reattached", "2"]
    assert talk.heard[1].why == "the gateway ended the stream"
    assert talk.heard[2].away_s >= 3


@pytest.mark.parametrize(("code", "status"), [("CursorExpired", 410), ("Unauthorized", 401), ("NotFound", 404)])
def test_a_refusal_is_raised(code: str, status: int) -> None:
    with pytest.raises(problems.BY_CODE[code]):
        Conversation("c9").play(HttpReply(status, b'{"code": "%s"}' % code.encode()))


def test_a_gateway_that_stays_away_is_given_up() -> None:
    with pytest.raises(problems.Unreachable, match="reset by peer"):
        Conversation().play(OPENED, sse("c1", "1"), *[GONE] * 400)
