"""`python -m proof cascade --inner` in a size that the suite can bear: every session has a turn under way (C-4)."""

from __future__ import annotations

import random

import pytest

from proof.cluster.cascade import RUNNERS_DIE, one

pytestmark = pytest.mark.long


@pytest.mark.req("C-4", "D-7")
def test_all_sessions_of_a_gateway_that_dies_with_its_runners_are_taken_over() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof cascade --inner --rtt 5 --kills 1 --sessions 60 --seed {seed}")
    found = one(seed, 5.0, 1, 60, inner=True)
    print(found.line())
    assert (found.lost, found.late, found.twice, found.unanswered) == (0, 0, 0, 0)
    assert found.troubles == {RUNNERS_DIE: 1}
    assert len(found.taken_s) == 1
