"""The frames of a stream that belong to a command."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import turn_uuid
from interlock.cli.tasks.session_frames import CommandFrames, Shown
from interlock.protocol.resources import Notice


def frame(name: str, payload: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    named = {"turn_id": turn_uuid(payload["turn_id"])} if "turn_id" in payload else {}
    return {"n": 1, "kind": "C", "frame": {"type": name, "payload": {**payload, **named}, "metadata": metadata}}


def prompt(command_id: str, prompt_id: str) -> dict[str, Any]:
    return frame("control.prompt.request", {"prompt_id": prompt_id, "input_type": "text", "origin": "user",
                                            "text": "x", "command_id": command_id})


def start(turn_id: str, prompt_id: str) -> dict[str, Any]:
    return frame("session.turn.start", {"turn_id": turn_id, "turn_index": 1}, prompt_id=prompt_id)


def text(turn_id: str, texts_of: str) -> dict[str, Any]:
    return frame("agent.text.done", {"turn_id": turn_id, "block_id": texts_of, "text": texts_of})


def end(turn_id: str, reason: str = "end_turn") -> dict[str, Any]:
    return frame("session.turn.end", {"turn_id": turn_id, "stop_reason": reason})


def texts_of(part: CommandFrames, events: list[dict[str, Any]]) -> list[str]:
    shown = [part.take(event) for event in events]
    return [one.payload.text for one in shown if isinstance(one, Shown) and one.frame_type == "agent.text.done"]  # pyright: ignore


TWO = [prompt("cmd_a", "p1"), start("t1", "p1"), text("t1", "first"), end("t1"),
       prompt("cmd_b", "p2"), start("t2", "p2"), text("t2", "second"), end("t2"), text("t3", "later")]


@pytest.mark.req("C-8", "G-4")
def test_each_command_has_its_own_turn() -> None:
    first, second = CommandFrames("cmd_a"), CommandFrames("cmd_b")
    assert texts_of(first, TWO) == ["first"]
    assert first.is_over
    assert texts_of(second, TWO) == ["second"]
    assert texts_of(CommandFrames(None), TWO) == ["first", "second", "later"]


@pytest.mark.req("C-8")
def test_a_prompt_that_waits_for_another_turn_does_not_claim_it() -> None:
    events = [prompt("cmd_a", "p1"), start("t1", "p1"), prompt("cmd_b", "p2"), end("t1"), start("t2", "p2"),
              text("t2", "mine"), end("t2")]
    part = CommandFrames("cmd_b")
    assert texts_of(part, events) == ["mine"]
    assert part.is_over


@pytest.mark.req("C-8", "T-3")
def test_a_turn_that_ends_for_a_tool_is_followed_by_the_next() -> None:
    part = CommandFrames("cmd_a")
    events = [prompt("cmd_a", "p"), start("t1", "p"), end("t1", "tool_use"),
              start("t2", "p"), text("t2", "on"), end("t2")]
    assert texts_of(part, events) == ["on"]
    assert part.is_over


@pytest.mark.req("G-4")
def test_a_returning_terminal_is_already_inside_the_turn() -> None:
    part = CommandFrames("cmd_a", "inside", turn_uuid("t1"))
    assert texts_of(part, [text("t1", "on"), end("t1"), text("t9", "other")]) == ["on"]


@pytest.mark.req("D-4", "E-1")
def test_notices_are_delivered_and_unknown_frames_ignored() -> None:
    part = CommandFrames(None)
    assert part.take({"n": 1, "kind": "notice", "notice": {"code": "Detached", "message": "gone"}}) == Notice(
        code="Detached", message="gone")
    for event in ({}, {"n": 1, "kind": "C", "frame": None}, frame("x-new.thing", {}), frame("agent.text.done", {}),
                  {"kind": "notice", "notice": {}}, {"kind": "C", "frame": {"type": 3}}):
        assert part.take(event) is None


@pytest.mark.req("Z-5")
def test_agent_output_in_a_silent_turn_is_not_shown() -> None:
    asked = {"invocation_id": "i", "turn_id": "t1", "tool_name": "write", "input": {}}
    part = CommandFrames(None)
    assert part.take(frame("tool.invoke.request", asked, silent=True, suppressed=True)) is None
    assert isinstance(part.take(frame("tool.invoke.request", asked)), Shown)


@pytest.mark.req("Z-5")
def test_the_prompt_of_a_memory_flush_is_hidden_and_still_begins_its_part() -> None:
    asked = {"prompt_id": "p", "input_type": "text", "origin": "flush", "text": "", "command_id": "cmd_1"}
    part = CommandFrames("cmd_1")
    assert part.take(frame("control.prompt.request", {**asked, "silent": True}, suppressed=True)) is None
    assert part.phase == "inside"
    assert isinstance(CommandFrames("cmd_1").take(frame("control.prompt.request", asked)), Shown)
