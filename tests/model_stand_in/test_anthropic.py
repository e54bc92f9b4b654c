"""Answers in Anthropic's form: whole, streamed block by block, and failed."""

from __future__ import annotations

import pytest

from interlock.model_stand_in.answers import HttpFailure, ModelAnswer
from interlock.model_stand_in.anthropic import failure, stream, whole
from model_stand_in.answer_parts import CALLING, PLAIN, delays, events


def test_a_complete_answer_has_its_text_then_its_calls() -> None:
    made = whole(CALLING, "m")
    assert [block["type"] for block in made["content"]] == ["text", "tool_use", "tool_use"]
    assert (made["content"][0]["text"], made["content"][1]["input"]) == ("one two", {"command": "ls"})
    assert (made["stop_reason"], made["usage"]["input_tokens"], made["model"]) == ("tool_use", 7, "m")
    assert whole(ModelAnswer(()), "m")["content"] == []


def test_a_stream_opens_and_closes_each_block_in_turn() -> None:
    found = events(stream(CALLING, "m"))
    assert found[0]["type"] == "message_start"
    assert found[-1]["type"] == "message_stop"
    opened = [one["index"] for one in found if one["type"] == "content_block_start"]
    closed = [one["index"] for one in found if one["type"] == "content_block_stop"]
    assert opened == closed == [0, 1, 2, 3]
    kinds = [one["delta"]["type"] for one in found if one["type"] == "content_block_delta"]
    assert kinds == [
        "thinking_delta", "signature_delta", "text_delta", "text_delta", "input_json_delta", "input_json_delta"]


def test_a_delay_precedes_each_chunk_except_the_first_and_the_calls() -> None:
    assert delays(stream(PLAIN, "m")) == 1
    assert delays(stream(CALLING, "m")) == 2


@pytest.mark.parametrize(("given", "reason"), [
    (PLAIN, "end_turn"), (CALLING, "tool_use"), (ModelAnswer(("x",), length=True), "max_tokens")])
def test_an_answer_has_its_stop_reason(given: ModelAnswer, reason: str) -> None:
    assert whole(given, "m")["stop_reason"] == reason
    assert [one["delta"]["stop_reason"] for one in events(stream(given, "m")) if one["type"] == "message_delta"] == [
        reason]


@pytest.mark.parametrize(("given", "kind"), [
    (HttpFailure(429), "rate_limit_error"), (HttpFailure(401), "authentication_error"), (HttpFailure(500), "api_error"),
    (HttpFailure(418), "invalid_request_error"), (HttpFailure(400, overflow=True), "invalid_request_error")])
def test_a_failure_has_the_providers_type(given: HttpFailure, kind: str) -> None:
    assert failure(given)["error"]["type"] == kind
    assert ("prompt is too long" in failure(given)["error"]["message"]) is given.overflow
