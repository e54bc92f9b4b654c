"""What the demonstration counts in a stream: text at its offset, gaps, and programs that ran without a grant."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.demo.stream_view import StreamView


def event(n: int | None, kind: str, name: str, **payload: Any) -> dict[str, Any]:
    recorded: dict[str, Any] = {"kind": kind, "frame": {"type": name, "payload": payload}}
    return recorded if n is None else {"n": n, **recorded}


def test_text_is_written_at_its_offset_and_replaced_by_its_record() -> None:
    reading = StreamView()
    reading.take(event(None, "C", "tool.invoke.stream", invocation_id="t", channel="stdout", offset=0, text="abc"))
    reading.take(event(None, "C", "tool.invoke.stream", invocation_id="t", channel="stdout", offset=1, text="bcd"))
    assert reading.shown("t") == "abcd"
    reading.take(event(1, "C", "tool.invoke.result", invocation_id="t", status="ok", output="abcde"))
    reading.take(event(1, "C", "tool.invoke.result", invocation_id="t", status="ok", output="abcde"))
    assert (reading.text, reading.torn, reading.holes, reading.durable) == ("abcde", 0, 0, 1)


def test_a_gap_and_vanished_text_are_counted() -> None:
    reading = StreamView()
    reading.take(event(None, "C", "agent.text.delta", block_id="b", offset=3, text="x"))
    reading.take(event(1, "C", "agent.text.done", block_id="b", text="other"))
    assert (reading.holes, reading.torn) == (1, 1)


@pytest.mark.req("P-2")
@pytest.mark.parametrize(("allowed_first", "found"), [(True, []), (False, ["rm -r"])])
def test_a_run_without_a_recorded_grant_is_found(allowed_first: bool, found: list[str]) -> None:
    reading = StreamView()
    reading.take(event(1, "C", "agent.interaction.request", interaction_id="i", title="rm -r"))
    numbers = (2, 3) if allowed_first else (3, 2)
    events = [event(numbers[0], "M", "control.interaction.response", interaction_id="i", decision="allow"),
              event(numbers[1], "C", "x-interlock.interaction.resolved", interaction_id="i", outcome="allowed")]
    for one in sorted(events, key=lambda one: one["n"]):
        reading.take(one)
    assert reading.unpermitted == found
