"""`python -m proof failover` in a size that the suite can bear: three gateways live through a promotion (C-4, D-1)."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from proof.cluster.database_failover import fail_over
from proof.workload.clients import Pace

pytestmark = pytest.mark.long


@pytest.mark.req("C-4", "D-1", "D-7", "U-2", "X-3")
def test_the_promotion_of_a_standby_loses_and_doubles_nothing_acknowledged() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof failover --rounds 1 --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="il-") as name:  # Short: a socket's path has 107 bytes at the most.
        place = Path(name)
        place.chmod(0o755)
        seen = fail_over(place, seed, 1, Pace(writers=3, sessions=3, rest_s=0.3))

    print(seen.table())
    assert seen.passed
    assert len(seen.acknowledged_s) == 3
    assert seen.outcomes.votes > 0
    assert seen.outcomes.frames > 0
