"""Ids of tool calls in frames."""

from __future__ import annotations

import pytest

from interlock.agents.call_ids import MAX_CALL_ID_CHARS, invocation_id
from interlock.protocol.limits import MAX_ID_CHARS

pytestmark = pytest.mark.req("L-2")


def test_an_id_that_fits_is_kept_and_a_longer_one_becomes_its_digest() -> None:
    fits = "c" * MAX_CALL_ID_CHARS
    assert invocation_id(fits) == fits
    assert invocation_id(fits + "c") != invocation_id(fits + "d")
    assert len(invocation_id(fits * 100)) == 64 < MAX_ID_CHARS
