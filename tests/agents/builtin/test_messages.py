"""A transcript's messages in the form sent to a model, and its answers in the form of the transcript (B-1, X-8)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lazily import lazily

messages, ours = lazily("pydantic_ai.messages"), lazily("interlock.agents.builtin.messages")

pytestmark = pytest.mark.req("B-1", "X-8")
PNG = base64.b64encode(b"bytes").decode()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "shell", "arguments": arguments}


def result(call_id: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "shell", "content": content, **more}


def test_requests_are_grouped_up_to_the_next_answer() -> None:
    found = ours.to_model([user("hi"), {"role": "assistant", "content": [text("ok"), call("c", command="ls")]},
                           result("c", [text("a"), text("b")]), user("and?")], {})
    assert [type(one) for one in found] == [messages.ModelRequest, messages.ModelResponse, messages.ModelRequest]
    answer, request = found[1], found[2]
    assert [type(part) for part in answer.parts] == [messages.TextPart, messages.ToolCallPart]
    [returned, prompt] = request.parts
    assert isinstance(returned, messages.ToolReturnPart)
    assert isinstance(prompt, messages.UserPromptPart)
    assert (returned.content, returned.tool_call_id, returned.outcome, prompt.content) == (
        "a\nb", "c", "success", "and?")


@pytest.mark.parametrize(("message", "content", "outcome"), [
    (result("c", ""), None, "success"), (result("c", "x", isError=True), "x", "failed"),
    (result("c", None), None, "success")])
def test_a_result_is_never_empty(message: dict[str, Any], content: str | None, outcome: str) -> None:
    [request] = ours.to_model([message], {})
    [part] = request.parts
    assert isinstance(part, messages.ToolReturnPart)
    assert (part.content, part.outcome) == (ours.NO_RESULT if content is None else content, outcome)


def test_an_answer_of_this_turn_is_returned_verbatim() -> None:
    live = messages.ModelResponse(parts=[messages.ThinkingPart("hm", signature="s"),
                                         messages.ToolCallPart("shell", {}, "c")])
    [answer] = ours.to_model([{"role": "assistant", "content": [call("c")]}], {"c": live})
    assert answer is live


def test_former_thinking_and_empty_entries_are_not_sent() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, text("")]}
    assert ours.to_model([thought, user(""), user([]), {"role": "unheard_of", "content": "x"}], {}) == []


def test_arguments_that_are_not_an_object_are_sent_as_one() -> None:
    [answer] = ours.to_model([{"role": "assistant", "content": [{**call("c"), "arguments": "ls"}]}], {})
    [part] = answer.parts
    assert isinstance(part, messages.ToolCallPart)
    assert part.args == {"input": "ls"}


@pytest.mark.parametrize("data", [PNG, PNG[:4] + "\n" + PNG[4:]])
def test_a_picture_is_sent_as_bytes(data: str) -> None:
    assert ours.image(data, "image/png") == messages.BinaryContent(b"bytes", media_type="image/png")


@pytest.mark.parametrize("data", ["?", "", "é", PNG[:-1]])
def test_a_picture_that_cannot_be_read_is_replaced_by_text(data: str) -> None:
    assert ours.image(data, "image/png") == "[a picture, image/png, that cannot be read]"


def test_a_prompt_of_several_blocks_keeps_their_order() -> None:
    [request] = ours.to_model([user([text("see"), {"type": "image", "data": PNG}, text("")])], {})
    [part] = request.parts
    assert isinstance(part, messages.UserPromptPart)
    assert part.content == ["see", messages.BinaryContent(b"bytes", media_type="image/png")]
    assert ours.to_model([user([text("alone")])], {})[0].parts[0].content == "alone"  # type: ignore[union-attr]


@pytest.mark.parametrize(("blocks", "content"), [
    ([text("hi")], "hi"), ([text("a"), {"type": "image", "data": b"bytes"}],
                           [text("a"), {"type": "image", "data": PNG, "mimeType": "image/png"}]),
    ([{"type": "audio"}], [text("[audio]")]), ([], []),
])
def test_a_prompt_becomes_a_message_of_the_transcript(blocks: list[dict[str, Any]], content: Any) -> None:
    assert ours.user_message(blocks, 7) == {"role": "user", "content": content, "timestamp": 7}


def test_an_answer_becomes_one_message_without_its_thoughts() -> None:
    parts = [messages.TextPart("a"), messages.TextPart("b"), messages.ThinkingPart("hm"),
             messages.ToolCallPart("shell", {}, "c"), messages.TextPart("")]
    made = ours.assistant_message(parts, {"c": {"command": "ls"}}, "m", 7)
    assert made["content"] == [text("ab"), call("c", command="ls")]
    assert made["stopReason"] == "toolUse"
    assert ours.assistant_message([messages.TextPart("a")], {}, "m", 7)["stopReason"] == "stop"


def test_a_result_becomes_a_message() -> None:
    made = ours.result_message("c", "shell", "out", False, 7)
    assert (made["content"], made["isError"]) == ([text("out")], True)
    assert ours.result_message("c", "shell", "", True, 7)["content"] == []
