"""Answers in OpenAI's chat form: whole, streamed chunk by chunk, and failed."""

from __future__ import annotations

import pytest

from interlock.model_stand_in.answers import HttpFailure, ModelAnswer
from interlock.model_stand_in.chat import failure, stream, whole
from model_stand_in.answer_parts import CALLING, PLAIN, delays, events


def test_a_complete_answer_has_its_text_and_its_calls() -> None:
    message = whole(CALLING, "m")["choices"][0]["message"]
    assert message["content"] == "one two"
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [
        '{"command":"ls"}', '{"command":"pwd"}']
    assert whole(ModelAnswer(()), "m")["choices"][0]["message"]["content"] is None
    assert whole(CALLING, "m")["usage"] == {"prompt_tokens": 7, "completion_tokens": 20, "total_tokens": 27}


def test_a_stream_ends_with_its_usage_and_done() -> None:
    found = events(stream(CALLING, "m"))
    assert found[-1] == "[DONE]"
    assert (found[-2]["choices"], found[-2]["usage"]["prompt_tokens"]) == ([], 7)
    deltas = [one["choices"][0]["delta"] for one in found[:-2]]
    assert [delta["content"] for delta in deltas if delta.get("content")] == ["one ", "two"]
    assert [call["index"] for delta in deltas for call in delta.get("tool_calls", [])] == [0, 1]
    assert [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta] == ["hm"]
    assert len({one["id"] for one in found[:-1]}) == 1


def test_a_delay_precedes_each_chunk_except_the_first_and_the_calls() -> None:
    assert (delays(stream(PLAIN, "m")), delays(stream(CALLING, "m"))) == (1, 2)


@pytest.mark.parametrize(("given", "reason"), [
    (PLAIN, "stop"), (CALLING, "tool_calls"), (ModelAnswer(("x",), length=True), "length")])
def test_an_answer_has_its_stop_reason(given: ModelAnswer, reason: str) -> None:
    assert whole(given, "m")["choices"][0]["finish_reason"] == reason
    assert events(stream(given, "m"))[-3]["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize(("given", "kind", "code"), [
    (HttpFailure(429), "invalid_request_error", "rate_limit_exceeded"), (HttpFailure(500), "server_error", None),
    (HttpFailure(400, overflow=True), "invalid_request_error", "context_length_exceeded")])
def test_a_failure_has_the_providers_type_and_code(given: HttpFailure, kind: str, code: str | None) -> None:
    error = failure(given)["error"]
    assert (error["type"], error["code"]) == (kind, code)
