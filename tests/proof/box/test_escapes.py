"""The escapes of `proof box` that mounts, other processes and held programs make possible: a few of each (H-15, H-16).
"""

from __future__ import annotations

import pytest

from proof import REPOSITORY
from proof.box.escapes import beside, escape
from proof.box.held_programs import programs
from proof.box.hostile_program import ESCAPES
from this_host import HOST

TRIED = [
    "Open it by its path",
    "Clone the tree above it (open_tree), in a namespace of its own",
    "Open it by a ring, without the call (io_uring)",
    "Read what is typed at a terminal of its user's (/dev/pts)",
    "Trace an agent in a box of the same kind (ptrace)",
    "Send an agent in a box of the same kind a signal",
]


@pytest.mark.req("H-15", "H-20")
@pytest.mark.skipif(HOST.why_none is not None, reason=str(HOST.why_none))
def test_escapes_that_work_without_walls_fail_behind_them() -> None:
    seen = escape(TRIED)

    assert seen.broken == []
    assert not seen.cells[TRIED[0], next(user for _, user, _ in seen.cells), "none"].held
    assert seen.real > 0


@pytest.mark.req("H-20")
def test_every_limit_of_a_wall_and_every_attempt_is_a_row_of_the_page() -> None:
    page = (REPOSITORY / "docs/explanation/walls.md").read_text("utf-8").splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in page if line.startswith("| ")}

    assert len(ESCAPES) >= 60
    for name, (group, _) in ESCAPES.items():
        row = rows[f"{name[0].lower()}{name[1:]}"]
        kinds = ["network"] if group == "network" else ["namespace", "landlock"]
        listed = [any(name in beside(scoped=True)[kind] for kind in kinds), "not promised" in row]
        assert listed in ([True, True], [False, False]), row


@pytest.mark.req("H-16")
@pytest.mark.skipif(HOST.programs is not None, reason=str(HOST.programs))
def test_a_plain_user_and_root_start_only_granted_programs() -> None:
    name = "Mount it over the allowed program, in a namespace of its own"
    seen = programs([name])

    assert seen.broken == []
    assert not [line for line in seen.missing if line.startswith("GOT NOWHERE")]
