"""A small run of the proof that damage at any byte hangs nothing, destroys nothing and is reported (T1)."""

from __future__ import annotations

import pytest

from proof.recovery import transcript_damage


@pytest.mark.req("X-4")
def test_damaged_bytes_are_reported_and_repaired() -> None:
    found = transcript_damage.damage(1, 12)
    assert (found["files"], found["unsound"], found["lost"], found["slow"], found["silent"]) == (72, 0, 0, 0, 0)
    assert found["said"] > 50
    assert transcript_damage.appends(1, 12) == {"files": 12, "destroyed": 0, "unread": 0}
