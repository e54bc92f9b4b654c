"""Requests for sessions, their streams and files (N-3, I-4, H-17, S-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.answers import FrameEvent
from interlock.protocol.bodies import EntryBody
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import sessions
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text"), [
    (sessions.listing(), "GET /v1/sessions"), (sessions.listing(waiting=True, active=5),
    "GET /v1/sessions?active=5&waiting=true"),
    (sessions.show("s"), "GET /v1/sessions/s"), (sessions.history("s", limit=2), "GET /v1/sessions/s/history?limit=2"),
    (sessions.frames("s", last=0, view="raw"), "GET /v1/sessions/s/frames?last=0&view=raw"),
    (sessions.files("s"), "GET /v1/sessions/s/files"), (sessions.download("s", "f/1"),
    "GET /v1/sessions/s/files/f%2F1"),
    (sessions.events(wait=5), "GET /v1/events?wait=5"), (sessions.changes("s"), "GET /v1/sessions/s/changes"),
    (sessions.diff("s"), "GET /v1/sessions/s/changes/git"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (sessions.close("s"), "POST /v1/sessions/s/close", {"reason": "asked for"}),
    (sessions.compact("s", instructions="keep names"), "POST /v1/sessions/s/compact", {"instructions": "keep names"}),
    (sessions.release("s", "gw_2"), "POST /v1/sessions/s/release", {"to": "gw_2"}),
    (sessions.land("s"), "POST /v1/sessions/s/land", {}),
    (sessions.land("s", [], digest="d"), "POST /v1/sessions/s/land", {"files": [], "digest": "d"}),
    (sessions.discard("s", ["a"]), "POST /v1/sessions/s/discard", {"files": ["a"]}),
    (sessions.reset("s"), "POST /v1/sessions/s/reset", {}), (sessions.restore("s"), "POST /v1/sessions/s/restore", {}),
    (sessions.archive("s", reason="done"), "POST /v1/sessions/s/archive", {"reason": "done"}),
    (sessions.delete("s"), "DELETE /v1/sessions/s", {"reason": "asked for"}),
    (sessions.ticket("/v1/events"), "POST /v1/stream-tickets", {"path": "/v1/events"}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)


@pytest.mark.req("I-4")
def test_an_omitted_field_stays_and_a_field_of_none_is_cleared() -> None:
    asked = sessions.patch("s", EntryBody(label=None, model_override="m"))
    assert msgspec.json.decode(asked.body or b"") == {"label": None, "modelOverride": "m"}
    assert line(asked) == "PATCH /v1/sessions/s"


@pytest.mark.req("S-1")
def test_streams_continue_from_a_cursor_and_decode_their_own_events() -> None:
    following = sessions.follow("s", since="7", view="raw")
    assert (following.path, following.query, following.since) == ("/v1/sessions/s/frames", {"view": "raw"}, "7")
    assert isinstance(following.read("frame", b'{"kind":"C","frame":{}}'), FrameEvent)
    feed = sessions.follow_events()
    assert (feed.path, feed.query, feed.since) == ("/v1/events", {}, None)
    assert feed.read("x", b'{"event":"runner","at":"t","id":"r","state":"online"}').id == "r"
