"""The stream reader: cuts, replays, ends, refusals; no time passes."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from cli.scripted import Script, answer, broken, event, link_to, problem, stream
from interlock.cli.link import sse
from interlock.cli.link.gateway_link import READ_ATTEMPTS
from interlock.cli.link.sse import (
    GIVE_UP_S,
    CursorForgotten,
    SseEvent,
    SseItem,
    SseStream,
    StreamLost,
    StreamResumed,
)
from interlock.cli.verb_error import Trouble
from interlock.sdk.follower import MAX_EVENT_CHARS

PATH = "/v1/sessions/s/frames"


class Clock:
    """Time that passes only in pauses."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self._step = step

    async def sleep(self, seconds: float) -> None:
        self.now += seconds + self._step

    def read(self) -> float:
        return self.now


async def received(
    script: Script, tmp_path: Path, cursor: str | None = None, clock: Clock | None = None
) -> list[SseItem]:
    clock = clock or Clock()
    async with link_to(script, tmp_path, sleep=clock.sleep, clock=clock.read) as link:
        return [one async for one in SseStream(link, PATH, cursor)]


def page(*events: int, more: bool = False) -> dict[str, object]:
    return {"events": [{"n": n} for n in events], "next_cursor": f"c{events[-1]}" if events else "c0", "has_more": more}


def ended(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(204)


@pytest.mark.anyio
@pytest.mark.req("S-1", "S-3", "G-7")
async def test_a_cut_stream_continues_from_its_cursor_and_counts_replayed_events(tmp_path: Path) -> None:
    script = Script({
        f"GET {PATH} sse": [stream(event({"n": 1}, "c1"), event({"n": 2}, "c2")), stream(event({"n": 5}, "c5")), ended],
        f"GET {PATH}": [answer(page(3, 4)), answer(page(6))],
    })
    got = await received(script, tmp_path)
    assert [one.data["n"] for one in got if isinstance(one, SseEvent)] == [1, 2, 3, 4, 5, 6]
    assert [one.replayed for one in got if isinstance(one, StreamResumed)] == [2, 1]
    # The number of missed events is shown before them.
    assert [type(one) for one in got] == [SseEvent, SseEvent, StreamLost, StreamResumed, SseEvent, SseEvent, SseEvent,
                                          StreamLost, StreamResumed, SseEvent]
    polled = [request.url.params.get("since") for request in script.asked
              if "event-stream" not in request.headers.get("Accept", "")]
    assert polled == ["c2", "c5"]
    streamed = [request.headers.get("Last-Event-ID") for request in script.asked
                if "event-stream" in request.headers.get("Accept", "")]
    assert streamed == [None, "c4", "c6"]


@pytest.mark.anyio
@pytest.mark.req("S-3")
async def test_a_replay_that_is_cut_itself_loses_nothing_that_was_held_back(tmp_path: Path) -> None:
    def cut(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("gone")

    script = Script({
        f"GET {PATH} sse": [stream(event({"n": 1}, "c1")), ended],
        f"GET {PATH}": [answer(page(2, more=True)), cut, answer(page(2, 3))],
    })
    got = await received(script, tmp_path)
    assert [one.data["n"] for one in got if isinstance(one, SseEvent)] == [1, 2, 3]
    assert [one.replayed for one in got if isinstance(one, StreamResumed)] == [2]


@pytest.mark.anyio
@pytest.mark.req("S-3")
async def test_a_long_replay_reports_at_least_the_buffered_events_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "REPLAY_HELD", 2)
    script = Script({f"GET {PATH} sse": [stream(event({"n": 1}, "c1")), ended],
                     f"GET {PATH}": [answer(page(2, 3, 4, more=True)), answer(page(5))]})
    got = await received(script, tmp_path)
    assert [one.data["n"] for one in got if isinstance(one, SseEvent)] == [1, 2, 3, 4, 5]
    assert [(one.replayed, one.more) for one in got if isinstance(one, StreamResumed)] == [(2, True)]
    assert script.asked[-1].headers["Last-Event-ID"] == "c5"


@pytest.mark.anyio
@pytest.mark.req("S-2")
async def test_an_end_without_204_means_a_stopping_gateway(tmp_path: Path) -> None:
    script = Script({f"GET {PATH} sse": [stream(event({"n": 1}, "c1"), breaks=False), ended],
                     f"GET {PATH}": [answer(page())]})
    got = await received(script, tmp_path)
    assert [type(one) for one in got] == [SseEvent, StreamLost, StreamResumed]


@pytest.mark.anyio
@pytest.mark.req("S-1")
async def test_a_partly_read_event_at_the_cut_is_not_delivered(tmp_path: Path) -> None:
    whole = event({"n": 1}, "c1")
    script = Script({f"GET {PATH} sse": [stream(whole[:-3]), ended], f"GET {PATH}": [answer(page(1))]})
    got = await received(script, tmp_path)
    assert [one.data for one in got if isinstance(one, SseEvent)] == [{"n": 1}]


@pytest.mark.anyio
@pytest.mark.req("S-1", "S-3")
async def test_deltas_do_not_move_the_cursor_and_are_not_counted_as_replayed(tmp_path: Path) -> None:
    script = Script({
        f"GET {PATH} sse": [stream(event({"n": 1}, "c1"), event({"kind": "C"})), ended],
        f"GET {PATH}": [answer({"events": [{"n": 2}, {"kind": "C"}], "next_cursor": "c2", "has_more": False})],
    })
    got = await received(script, tmp_path)
    assert [one.replayed for one in got if isinstance(one, StreamResumed)] == [1]
    assert script.asked[-1].headers["Last-Event-ID"] == "c2"


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_a_gateway_that_stays_absent_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    script = Script({f"GET {PATH} sse": [broken], f"GET {PATH}": [broken]})
    with pytest.raises(Trouble) as caught:
        await received(script, tmp_path, clock=Clock(step=GIVE_UP_S / 10))
    assert caught.value.status == 6
    assert len(script.asked) < 20


@pytest.mark.anyio
@pytest.mark.req("S-2")
async def test_an_expired_cursor_starts_over_and_is_reported(tmp_path: Path) -> None:
    script = Script({f"GET {PATH} sse": [problem(410, "CursorExpired", "gone"), stream(event({"n": 9}, "c9")), ended],
                     f"GET {PATH}": [answer(page())]})
    got = await received(script, tmp_path, cursor="old")
    assert isinstance(got[0], CursorForgotten)
    assert script.asked[1].headers.get("Last-Event-ID") is None


@pytest.mark.anyio
@pytest.mark.req("F-1")
async def test_a_refusal_ends_the_reader(tmp_path: Path) -> None:
    script = Script({f"GET {PATH} sse": [problem(403, "Forbidden", "no")]})
    with pytest.raises(Trouble) as caught:
        await received(script, tmp_path)
    assert caught.value.status == 8


@pytest.mark.anyio
@pytest.mark.req("S-4")
async def test_a_viewer_that_is_too_slow_gets_the_reason_and_continues(tmp_path: Path) -> None:
    behind = event({"code": "Behind", "detail": "too slow"})
    script = Script({f"GET {PATH} sse": [stream(behind, breaks=False), ended], f"GET {PATH}": [answer(page())]})
    got = await received(script, tmp_path)
    assert isinstance(got[0], StreamLost)
    assert "slow" in got[0].why


@pytest.mark.anyio
@pytest.mark.req("S-2")
async def test_an_event_without_end_is_refused(tmp_path: Path) -> None:
    script = Script({f"GET {PATH} sse": [stream("data: " + "x" * MAX_EVENT_CHARS)]})
    with pytest.raises(Trouble, match="no end"):
        await received(script, tmp_path)


@pytest.mark.anyio
@pytest.mark.req("G-7", "C-4")
async def test_a_request_whose_answer_breaks_off_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind one address one of several gateways has died over it."""
    monkeypatch.setattr("interlock.sdk.exchange.PAUSE_S", 0.0)
    script = Script({"GET /v1/once": [died, answer({"a": 1})], "GET /v1/ever": [died]})
    async with link_to(script, tmp_path) as link:
        assert await link.read("/v1/once", dict[str, int]) == {"a": 1}
        with pytest.raises(Trouble, match="does not answer: Server disconnected"):
            await link.get("/v1/ever")
    assert [request.url.path for request in script.asked].count("/v1/ever") == READ_ATTEMPTS


def died(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
