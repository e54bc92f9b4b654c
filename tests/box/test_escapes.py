"""The escapes of `proof box` that mounts, other processes and held programs make possible: a few of each (H-15, H-16).
"""

from __future__ import annotations

import pytest
from proof.box import escape
from proof.box_programs import programs

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


@pytest.mark.req("H-16")
@pytest.mark.skipif(HOST.programs is not None, reason=str(HOST.programs))
def test_a_plain_user_and_root_start_what_is_allowed_and_nothing_else() -> None:
    name = "Mount it over the allowed program, in a namespace of its own"
    seen = programs([name])

    assert seen.broken == []
    assert not [line for line in seen.missing if line.startswith("GOT NOWHERE")]
