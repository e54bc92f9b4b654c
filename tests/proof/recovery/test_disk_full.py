"""A full disk under writers, a voter and viewers, in a size that the ordinary suite can bear (R14)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.recovery.disk_full import refuse
from proof.workload.clients import Pace

pytestmark = pytest.mark.long

FULL_DISKS = 1


@pytest.mark.req("D-1", "C-4", "U-1", "X-3", "N-3")
def test_a_full_disk_refuses_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R14 --rounds {FULL_DISKS} --seed {seed}")
    seen = refuse(tmp_path, seed, FULL_DISKS, Pace(writers=4, sessions=2, rest_s=0.3))

    print(seen.table())
    assert seen.passed
    assert seen.answered[503] > 0
