"""The tokens of texts, messages and entries (Z-1): by a tokenizer or the estimate, corrected by what is reported."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.session.context.tokens import (
    EXACT_CHARS,
    FACTOR_LEAST,
    FACTOR_MOST,
    IMAGE_TOKENS,
    MAX_TOKENS,
    MESSAGE_TOKENS,
    Calibration,
    entry_tokens,
    message_tokens,
    text_tokens,
    use_tokenizer,
)
from session.tokens.samples import COUNTS, sample

pytestmark = [pytest.mark.req("Z-1")]


@pytest.mark.needs("toktok")
@given(st.text())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_close_to_its_true_count_or_above(text: str) -> None:
    toktok = importlib.import_module("toktok")
    text = text.encode("utf-8", "replace").decode()
    true = toktok.batch_count([text], "o200k_base", 1)[0]
    assert text_tokens(text) >= 0.9 * true - 4


@pytest.mark.needs("toktok")
@given(st.lists(st.tuples(st.sampled_from(sorted(COUNTS)), st.integers(0, 2_000), st.integers(1, 400)), min_size=4))
@settings(max_examples=200, deadline=None)
def test_pieces_of_all_samples_are_close_to_their_true_count_or_above(pieces: list[tuple[str, int, int]]) -> None:
    toktok = importlib.import_module("toktok")
    text = "".join(sample(name)[at:at + size] for name, at, size in pieces)
    true = toktok.batch_count([text], "o200k_base", 1)[0]
    assert text_tokens(text) >= 0.85 * true - 12


def test_an_installed_tokenizer_is_used_except_for_very_long_text() -> None:
    seen: list[int] = []
    use_tokenizer(lambda text: seen.append(len(text)) or 7)
    try:
        assert (text_tokens("hello"), text_tokens("")) == (7, 0)
        assert message_tokens({"role": "user", "content": "hello"}) == 7 + MESSAGE_TOKENS
        assert text_tokens("word " * EXACT_CHARS) > EXACT_CHARS
    finally:
        use_tokenizer(None)
    assert seen == [5, 5]
    assert text_tokens("hello") < 7


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert max(text_tokens(one), text_tokens(other)) <= text_tokens(one + other) + 64
    assert text_tokens(one) <= 4 * len(one.encode("utf-8", "replace")) + 1


def test_a_message_is_counted_with_all_its_sent_parts() -> None:
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a/b.txt"}}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "here"}, call,
                                               {"type": "thinking", "thinking": "hm"}]}
    assert message_tokens(answer) > message_tokens({"role": "assistant", "content": [{"type": "text", "text": "here"}]})
    picture = {"role": "user", "content": [{"type": "image", "data": "x" * 100_000, "mimeType": "image/png"}]}
    assert message_tokens(picture) == IMAGE_TOKENS + MESSAGE_TOKENS
    assert message_tokens({"role": "bashExecution", "command": "ls", "output": "a b",
                           "excludeFromContext": True}) == MESSAGE_TOKENS
    assert message_tokens({"role": "compactionSummary", "summary": "so far"}) > MESSAGE_TOKENS


@pytest.mark.parametrize("odd", [{}, {"role": 7}, {"role": "user", "content": {"a": object()}},
                                 {"role": "user", "content": [None, 3, {"type": "unheard"}]}])
def test_a_malformed_message_has_an_estimate_too(odd: dict[str, Any]) -> None:
    assert message_tokens(odd) >= MESSAGE_TOKENS


def test_entries_outside_the_context_count_as_zero() -> None:
    assert entry_tokens({"type": "custom", "customType": "x", "data": {"a": "long " * 100}}) == 0
    assert entry_tokens({"type": "message", "message": "no object"}) == 0
    assert entry_tokens({"type": "custom_message", "content": "note"}) > MESSAGE_TOKENS


def test_reports_calibrate_the_estimate_apart_from_fixed_overhead() -> None:
    learned = Calibration().adjusted(1_000, 9_000)  # 8,000 of them are instructions and tools.
    assert learned.factor == 1.0
    for turn in range(1, 30):
        learned = learned.adjusted(1_000 + turn * 1_000, 9_000 + turn * 1_600)
    assert learned.factor == pytest.approx(1.6, rel=0.01)
    assert learned.context(30_000 + 1_000) == learned.reported + learned.tokens(31_000 - learned.estimated)
    assert learned.forgotten().context(1_000) == learned.tokens(1_000)


@given(st.lists(st.tuples(st.integers(-10, MAX_TOKENS * 2), st.integers(-10, MAX_TOKENS * 2)), max_size=30))
def test_no_report_moves_the_factor_out_of_its_bounds(reports: list[tuple[int, int]]) -> None:
    learned = Calibration()
    for estimated, reported in reports:
        learned = learned.adjusted(estimated, reported)
    assert FACTOR_LEAST <= learned.factor <= FACTOR_MOST
    assert 0 <= learned.tokens(1_000) <= MAX_TOKENS
