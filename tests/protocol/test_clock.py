"""Instants: milliseconds inside, ISO 8601 UTC outside, and nothing is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.clock import iso, parse_iso

INSTANT = st.integers(0, 253_402_300_799_999)
"""1970 up to the end of 9999, which is where four digits end."""


@pytest.mark.req("W-1")
@given(INSTANT)
def test_a_written_instant_is_read_back_to_the_millisecond(at_ms: int) -> None:
    text = iso(at_ms)
    assert parse_iso(text) == at_ms
    assert len(text) == 24
    assert text.endswith("Z")


@pytest.mark.req("W-1")
@given(INSTANT, INSTANT)
def test_written_instants_sort_by_time(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@pytest.mark.req("W-1")
@pytest.mark.parametrize(
    ("text", "at_ms"),
    [("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.001Z", 1), ("1970-01-01T00:00:00", 0),
     ("1970-01-01T09:00:00+09:00", 0), ("2026-12-01T00:00:00.000Z", 1_796_083_200_000)],
)
def test_other_forms_of_an_instant_are_read(text: str, at_ms: int) -> None:
    assert parse_iso(text) == at_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z"])
def test_an_invalid_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_iso(text)
