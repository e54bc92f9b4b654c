"""TOML out of plain values (G-1): read back, it is what was written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.toml_writer import to_toml, value_toml

pytestmark = pytest.mark.req("G-1")
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.floats(allow_nan=False)
VALUE = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
                     max_leaves=8)


@given(st.dictionaries(TEXT, VALUE, max_size=5))
def test_every_written_value_is_read_back(data: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(data)) == data


@pytest.mark.parametrize(("value", "text"), [
    (True, "true"), (3, "3"), ('a"b\\\n\x7f', r'"a\"b\\\n\u007f"'), ([1, "a", []], '[1, "a", []]'),
    ({"a": 1, "b c": None, "d": {}}, "{a = 1, d = {}}"), ("é\u2028", '"é\u2028"'),
])
def test_a_value_is_one_line(value: Any, text: str) -> None:
    assert value_toml(value) == text


def test_tables_follow_values_and_top_level_lists_of_tables_are_arrays() -> None:
    data = {"t": {"x": {"y": 1}, "z": 2}, "list": [{"a": 1}, {"a": 2}], "plain": "v", "none": [], "empty": {}}
    assert to_toml(data) == (
        'plain = "v"\nnone = []\n\n[t]\nz = 2\n\n[t.x]\ny = 1\n\n[[list]]\na = 1\n\n[[list]]\na = 2\n\n[empty]\n')
