"""The estimate of tokens against a public tokenizer's counts, which stand beside the samples (Z-1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.session.tokens import (
    FACTOR_LEAST,
    FACTOR_MOST,
    IMAGE_TOKENS,
    MAX_TOKENS,
    MESSAGE_TOKENS,
    Calibration,
    entry_tokens,
    message_tokens,
    text_tokens,
)

pytestmark = [pytest.mark.req("Z-1")]
SAMPLES = Path(__file__).parent / "tokens"
COUNTS: dict[str, int] = json.loads((SAMPLES / "counts.json").read_text())["counts"]


def test_every_sample_is_counted_and_all_three_kinds_are_there() -> None:
    assert set(COUNTS) == {file.stem for file in SAMPLES.glob("*.txt")}
    assert {name.split("_")[0] for name in COUNTS} == {"korean", "english", "code"}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_estimate_is_not_below_the_true_count_by_more_than_a_tenth(name: str) -> None:
    text = (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    assert 0.9 * COUNTS[name] <= text_tokens(text) <= 1.3 * COUNTS[name]


def test_a_quarter_of_the_characters_is_far_too_low_for_korean() -> None:
    """The rule that this one stands instead of: it would let a Korean conversation run over its window."""
    text = (SAMPLES / "korean_talk.txt").read_text(encoding="utf-8")
    assert len(text) / 4 < 0.6 * COUNTS["korean_talk"]


def test_base64_is_no_prose() -> None:
    assert text_tokens("aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ" * 30) >= 0.9 * 811


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert max(text_tokens(one), text_tokens(other)) <= text_tokens(one + other) + 64
    assert text_tokens(one) <= 4 * len(one.encode("utf-8", "replace")) + 1


def test_a_message_counts_all_that_is_sent_of_it() -> None:
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
def test_an_odd_message_has_a_figure_too(odd: dict[str, Any]) -> None:
    assert message_tokens(odd) >= MESSAGE_TOKENS


def test_entries_that_are_not_in_context_count_nothing() -> None:
    assert entry_tokens({"type": "custom", "customType": "x", "data": {"a": "long " * 100}}) == 0
    assert entry_tokens({"type": "message", "message": "no object"}) == 0
    assert entry_tokens({"type": "custom_message", "content": "note"}) > MESSAGE_TOKENS


def test_reports_teach_how_a_model_counts_whatever_stands_beside_the_conversation() -> None:
    learned = Calibration().heard(1_000, 9_000)  # 8,000 of them are instructions and tools.
    assert learned.factor == 1.0
    for turn in range(1, 30):
        learned = learned.heard(1_000 + turn * 1_000, 9_000 + turn * 1_600)
    assert learned.factor == pytest.approx(1.6, rel=0.01)
    assert learned.context(30_000 + 1_000) == learned.reported + learned.tokens(31_000 - learned.estimated)
    assert learned.forgotten().context(1_000) == learned.tokens(1_000)


@given(st.lists(st.tuples(st.integers(-10, MAX_TOKENS * 2), st.integers(-10, MAX_TOKENS * 2)), max_size=30))
def test_no_report_takes_the_factor_out_of_its_bounds(reports: list[tuple[int, int]]) -> None:
    learned = Calibration()
    for estimated, reported in reports:
        learned = learned.heard(estimated, reported)
    assert FACTOR_LEAST <= learned.factor <= FACTOR_MOST
    assert 0 <= learned.tokens(1_000) <= MAX_TOKENS
