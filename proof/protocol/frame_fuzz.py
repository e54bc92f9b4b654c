"""Mutated frames in each direction: link up, sessions usable, memory flat, no traceback, none half applied (E-1, W-2).

Frames to the gateway are sent by a runner of ours with a valid token; frames to the runner by a gateway of ours. Each
round is a session with a number of mutated frames, after which that session and its link must still work.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from proof.protocol.gateway_fuzz import GatewayFuzz
from proof.protocol.runner_fuzz import RunnerFuzz

FRAMES = 10_000
"""In each direction."""
A_ROUND = 100
FLAT_MIB = 96
"""Growth allowed to the process under test over a whole run."""


class Fuzzed(NamedTuple):
    """What one direction showed. `wrong` holds a sentence for each thing that should not have been."""

    frames: int
    rounds: int
    links: int
    applied: int
    refused: int
    growth_mib: float
    tracebacks: int
    wrong: list[str]

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong and self.tracebacks == 0 and self.growth_mib <= FLAT_MIB


def fuzz(place: Path, seed: int, frames: int, towards: str) -> Fuzzed:
    """Send `frames` mutated frames towards "gateway" or "runner"."""
    rounds = max(1, frames // A_ROUND)
    fuzzing: Any = GatewayFuzz if towards == "gateway" else RunnerFuzz
    with fuzzing(place, random.Random(seed)) as under_test:
        under_test.round(A_ROUND)  # Warm: caches and pools are filled.
        before = under_test.rss_mib()
        for _ in range(rounds):
            under_test.round(min(A_ROUND, frames))
        growth = under_test.rss_mib() - before
        tracebacks = under_test.log().count("Traceback")
        return Fuzzed(under_test.sent, rounds + 1, under_test.links, under_test.applied, under_test.refused,
                      round(growth, 1), tracebacks, under_test.wrong)


def run(seed: int, rounds: int | None) -> bool:
    """Both directions; `rounds` counts hundreds of frames."""
    passed = True
    for towards in ("gateway", "runner"):
        with tempfile.TemporaryDirectory(prefix="interlock-fuzz-") as place:
            seen = fuzz(Path(place), seed, rounds * A_ROUND if rounds else FRAMES, towards)
        print(f"towards the {towards}: {seen.frames} mutated frames in {seen.rounds} sessions over {seen.links} links; "
              f"{seen.applied} applied, {seen.refused} refused; memory grew by {seen.growth_mib} MiB; "
              f"{seen.tracebacks} tracebacks")
        for sentence in seen.wrong[:20]:
            print("  !", sentence)
        passed &= seen.passed
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
