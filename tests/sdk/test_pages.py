"""Lists over their pages, and waiting for an end (C-5, S-1): conversations with the flow, without any network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.protocol.limits import WAIT_MAX_S
from interlock.sdk.exchange import Flow, Give, HttpReply, Now, RetryPolicy, Send
from interlock.sdk.pages import every, run, wait_for
from interlock.sdk.problems import NotFound, StillRunning
from interlock.sdk.requests import commands

STEADY = RetryPolicy(draw=lambda: 1.0)
COMMAND = {"id": "cmd_1", "created_at": "t", "updated_at": "t", "tenant_id": "d", "actor": {"type": "user", "id": "a"},
           "type": "execute", "target": {}, "state": "succeeded", "timeout_ms": 1, "priority": 0}


def ok(value: Any) -> HttpReply:
    return HttpReply(200, json.dumps(value).encode())


def page(*ids: str, following: str | None = None, more: bool | None = None) -> HttpReply:
    return ok({"items": [{**COMMAND, "id": one} for one in ids], "next_cursor": following,
               "has_more": following is not None if more is None else more})


def status(cursor: str, *, terminal: bool = False) -> HttpReply:
    return ok({"events": [], "next_cursor": cursor, "has_more": False, "state": "running", "terminal": terminal,
               "last_heartbeat_at": None})


class Gateway:
    """Answers in order; records requests and results, and its clock advances by the waits."""

    def __init__(self, *replies: HttpReply) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []
        self.given: list[Any] = []
        self.clock = 100.0

    def play(self, flow: Flow[Any]) -> Any:
        answer: Any = None
        try:
            while True:
                match flow.send(answer):
                    case Send(ask):
                        query = "&".join(f"{name}={value}" for name, value in ask.query.items())
                        self.asked.append(f"{ask.path}?{query}")
                        self.clock += int(ask.query.get("wait", 0))
                        answer = self.replies.pop(0)
                    case Now():
                        answer = self.clock
                    case Give(item):
                        self.given.append(item.id)
                        answer = None
        except StopIteration as stop:
            assert self.replies == []
            return stop.value


def test_items_of_all_pages_are_in_order_and_pages_are_read_when_needed() -> None:
    there = Gateway(page("a", "b", following="2"), page("c", following="3"), page())
    there.play(every(commands.listing(agent="shell"), STEADY))
    assert there.given == ["a", "b", "c"]
    assert there.asked == ["/v1/commands?agent=shell", "/v1/commands?agent=shell&cursor=2",
                           "/v1/commands?agent=shell&cursor=3"]


@pytest.mark.parametrize("last", [page("a"), page("a", following="2", more=False), page("a", more=True)])
def test_a_page_without_a_cursor_or_more_is_the_last(last: HttpReply) -> None:
    there = Gateway(last)
    there.play(every(commands.listing(), STEADY))
    assert there.given == ["a"]


def test_a_refusal_ends_the_list() -> None:
    there = Gateway(page("a", following="2"), HttpReply(404, b'{"code":"NotFound"}'))
    with pytest.raises(NotFound):
        there.play(every(commands.listing(), STEADY))
    assert there.given == ["a"]


def test_a_wait_requests_the_events_after_the_last_cursor_until_the_end() -> None:
    there = Gateway(status("1"), status("2", terminal=True), ok(COMMAND))
    assert there.play(wait_for("cmd_1", None, STEADY)).state == "succeeded"
    assert there.asked == [f"/v1/commands/cmd_1/status?wait={WAIT_MAX_S}",
                           f"/v1/commands/cmd_1/status?wait={WAIT_MAX_S}&since=1", "/v1/commands/cmd_1?"]


def test_an_expired_wait_raises_and_never_requests_more_than_the_remaining_time() -> None:
    there = Gateway(status("1"), status("2"))
    with pytest.raises(StillRunning, match="cmd_1 is running still"):
        there.play(wait_for("cmd_1", WAIT_MAX_S + 5, STEADY))
    assert [asked.partition("wait=")[2].partition("&")[0] for asked in there.asked] == [str(WAIT_MAX_S), "5"]


def test_a_wait_of_zero_is_one_request() -> None:
    there = Gateway(status("1"))
    with pytest.raises(StillRunning):
        there.play(wait_for("cmd_1", 0, STEADY))
    assert there.asked == ["/v1/commands/cmd_1/status?wait=0"]


def test_a_run_is_submitted_and_awaited() -> None:
    there = Gateway(HttpReply(202, json.dumps({**COMMAND, "state": "queued"}).encode()), status("1", terminal=True),
                    ok(COMMAND))
    assert there.play(run(commands.submit("ls", agent="shell").with_key("k"), STEADY)).state == "succeeded"
    assert there.asked[0] == "/v1/commands?"
