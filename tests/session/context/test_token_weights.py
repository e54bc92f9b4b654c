"""The weights of the estimate (Z-1): the characters are the tokenizer's own, and every text finds its weight."""

from __future__ import annotations

import importlib
from itertools import pairwise

import pytest

from interlock.session.context import token_weights
from session.tokens.count import character_table, characters, random_samples
from session.tokens.samples import COUNTS, sample

pytestmark = [pytest.mark.req("Z-1")]


@pytest.mark.needs("toktok")
def test_the_stored_counts_and_characters_are_the_tokenizers() -> None:
    toktok = importlib.import_module("toktok")
    names = sorted(COUNTS)
    assert toktok.batch_count(map(sample, names), "o200k_base") == [COUNTS[name] for name in names]
    made = character_table(toktok.batch_count(characters(), "o200k_base"))
    assert made == "".join(token_weights.CHARACTERS)


def test_the_random_samples_are_those_of_the_generator() -> None:
    for name, text in random_samples().items():
        assert sample(name) == text + "\n"


def test_each_letter_has_one_weight_and_rare_ones_weigh_more() -> None:
    letters = "".join(letters for letters, _ in token_weights.LETTERS)
    assert sorted(letters) == sorted("abcdefghijklmnopqrstuvwxyz")
    weights = [weight for _, weight in token_weights.LETTERS]
    assert weights == sorted(weights)


def test_blocks_begin_after_ascii_in_search_order() -> None:
    starts = [start for start, _ in token_weights.BLOCKS]
    assert starts[0] == 0x80
    assert all(one < other for one, other in pairwise(starts))


def test_common_words_are_plain_and_each_is_listed_once() -> None:
    words = token_weights.WORDS.split()
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    assert len(set(words)) == len(words)
