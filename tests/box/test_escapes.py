"""The escapes of `proof box` that mounts and other processes make possible: a few of them, on each wall (H-15)."""

from __future__ import annotations

import pytest
from proof.box import escape

from interlock.box.host import survey

HOST = survey()
TRIED = [
    "Open it by its path",
    "Clone the tree above it (open_tree), in a namespace of its own",
]


@pytest.mark.req("H-15")
@pytest.mark.skipif(HOST.why_none is not None, reason=str(HOST.why_none))
def test_ways_out_that_lead_out_without_walls_lead_nowhere_behind_them() -> None:
    seen = escape(TRIED)

    assert seen.broken == []
    assert not seen.cells[TRIED[0], next(user for _, user, _ in seen.cells), "none"].held
    assert seen.real > 0
