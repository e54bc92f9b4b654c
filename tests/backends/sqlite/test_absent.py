"""The filter reports absent only what was never added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.backends.sqlite import transaction
from interlock.backends.sqlite.transaction import Absent


@given(st.sets(st.text(min_size=1), max_size=50))
def test_an_added_value_is_never_reported_absent(keys: set[str]) -> None:
    known = Absent()
    for key in keys:
        known.add(key)
    assert not [key for key in keys if key in known]


def test_nearly_all_values_not_added_are_reported_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "SCOPES", 4_000)
    known = Absent()
    for number in range(10_000):
        known.add(f"added {number}")
    assert not [number for number in range(10_000) if f"added {number}" in known]
    assert sum(f"other {number}" not in known for number in range(10_000)) < 100
