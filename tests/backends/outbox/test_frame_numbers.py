"""Durable frames are numbered in order, each session for itself, and a refused one leaves no trace."""

from __future__ import annotations

import pytest

from interlock.backends.outbox.frame_numbers import number_frames
from interlock.ports.outbox import UnknownSession
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import decode_wire
from interlock.protocol.payloads import TextDelta, TextDone

TURN = "00000000-0000-4000-8000-000000000001"


def text(session_id: str | None, message_id: str = "m") -> Frame:
    return Frame(type="agent.text.done", payload=TextDone(turn_id=TURN, block_id="b", text="hi"), message_id=message_id,
                 session_id=session_id, timestamp="2026-01-01T00:00:00.000Z")


@pytest.mark.req("E-4")
def test_each_session_continues_from_its_last_number() -> None:
    stored = number_frames([text("a"), text("b"), text("a")], {"a": 7, "b": 0}, set())

    assert [(one.session_id, one.seq) for one in stored] == [("a", 8), ("b", 1), ("a", 9)]
    assert [decode_wire(one.raw).seq for one in stored] == [8, 1, 9]


def test_a_session_created_by_this_write_begins_with_one() -> None:
    assert [one.seq for one in number_frames([text("new")], {}, {"new"})] == [1]


def test_a_frame_of_an_unknown_session_is_refused() -> None:
    with pytest.raises(UnknownSession, match="no session b;"):
        number_frames([text("a"), text("b")], {"a": 0}, set())
    with pytest.raises(UnknownSession, match="none named"):
        number_frames([text(None)], {}, set())


def test_a_frame_that_is_not_durable_is_refused() -> None:
    delta = Frame(type="agent.text.delta", payload=TextDelta(turn_id=TURN, block_id="b", text="hi", offset=0),
                  message_id="m", session_id="a", timestamp="2026-01-01T00:00:00.000Z")

    with pytest.raises(ValueError, match="is not durable"):
        number_frames([delta], {"a": 0}, set())
