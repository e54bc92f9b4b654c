"""Mutated frames in each direction, as many as the ordinary suite can bear; all of them: `python -m proof fuzz`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.protocol.frame_fuzz import fuzz

FRAMES = 300


@pytest.mark.on_cluster
@pytest.mark.req("E-1", "E-3", "W-1", "W-2", "D-6")
@pytest.mark.parametrize("towards", ["gateway", "runner"])
def test_mutated_frames_end_neither_the_link_nor_the_session(tmp_path: Path, towards: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof fuzz --rounds {FRAMES // 100} --seed {seed}")
    seen = fuzz(tmp_path, seed, FRAMES, towards)

    assert seen.wrong == []
    assert seen.tracebacks == 0
    assert seen.passed, seen
    assert seen.frames >= FRAMES
    assert seen.refused > 0
