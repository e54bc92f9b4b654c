"""Numbered streams: a number is used once, also after the beginning was deleted or an append was undone."""

from __future__ import annotations

from interlock.backends.memory.events import Streams
from interlock.protocol.records import Event


def added(streams: Streams, name: str) -> int:
    n = streams.head(name) + 1
    streams.add(Event(stream=name, n=n, kind="C", at_ms=0, body=b"{}", message_id=None))
    return n


def numbers(events: list[Event]) -> list[int]:
    return [event.n for event in events]


def test_events_are_read_after_a_number_up_to_a_limit_by_stream() -> None:
    streams = Streams()
    for _ in range(4):
        added(streams, "s/1")
    added(streams, "s/2")

    assert numbers(streams.after("s/1", 1, 2)) == [2, 3]
    assert numbers(streams.newest_first("s/1")) == [4, 3, 2, 1]
    assert (streams.head("s/1"), streams.head("s/2"), streams.head("s/3")) == (4, 1, 0)
    assert streams.after("s/3", 0, 9) == []
    assert streams.names() == ["s/1", "s/2"]


def test_a_deleted_beginning_keeps_the_numbers_of_the_rest() -> None:
    streams = Streams()
    for _ in range(4):
        added(streams, "s/1")
    streams.forget("s/1", 2)
    streams.forget("s/1", 0)

    assert numbers(streams.after("s/1", 0, 9)) == [3, 4]
    assert numbers(streams.after("s/1", 3, 9)) == [4]
    assert (streams.kept("s/1"), streams.head("s/1"), added(streams, "s/1")) == (2, 4, 5)


def test_an_undone_append_releases_its_number() -> None:
    streams = Streams()
    added(streams, "s/1")
    added(streams, "s/1")
    streams.take_back("s/1")

    assert (streams.head("s/1"), added(streams, "s/1")) == (1, 2)
