"""Opaque cursors (S-1): valid only for the list that returned them, and only in their canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.gateway.rest.cursors import cursor, number, place, stream_cursor
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.req("S-1")


@given(st.text(max_size=30).filter(bool), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_cursor_is_decoded_in_its_own_scope(value: str, scope: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    assert place(scope, cursor(scope, value)) == value


@pytest.mark.parametrize("n", [0, 1, 10**18, 2**63 - 1])
def test_a_place_in_a_stream_is_a_number(n: int) -> None:
    assert number("command/c", stream_cursor("command/c", n)) == n
    assert number("command/c", cursor("command/c", n)) == n, "as they were given out before"


GOOD = cursor("list/a", "apr_1")


@pytest.mark.parametrize("text", [
    "", "x", GOOD + "=", GOOD[:-1], GOOD + "A", GOOD.swapcase(), cursor("list/b", "apr_1"), "\u0663" * 12,
    "a" * 10_000, " " + GOOD,
    GOOD + "\n", cursor("list/a", ""),
])
def test_anything_else_is_refused_by_its_parameter(text: str) -> None:
    with pytest.raises(Problem) as caught:
        place("list/a", text, "cursor")
    assert (caught.value.code, caught.value.errors[0].pointer) == ("InvalidPayload", "cursor")


@pytest.mark.parametrize("text", [
    stream_cursor("command/d", 7), stream_cursor("command/c", 7).replace("7", "07"), stream_cursor("command/c",
    7) + "\n",
    stream_cursor("command/c", 7).upper() + "x", stream_cursor("command/c", 1)[:-1] + "-1", stream_cursor("command/c",
    7) + "9" * 30,
])
def test_a_cursor_of_another_stream_or_form_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        number("command/c", text)
