"""A line of JSON that cannot be decoded here is still read, with the same content except for that part (X-4)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.limits import MAX_JSON_DEPTH
from interlock.session.transcript.line_json import BOM, NO_JSON, TOO_DEEP, has_halves, legible, nests_too_deep, value_of

pytestmark = pytest.mark.req("X-4")
TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.characters(categories=["Cs"]), st.sampled_from('\\"u')))
VALUES = st.recursive(TEXTS | st.integers(-9, 9) | st.none(), lambda inner: st.lists(inner, max_size=3)
                      | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=12)


def replaced(value: Any) -> Any:
    """A value after UTF-16 encoding: pairs join, halves become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replaced(one) for one in value]
    if isinstance(value, dict):
        return {replaced(name): replaced(one) for name, one in value.items()}
    return value


@given(VALUES, st.booleans())
def test_halves_of_surrogate_pairs_are_read_as_u_fffd(value: Any, ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if ascii_only:
        assert value_of(line) == replaced(value)
        assert len(legible(line)) == len(line)
    else:
        # A half that is encoded by itself is not UTF-8, and reads as several U+FFFD.
        assert value_of(line) is not NO_JSON
    assert msgspec.json.decode(legible(line)) == value_of(line)


@pytest.mark.parametrize(("line", "halves"), [
    (rb'"\ud83d"', True), (rb'"\ud83d\ude00"', False), (rb'"\\ud83d"', False), (rb'"\\\ud83d"', True),
    (rb'"\uDE00\uD83D"', True), (rb'"\ud83d\ud83d\ude00"', True), (b'"ud83d"', False), (rb'"\ud7ff\ue000"', False),
])
def test_a_half_is_distinguished_from_a_pair_and_an_escaped_backslash(line: bytes, halves: bool) -> None:
    assert has_halves(line) is halves
    assert (legible(line) == line) is not halves
    assert value_of(line) == replaced(json.loads(line))


@pytest.mark.parametrize("depth", [5_000, 200_000])
def test_a_too_deeply_nested_value_is_marked_and_the_rest_read(depth: int) -> None:
    deep = b"[" * depth + b'"}{\\"]"' + b"]" * depth
    line = b'{"type":"x","a":' + deep + b',"id":"e","b":{"c":' + deep + b'},"text":"\\ud83d ["}'
    found: Any = value_of(line)
    assert (found["type"], found["id"], found["text"]) == ("x", "e", "\ufffd [")
    at: Any = found["a"]
    for _ in range(MAX_JSON_DEPTH - 1):
        (at,) = at
    assert at == TOO_DEEP
    assert nests_too_deep(line.replace(b"\\ud83d", b""))
    assert value_of(line[:-1]) is NO_JSON


def test_a_byte_order_mark_is_not_part_of_the_value() -> None:
    assert value_of(BOM + b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize("line", [b"", b"{", b'"' * 100_001, b'\\"' * 100_000, b"\\ud83d" * 50_000, b"]" * 100_000])
def test_text_that_is_not_json_is_detected_in_one_pass(line: bytes) -> None:
    assert value_of(line) is NO_JSON
