"""Text is cut by its size as JSON, and nothing of it is lost (E-5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.sizes import json_size, split_sized, split_text

texts = st.text(st.one_of(st.sampled_from('a\n"\\\x01é€😀'), st.characters(exclude_categories=("Cs",))), max_size=200)


@pytest.mark.req("E-5")
@given(texts, st.integers(min_value=6, max_value=64))
def test_pieces_join_to_the_text_and_each_is_bounded_and_counted(text: str, max_bytes: int) -> None:
    pieces = split_sized(text, max_bytes)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.size == json_size(piece.text) <= max_bytes for piece in pieces)
    assert all(piece.text for piece in pieces) or not text
    assert split_text(text, max_bytes) == [piece.text for piece in pieces]
