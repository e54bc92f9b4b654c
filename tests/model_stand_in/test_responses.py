"""Answers in OpenAI's responses form: whole, and streamed as numbered events."""

from __future__ import annotations

from interlock.model_stand_in.answers import ModelAnswer, ModelCall
from interlock.model_stand_in.responses import stream, whole
from model_stand_in.answer_parts import CALLING, PLAIN, delays, events


def test_a_complete_answer_has_its_message_then_its_calls() -> None:
    message, first, second = whole(CALLING, "m")["output"]
    assert message["content"][0]["text"] == "one two"
    assert (first["name"], first["arguments"], second["arguments"]) == (
        "shell", '{"command":"ls"}', '{"command":"pwd"}')
    assert whole(ModelAnswer(()), "m")["output"] == []


def test_a_tool_of_a_namespace_is_named_in_two_parts() -> None:
    [call] = whole(ModelAnswer((), (ModelCall("web::get", "{}"),)), "m")["output"]
    assert (call["namespace"], call["name"]) == ("web", "get")
    assert "namespace" not in whole(CALLING, "m")["output"][1]


def test_events_are_numbered_from_created_to_completed() -> None:
    found = events(stream(CALLING, "m"))
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    assert (found[0]["type"], found[-1]["type"]) == ("response.created", "response.completed")
    assert [one["delta"] for one in found if one["type"] == "response.output_text.delta"] == ["one ", "two"]
    added = [one["output_index"] for one in found if one["type"] == "response.output_item.added"]
    assert added == [one["output_index"] for one in found if one["type"] == "response.output_item.done"] == [0, 1, 2]
    assert found[-1]["response"]["usage"]["total_tokens"] == 27
    assert (delays(stream(PLAIN, "m")), delays(stream(CALLING, "m"))) == (1, 2)


def test_a_truncated_answer_is_incomplete_with_a_reason() -> None:
    last = events(stream(ModelAnswer(("x",), length=True), "m"))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
