"""Neighbouring text of a model's stream becomes one event, and nothing else of the stream changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.builtin.text_events import MAX_EVENT_BYTES, TextEvents
from interlock.model_stand_in import anthropic, chat, gemini, responses
from interlock.model_stand_in.answers import ModelAnswer, ModelCall
from interlock.model_stand_in.pieces import StreamPiece, sse

pytestmark = pytest.mark.req("B-1")

FORMS = {"anthropic": anthropic.stream, "chat": chat.stream, "responses": responses.stream}
TEXTS = ("content", "text", "delta", "thinking", "reasoning_content", "partial_json", "arguments")
ANSWER = ModelAnswer(tuple(f"piece {number} of a \"text\", 你好\n" for number in range(50)),
                     (ModelCall("read", '{"path":"a"}'), ModelCall("read", '{"path":"b"}')), thinking="a thought")


@pytest.fixture(params=sorted(FORMS))
def stream(request: pytest.FixtureRequest) -> Callable[[ModelAnswer, str], Iterator[StreamPiece]]:
    return FORMS[request.param]


def written(pieces: Iterator[StreamPiece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def passed(*received: bytes) -> bytes:
    events = TextEvents()
    return b"".join(map(events.feed, received)) + events.rest()


def data(stream: bytes) -> list[Any]:
    lines = [line[5:].strip() for line in stream.decode().splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def of_chat(delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **fields.pop("choice", {})}
    return {"id": "one", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}


def deltas(stream: bytes) -> list[str]:
    return [event["choices"][0]["delta"]["content"] for event in data(stream)]


def texts(event: Any) -> Iterator[str]:
    """Every text in an event, so that one of several events reads like all of them."""
    if isinstance(event, dict):
        for key, value in cast("dict[str, Any]", event).items():
            if isinstance(value, str) and key in TEXTS:
                yield value
            else:
                yield from texts(value)
    elif isinstance(event, list):
        for one in cast("list[Any]", event):
            yield from texts(one)


def test_text_that_arrives_together_is_one_event(stream: Callable[..., Iterator[StreamPiece]]) -> None:
    whole = written(stream(ANSWER, "m"))
    merged = passed(whole)
    assert len(data(merged)) == len(data(whole)) - 49
    assert "".join(ANSWER.chunks) in list(texts(data(merged)))
    assert "".join(texts(data(merged))) == "".join(texts(data(whole)))
    assert merged.endswith(whole[-200:])


def test_text_that_arrives_alone_is_passed_on_unchanged(stream: Callable[..., Iterator[StreamPiece]]) -> None:
    events = TextEvents()
    for piece in stream(ANSWER, "m"):
        assert events.feed(piece.data) == piece.data


@given(st.lists(st.integers(1, 400), max_size=20), st.sampled_from(sorted(FORMS)))
def test_network_boundaries_do_not_matter(cuts: list[int], form: str) -> None:
    whole = written(FORMS[form](ANSWER, "m"))
    parts, at = list[bytes](), 0
    for cut in cuts:
        parts.append(whole[at:at + cut])
        at += cut
    merged = passed(*parts, whole[at:])
    assert "".join(texts(data(merged))) == "".join(texts(data(whole)))


def test_an_unknown_form_is_passed_on_unchanged() -> None:
    whole = written(gemini.stream(ANSWER, "m"))
    assert passed(whole) == whole


def test_padding_is_dropped_and_the_last_number_counts() -> None:
    name = "response.output_text.delta"
    raw: dict[str, Any] = {"type": name, "item_id": "i", "output_index": 0, "content_index": 0, "logprobs": []}
    stream = b"".join(sse({**raw, "sequence_number": number, "delta": text, "obfuscation": "x" * number}, name)
                      for number, text in enumerate(("one ", "two ", "three"), 7))
    assert data(passed(stream)) == [{**raw, "sequence_number": 9, "delta": "one two three"}]
    assert passed(stream).startswith(b"event: response.output_text.delta\ndata: {")


@pytest.mark.parametrize("alone", [
    of_chat({"content": "more", "tool_calls": [{"index": 0}]}),
    of_chat({"content": "end"}, choice={"finish_reason": "stop"}),
    of_chat({"content": "sure"}, choice={"logprobs": {"content": [{"token": "sure"}]}}),
    of_chat({"content": "counted"}, usage={"total_tokens": 7}),
    of_chat({"content": "other"}, id="two"),
    of_chat({"content": "<think>"}),
    of_chat({"content": "\n</think>\n"}),
    of_chat({"content": ""}),
    of_chat({"content": ["a part"]}),
    of_chat({"reasoning_content": "hm"}),
    of_chat({"refusal": "no"}),
    of_chat({"content": "x"}, choices=[]),
    {"type": "ping"}, ["no event"], 7,
])
def test_an_event_with_more_than_text_is_not_merged(alone: Any) -> None:
    word = sse(of_chat({"content": "a word "}))
    assert passed(word + word + sse(alone) + word + word) == (
        sse_of("a word a word ") + sse(alone) + sse_of("a word a word "))


def sse_of(text: str) -> bytes:
    return sse(of_chat({"content": text}))


@pytest.mark.parametrize("odd", [
    b": a comment\n\n", b"id: 7\ndata: {}\n\n", b"data: {\ndata: }\n\n", b"data: [DONE]\n\n", b"retry: 1\n\n", b"\n\n",
    b'data: {"a": "\\ud83d"}\n\n', b'data: {"a": 1e999}\n\n', b"data: {\n\n",
    b'data: {"a": "\xff"}\n\n', b"data: " + b"[" * 50_000 + b"\n\n",
])
def test_unparsable_bytes_are_passed_on_unchanged(odd: bytes) -> None:
    assert passed(sse_of("one ") + odd + sse_of("two ")) == sse_of("one ") + odd + sse_of("two ")


def test_leading_blanks_are_not_merged_and_trailing_ones_are() -> None:
    stream = b"".join(map(sse_of, ("\n\n", " ", "a", " ", "word", "\n")))
    assert deltas(passed(stream)) == ["\n\n", " ", "a word\n"]


def test_lines_may_end_with_crlf_and_contain_blanks() -> None:
    stream = b"".join(b"data: " + json.dumps(of_chat({"content": text})).encode() + b"\r\n\r\n" for text in "abc")
    assert deltas(passed(stream)) == ["abc"]


def test_an_unfinished_event_is_held_until_it_ends_or_is_too_long() -> None:
    events = TextEvents()
    assert events.feed(b"data: {") == b""
    assert events.feed(b"}\n") == b""
    assert events.feed(b"\ndata: ") == b"data: {}\n\n"
    long = b"x" * MAX_EVENT_BYTES
    assert events.feed(long) == b"data: " + long
    assert events.feed(b"y\n\n" + sse_of("a") + sse_of("b")) == b"y\n\n" + sse_of("a") + sse_of("b")
    assert events.rest() == b""
