"""Answers in Gemini's form: whole, streamed part by part, and failed."""

from __future__ import annotations

import pytest

from interlock.model_stand_in.answers import HttpFailure, ModelAnswer, ModelCall
from interlock.model_stand_in.gemini import failure, stream, whole
from model_stand_in.answer_parts import CALLING, PLAIN, delays, events


def test_a_complete_answer_has_its_text_and_its_calls() -> None:
    [candidate] = whole(CALLING, "m")["candidates"]
    text, call, _ = candidate["content"]["parts"]
    assert (text, call["functionCall"]) == ({"text": "one two"}, {"name": "shell", "args": {"command": "ls"}})
    assert whole(CALLING, "m")["usageMetadata"]["promptTokenCount"] == 7


@pytest.mark.parametrize("arguments", ["not json", "[1]", '"x"'])
def test_arguments_that_are_not_an_object_become_one(arguments: str) -> None:
    made = whole(ModelAnswer((), (ModelCall("shell", arguments),)), "m")
    assert made["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {"input": arguments}


def test_a_stream_has_only_new_text_in_each_event_and_ends_with_a_reason() -> None:
    found = events(stream(CALLING, "m"))
    parts = [part for one in found for part in one["candidates"][0]["content"]["parts"]]
    assert [part["text"] for part in parts if "text" in part] == ["hm", "one ", "two"]
    assert [one["candidates"][0].get("finishReason") for one in found] == [None] * 5 + ["STOP"]
    assert len({one["responseId"] for one in found}) == 1
    assert (delays(stream(PLAIN, "m")), delays(stream(CALLING, "m"))) == (1, 2)


def test_a_truncated_answer_reports_it() -> None:
    assert events(stream(ModelAnswer(("x",), length=True), "m"))[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"


@pytest.mark.parametrize(("given", "status"), [
    (HttpFailure(429), "RESOURCE_EXHAUSTED"), (HttpFailure(418), "INVALID_ARGUMENT"),
    (HttpFailure(400, overflow=True), "INVALID_ARGUMENT")])
def test_a_failure_has_the_providers_status(given: HttpFailure, status: str) -> None:
    error = failure(given)["error"]
    assert (error["code"], error["status"]) == (given.status, status)
    assert ("exceeds the maximum number of tokens" in error["message"]) is given.overflow
