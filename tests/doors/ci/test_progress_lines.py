"""A session's stream as lines of a pipeline's log: what is shown, what is skipped, and what is remembered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.doors.ci.log_lines import BAR, LogWriter
from interlock.doors.ci.progress_lines import CALLS_KEPT, MAX_ANSWER_CHARS, ProgressLines
from interlock.protocol.answers import FrameEvent
from interlock.protocol.resources import Notice

pytestmark = pytest.mark.req("O-10")


def event(kind: str, metadata: dict[str, Any] | None = None, **payload: Any) -> FrameEvent:
    frame = {"type": kind, "payload": payload, "metadata": metadata or {}}
    return FrameEvent(n=1, kind="C", frame=msgspec.Raw(msgspec.json.encode(frame)))


def text_event(text: str, **metadata: Any) -> FrameEvent:
    return event("agent.text.done", metadata, turn_id="t", block_id="b", text=text)


def request(call: str, **fields: Any) -> FrameEvent:
    return event("tool.invoke.request", None, invocation_id=call, turn_id="t", tool_name="shell", input={}, **fields)


def result(call: str, output: Any, status: str = "ok") -> FrameEvent:
    kind = "text" if isinstance(output, str) else "structured"
    return event("tool.invoke.result", None, invocation_id=call, status=status, output_type=kind, output=output,
                 duration_ms=1)


def shown(*events: FrameEvent) -> list[str]:
    progress = ProgressLines(LogWriter("plain"))
    return [line for one in events for line in progress.lines(one)]


def test_text_is_shown_line_by_line_and_stored() -> None:
    progress = ProgressLines(LogWriter("plain"))
    assert list(progress.lines(text_event("one\n::error::two"))) == [f"{BAR}one", f"{BAR}::error::two"]
    assert progress.answer == "one\n::error::two"
    assert not progress.is_over


def test_only_the_end_of_a_long_answer_is_stored() -> None:
    progress = ProgressLines(LogWriter("plain"))
    for text in ("x" * MAX_ANSWER_CHARS, "the end"):
        list(progress.lines(text_event(text)))
    assert len(progress.answer) == MAX_ANSWER_CHARS
    assert progress.answer.endswith("xthe end")


def test_thoughts_and_silent_turns_are_neither_shown_nor_stored() -> None:
    progress = ProgressLines(LogWriter("plain"))
    thought = event("agent.thinking.done", None, turn_id="t", block_id="b", text="hm")
    assert [line for one in (thought, text_event("quiet", silent=True)) for line in progress.lines(one)] == []
    assert progress.answer == ""


@pytest.mark.parametrize(("output", "lines"), [
    ({"stdout": "out", "stderr": "err"}, ["out", "err"]), ({"stdout": "", "stderr": "err"}, ["err"]),
    ({"message": "said"}, ["said"]), ({"stdout": 7, "other": "x"}, []), ("plain", ["plain"]), ([1], []), (None, []),
])
def test_a_tools_output_is_a_folding_section(output: Any, lines: list[str]) -> None:
    assert shown(request("c1", title="make all"), result("c1", output)) == [
        "== tool: make all (ok)", *(BAR + line for line in lines)]


def test_a_call_is_named_by_its_title_its_tool_or_neither() -> None:
    assert shown(request("c1"), result("c1", "", "error"), result("c1", "")) == [
        "== tool: shell (error)", "== tool: tool (ok)"]


def test_calls_without_a_result_are_forgotten_in_order() -> None:
    calls = [request(f"c{number}", title=f"title {number}") for number in range(CALLS_KEPT + 1)]
    assert shown(*calls, result("c0", ""), result("c1", "")) == ["== tool: tool (ok)", "== tool: title 1 (ok)"]


def test_an_agents_error_and_a_notice_become_annotations() -> None:
    notice = FrameEvent(n=1, kind="notice", notice=Notice(code="X", message="Look."))
    error = event("agent.error", None, severity="warning", error_code="rate_limit", message="Slow\ndown")
    assert shown(notice, error) == [
        "notice: Interlock: Look.", "warning: The agent reports an error: Slow down (rate_limit)"]


@pytest.mark.parametrize(("kind", "payload", "ended"), [
    ("session.turn.end", {"turn_id": "t", "stop_reason": "end_turn"}, True),
    ("session.turn.end", {"turn_id": "t", "stop_reason": "tool_use"}, False),
    ("session.closed", {"reason": "closed"}, True),
])
def test_a_turn_ends_at_its_end_and_not_between_its_tools(kind: str, payload: dict[str, Any], ended: bool) -> None:
    progress = ProgressLines(LogWriter("plain"))
    assert list(progress.lines(event(kind, None, **payload))) == []
    assert progress.is_over is ended


@pytest.mark.parametrize("frame", [
    {}, {"type": 7}, {"type": "x.unknown", "payload": {}}, {"type": "agent.text.done", "payload": {"text": "x"}},
    {"type": "agent.text.done", "payload": None}, {"type": "agent.text.done", "payload": {"turn_id": 1}, "metadata": 3},
])
def test_an_unreadable_frame_is_ignored(frame: dict[str, Any]) -> None:
    assert shown(FrameEvent(n=1, kind="C", frame=msgspec.Raw(msgspec.json.encode(frame)))) == []


def test_a_frame_that_was_refused_is_not_shown() -> None:
    assert shown(msgspec.structs.replace(text_event("x"), kind="refused")) == []
