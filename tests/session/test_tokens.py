"""The estimate of tokens against a public tokenizer's counts, which stand beside the samples (Z-1)."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.session import token_weights
from interlock.session.token_estimate import estimated_tokens
from interlock.session.tokens import (
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
from session.tokens.count import character_table, characters, random_samples

pytestmark = [pytest.mark.req("Z-1")]
SAMPLES = Path(__file__).parent / "tokens"
COUNTS: dict[str, int] = json.loads((SAMPLES / "counts.json").read_text())["counts"]


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_bytes().decode()


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


def test_over_all_english_and_code_the_estimate_is_a_fifth_too_high() -> None:
    names = [name for name in COUNTS if name.startswith(("english", "code"))]
    assert 1.0 <= sum(estimated_tokens(sample(name)) for name in names) / sum(COUNTS[name] for name in names) <= 1.25


def test_a_quarter_of_the_characters_is_far_too_low_for_korean() -> None:
    """The rule that this one replaces: it would let a Korean conversation run over its window."""
    assert len(sample("korean_talk")) / 4 < 0.6 * COUNTS["korean_talk"]


@given(st.lists(st.sampled_from(sorted(COUNTS)), min_size=1, max_size=12), st.randoms(use_true_random=False),
       st.sampled_from(["", " ", "\n", ", "]))
def test_mixtures_are_not_estimated_below_their_parts(names: list[str], dice: random.Random, between: str) -> None:
    """What stands together may take fewer tokens than its parts, never many more: so parts bound a mixture."""
    parts = [sample(name) for name in names]
    parts = [line for part in parts for line in part.splitlines(keepends=True)]
    dice.shuffle(parts)
    assert estimated_tokens(between.join(parts)) >= 0.98 * sum(map(estimated_tokens, parts))


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


@pytest.mark.needs("toktok")
def test_the_stored_counts_and_characters_are_the_tokenizers() -> None:
    toktok = importlib.import_module("toktok")
    names = sorted(COUNTS)
    assert toktok.batch_count(map(sample, names), "o200k_base") == [COUNTS[name] for name in names]
    made = character_table(toktok.batch_count(characters(), "o200k_base"))
    assert made == "".join(token_weights.CHARACTERS)


def test_the_random_samples_are_those_that_the_command_writes() -> None:
    for name, text in random_samples().items():
        assert sample(name) == text + "\n"


def test_a_tokenizer_that_is_installed_counts_instead_but_for_what_is_very_long() -> None:
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
