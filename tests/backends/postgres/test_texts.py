"""PostgreSQL stores every character but NUL: a text with one is read back as written, and any other is unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.backends.postgres import texts
from interlock.ports.ledger import LaneName

AWKWARD = st.text(st.sampled_from("\0\U0010fffe01a"))


@given(st.text() | AWKWARD)
def test_every_text_is_read_back_and_none_is_stored_with_a_nul(text: str) -> None:
    stored = texts.encoded(text)

    assert texts.NUL not in stored
    assert texts.decoded(stored) == text


@pytest.mark.parametrize("text", ["", "plain", "0", "höher \n"])
def test_a_text_without_a_nul_is_stored_unchanged(text: str) -> None:
    assert texts.encoded(text) is text
    assert texts.decoded(text) is text


def test_two_texts_never_have_the_same_stored_form() -> None:
    nul, escaped = texts.encoded("\0"), texts.encoded("\U0010fffe0")

    assert nul != escaped


def test_lanes_become_columns_in_their_order() -> None:
    lanes = [LaneName("t2", "s/1"), LaneName("t1", "s/2")]
    assert texts.lane_columns(iter(lanes)) == (["t2", "t1"], ["s/1", "s/2"])
