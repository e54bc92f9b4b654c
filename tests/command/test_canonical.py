"""Canonical JSON against an independent writer of RFC 8785, and values outside the schema."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.command.canonical import MAX_DEPTH, MAX_INTEGER, NotCanonical, canonical, is_plain

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(max_codepoint=127))
LEAVES = st.booleans() | TEXT | st.integers(-MAX_INTEGER, MAX_INTEGER)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
                      max_leaves=12)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)


@pytest.mark.req("U-2")
@given(OBJECTS)
def test_the_canonical_form_is_that_of_rfc_8785(value: dict[str, Any]) -> None:
    written = canonical(value)
    assert written == rfc8785.dumps(value)
    assert is_plain(msgspec.json.decode(written))
    assert canonical(msgspec.json.decode(written)) == written


@pytest.mark.req("U-2")
def test_every_control_character_and_escape_has_one_form() -> None:
    value = {"".join(map(chr, range(128))): "".join(map(chr, [*range(0x100), 0x2028, 0x2029, 0xFFFD, 0x1F600]))}
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.req("U-2")
def test_members_that_are_none_are_omitted_and_subclasses_written_plainly() -> None:
    word = StrEnum("word", {"A": "a"})
    number = IntEnum("number", {"ONE": 1})
    value = {"z": (1, "x"), "a": None, word.A: number.ONE, "m": {"none": None, "w": word.A}}
    assert canonical(value) == b'{"a":1,"m":{"w":"a"},"z":[1,"x"]}'


@pytest.mark.req("U-2")
@pytest.mark.parametrize(("value", "sentence"), [
    ({"a": 1.0}, r"\$\.a is of type float"),
    ({"a": [True, None]}, r"\$\.a\[1\] is of type NoneType"),
    ({"a": {"b": MAX_INTEGER + 1}}, r"integer at \$\.a\.b"),
    ({"a": -MAX_INTEGER - 1}, "below 2"),
    ({"é": 1}, "not ASCII"),
    ({1: 1}, "not ASCII"),
    ({"a": b"bytes"}, "of type bytes"),
    ({"a": {1, 2}}, "of type set"),
    ({"a": "\ud800"}, "surrogate"),
    ({"a": msgspec.Raw(b"1.5")}, "of type Raw"),
])  # fmt: skip
def test_anything_else_is_refused_with_its_place(value: Any, sentence: str) -> None:
    with pytest.raises(NotCanonical, match=sentence):
        canonical(value)


def test_depth_is_bounded_even_if_a_value_contains_itself() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = [endless]
    with pytest.raises(NotCanonical, match=f"deeper than {MAX_DEPTH}"):
        canonical(endless)


@pytest.mark.parametrize("text", [b'{"a":1.0}', b'{"a":null}', b'{"a":9007199254740992}', b'{"\xc3\xa9":1}',
                                  b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)])
def test_a_decoded_value_outside_the_schema_is_noticed(text: bytes) -> None:
    assert not is_plain(msgspec.json.decode(text))
