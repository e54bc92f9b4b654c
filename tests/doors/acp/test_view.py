"""A session's stream as an editor sees it: text at its offset, tool calls with the content that a grant covers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from interlock.doors.acp.view import OUTPUT_SHOWN_CHARS, EditorView

TURN = "0190d2f4-0000-7000-8000-000000000001"


def text(kind: str, text: str, offset: int | None = None, block: str = "b1") -> dict[str, Any]:
    given = {"turn_id": TURN, "block_id": block, "text": text}
    if offset is None:
        return {"type": f"agent.{kind}.done", "payload": given}
    return {"type": f"agent.{kind}.delta", "payload": {**given, "offset": offset}}


def shown(*frames: dict[str, Any], own: str = "") -> list[dict[str, Any]]:
    view = EditorView(own.split().__contains__)
    return list(itertools.chain.from_iterable(view.updates(json.dumps(frame).encode()) for frame in frames))


def texts_of(updates: list[dict[str, Any]]) -> list[str]:
    return [update["content"]["text"] for update in updates]


@pytest.mark.req("O-3")
@pytest.mark.parametrize(("frames", "texts"), [
    ([text("text", "one ", 0), text("text", "two", 4), text("text", "one two")], ["one ", "two"]),
    ([text("text", "one ", 0), text("text", "one two")], ["one ", "two"]),
    ([text("text", "one ", 0), text("text", "e two", 2), text("text", "one two")], ["one ", "two"]),
    ([text("text", "one ", 0), text("text", "three", 8), text("text", "one two three")], ["one ", "two three"]),
    ([text("text", "one", 0), text("text", "one"), text("text", "one", block="b2")], ["one", "one"]),
])
def test_each_character_of_a_block_is_sent_once(frames: list[dict[str, Any]], texts: list[str]) -> None:
    updates = shown(*frames)

    assert texts_of(updates) == texts
    assert {update["sessionUpdate"] for update in updates} == {"agent_message_chunk"}


@pytest.mark.req("O-3")
def test_thinking_is_not_a_message() -> None:
    assert [update["sessionUpdate"] for update in shown(text("thinking", "hm"))] == ["agent_thought_chunk"]


@pytest.mark.req("O-3")
def test_a_tool_call_shows_its_input_its_growing_output_and_its_end() -> None:
    def piece(offset: int, added: str) -> dict[str, Any]:
        return {"type": "tool.invoke.stream", "payload": {
            "invocation_id": "i1", "channel": "stdout", "offset": offset, "text": added}}

    request = {"type": "tool.invoke.request", "payload": {
        "invocation_id": "i1", "turn_id": TURN, "tool_name": "shell", "input": {"command": "ls"}}}
    result = {"type": "tool.invoke.result", "payload": {
        "invocation_id": "i1", "status": "ok", "output_type": "text", "output": "ab", "duration_ms": 3}}

    began, first, second, ended = shown(request, piece(0, "a"), piece(1, "b" * OUTPUT_SHOWN_CHARS), result)

    assert (began["sessionUpdate"], began["toolCallId"], began["title"]) == ("tool_call", "i1", "shell")
    assert began["rawInput"] == {"command": "ls"}
    assert first["content"][0]["content"]["text"] == "a"
    assert second["content"][0]["content"]["text"] == "b" * OUTPUT_SHOWN_CHARS
    assert (ended["status"], ended["rawOutput"]) == ("completed", "ab")


@pytest.mark.req("O-3")
@pytest.mark.parametrize("status", ["error", "denied", "cancelled"])
def test_a_call_that_did_not_succeed_has_failed(status: str) -> None:
    [update] = shown({"type": "tool.invoke.result", "payload": {
        "invocation_id": "i1", "status": status, "output_type": "text", "output": "", "duration_ms": 0}})

    assert update["status"] == "failed"
    assert "content" not in update


@pytest.mark.req("O-4")
def test_a_permission_request_has_the_diff_the_files_and_the_kind_of_its_grant() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "x", "newText": "y"}
    subject = {"tool_name": "edit", "kind": "edit", "input": {"path": "/w/a.py"}, "locations": ["/w/a.py"],
               "content": [diff, {"type": "diff", "path": 7}, {"type": "content", "content": {"text": "why"}}, 3]}

    [update] = shown({"type": "agent.interaction.request", "payload": {
        "interaction_id": "q", "interaction_type": "PERMISSION", "title": "t",
        "context": {"tool_name": "edit", "invocation_id": "i1", "input": {}, "subject": subject}}})

    assert update["toolCallId"] == "i1"
    assert (update["kind"], update["rawInput"], update["locations"]) == (
        "edit", {"path": "/w/a.py"}, [{"path": "/w/a.py"}])
    assert update["content"] == [diff, {"type": "content", "content": {"type": "text", "text": "why"}}]


@pytest.mark.req("O-5")
@pytest.mark.parametrize(("own", "texts"), [("c1", []), ("c2", ["go"])])
def test_only_prompts_of_other_clients_are_echoed(own: str, texts: list[str]) -> None:
    prompt = {"type": "control.prompt.request", "payload": {
        "prompt_id": "p", "input_type": "text", "origin": "user", "text": "go", "command_id": "c1"}}

    assert texts_of(shown(prompt, own=own)) == texts


@pytest.mark.req("O-3")
@pytest.mark.parametrize("frame", [
    {"type": "agent.text.done", "payload": {"turn_id": TURN}}, {"type": "vendor.thing", "payload": {}}, {},
    {"type": "agent.text.done", "payload": {"turn_id": TURN, "block_id": "b", "text": "psst"},
     "metadata": {"silent": True}},
])
def test_frames_that_are_not_for_an_editor_are_left_out(frame: dict[str, Any]) -> None:
    assert shown(frame) == []


@pytest.mark.req("O-3", "J-14")
def test_a_plan_is_always_sent_complete_and_empty_when_removed() -> None:
    def plan(*steps: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        return {"type": "x-interlock.plan.changed", "payload": {"turn_id": TURN, "steps": steps}, "metadata": metadata}

    updates = shown(plan({"content": "look", "status": "completed", "priority": "high"}, {"content": "mend"}), plan(),
                    plan({"content": "hidden"}, silent=True))

    assert updates == [
        {"sessionUpdate": "plan", "entries": [{"content": "look", "status": "completed", "priority": "high"},
                                              {"content": "mend", "status": "pending", "priority": "medium"}]},
        {"sessionUpdate": "plan", "entries": []}]
