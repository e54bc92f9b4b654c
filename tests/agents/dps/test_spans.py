"""Text that an agent sends at offsets of its own (E-4): forwarded once and in order, and never withdrawn."""

from __future__ import annotations

import random

import pytest

from interlock.agents.dps.spans import BlockSpan
from interlock.protocol.frames import InvalidFrame

pytestmark = pytest.mark.req("E-4")


def test_known_text_is_skipped() -> None:
    span = BlockSpan()
    assert [span.grow(0, "abc"), span.grow(1, "bcd"), span.grow(0, "ab"), span.grow(4, "")] == ["abc", "d", "", ""]
    assert span.finish("abcdef") == "ef"


@pytest.mark.parametrize("offset", [-1, 1, 2**60])
def test_a_gap_is_refused_with_the_end_of_the_known_text(offset: int) -> None:
    with pytest.raises(InvalidFrame, match="0 code points") as caught:
        BlockSpan().grow(offset, "x")
    assert caught.value.path == "$.payload.offset"


@pytest.mark.parametrize("text", ["ab", "abX", "Xbcd", ""])
def test_a_full_text_that_contradicts_its_pieces_is_refused(text: str) -> None:
    span = BlockSpan()
    span.grow(0, "abc")
    with pytest.raises(InvalidFrame) as caught:
        span.finish(text)
    assert caught.value.path == "$.payload.text"


def test_code_points_are_counted_and_split_surrogates_accepted() -> None:
    span = BlockSpan()
    span.grow(0, "a\U0001f600")
    assert span.length == 2
    span.grow(2, "\ud83d")
    assert span.finish("a\U0001f600\ud83d!") == "!"


@pytest.mark.parametrize("seed", range(20))
def test_any_overlapping_pieces_give_the_full_text_once(seed: int) -> None:
    dice, whole, span, shown = random.Random(seed), "한글 text\n" * 20, BlockSpan(), ""
    while span.length < len(whole) - 10:
        offset = dice.randint(0, span.length)
        shown += span.grow(offset, whole[offset:offset + dice.randint(0, 30)])
    assert shown + span.finish(whole) == whole
