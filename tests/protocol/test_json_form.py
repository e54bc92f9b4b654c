"""JSON whose members are passed on unread: its bytes must be UTF-8, and a later reader must not run out of stack."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.json_form import fault_of

ANY = st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text("[]{}\"\\ä"),
                   lambda inner: st.lists(inner) | st.dictionaries(st.text("[]{}\"\\"), inner))


def depth_of(value: object) -> int:
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inner), default=0)


@pytest.mark.req("L-2")
@given(ANY, st.booleans())
def test_the_depth_is_counted_like_that_of_a_parser(value: object, escaped: bool) -> None:
    raw, depth = json.dumps(value, ensure_ascii=escaped).encode(), depth_of(value)
    assert fault_of(raw, depth) is None
    if depth:
        assert fault_of(raw, depth - 1) == f"is nested deeper than {depth - 1} levels"


@pytest.mark.req("L-2")
@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
def test_invalid_utf_8_is_reported_with_its_place(text: bytes) -> None:
    assert fault_of(b'{"a":"' + text + b'"}', 9) == "is not UTF-8 at byte 6"


@pytest.mark.req("L-2")
def test_brackets_in_strings_do_not_count() -> None:
    assert fault_of(json.dumps({"a": '[{"\\' * 1_000, "b": "[" * 1_000}).encode(), 1) is None
