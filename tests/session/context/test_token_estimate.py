"""The estimate of tokens against a public tokenizer's counts, which are stored beside the samples (Z-1)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.session.context.token_estimate import estimated_tokens
from session.tokens.samples import COUNTS, SAMPLES, sample

pytestmark = [pytest.mark.req("Z-1")]


def test_every_sample_is_counted_and_all_kinds_are_there() -> None:
    assert set(COUNTS) == {file.stem for file in SAMPLES.glob("*.txt")}
    assert {name.partition("_")[0] for name in COUNTS} >= {
        "english", "code", "korean", "hangul", "polish", "vietnamese", "turkish", "arabic", "hindi", "thai", "japanese",
        "chinese", "table", "ansi", "symbols", "emoji", "base64", "hex", "random", "log", "numbers"}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_estimate_is_not_below_the_true_count_by_more_than_a_tenth(name: str) -> None:
    ratio = estimated_tokens(sample(name)) / COUNTS[name]
    assert ratio >= 0.95
    if name.startswith(("english", "code", "korean")):
        assert ratio <= 1.4, "the request is compacted much too early"


def test_for_english_and_code_the_total_estimate_is_a_fifth_too_high() -> None:
    names = [name for name in COUNTS if name.startswith(("english", "code"))]
    assert 1.0 <= sum(estimated_tokens(sample(name)) for name in names) / sum(COUNTS[name] for name in names) <= 1.25


def test_a_quarter_of_the_character_count_is_far_too_low_for_korean() -> None:
    """The rule that this one replaces: it would let a Korean conversation run over its window."""
    assert len(sample("korean_talk")) / 4 < 0.6 * COUNTS["korean_talk"]


@given(st.lists(st.sampled_from(sorted(COUNTS)), min_size=1, max_size=12), st.randoms(use_true_random=False),
       st.sampled_from(["", " ", "\n", ", "]))
def test_mixtures_are_not_estimated_below_their_parts(names: list[str], dice: random.Random, between: str) -> None:
    """Joined text may take fewer tokens than its parts, never many more: so the parts bound a mixture."""
    parts = [sample(name) for name in names]
    parts = [line for part in parts for line in part.splitlines(keepends=True)]
    dice.shuffle(parts)
    assert estimated_tokens(between.join(parts)) >= 0.98 * sum(map(estimated_tokens, parts))


@pytest.mark.parametrize("text", ["\ud800", "a\ud83d", "\x00\x01", "\U0010ffff", "\u200d" * 50, "\r\n" * 50])
def test_invalid_text_still_has_an_estimate(text: str) -> None:
    assert 0 < estimated_tokens(text) <= 4 * len(text.encode("utf-8", "replace"))


def test_an_empty_text_has_no_tokens() -> None:
    assert estimated_tokens("") == 0
