"""The simulation at its full size: towns over one seed after the other, what holds of them, and what they cost.

A run is the same each time by its seed. Sets are gone through in the order of their hashes, so those stand still too.
"""

from __future__ import annotations

import os
import subprocess
import sys

from proof.simulation.figures import Phases, parts
from proof.simulation.town import Size
from proof.simulation.trial import trial

FULL = Size(runners=10_000, sessions=100_000, viewers=1_000, gateways=10, steps=4_000, failures=0.2)
HASHES = "PYTHONHASHSEED"


def run(seed: int, rounds: int | None, **counts: int | None) -> bool:
    """Run it and print what was counted."""
    chosen = {name: count for name, count in counts.items() if count is not None}
    if os.environ.get(HASHES) != "0":
        return _again(seed, rounds, chosen)
    size = FULL._replace(**chosen)
    if min(size[:5]) < 1:
        print("  ! there must be at least one of each: runners, sessions, viewers, gateways, steps")
        return False
    held = True
    for at in range(rounds or 1):
        held &= _one(seed + at, size)
    print("  on one gateway where nothing fails:")
    for line in parts(seed).lines():
        print(f"  {line}", flush=True)
    return held


def _again(seed: int, rounds: int | None, chosen: dict[str, int]) -> bool:
    given = [word for name, count in chosen.items() for word in (f"--{name}", str(count))]
    given += ["--rounds", str(rounds)] if rounds is not None else []
    done = subprocess.run([sys.executable, "-m", "proof", "simulation", "--seed", str(seed), *given], check=False,
                          env={**os.environ, HASHES: "0"})
    return done.returncode == 0


def _one(seed: int, size: Size) -> bool:
    print(f"  seed {seed}: {size._asdict()}", flush=True)
    phases = Phases()
    broken, counted = trial(seed, size, reached=phases.reached)
    for line in phases.lines(size, counted):
        print(f"  {line}")
    print(f"  {dict(counted)}")
    for sentence in broken[:20]:
        print(f"  ! {sentence}")
    if broken:
        told = " ".join(f"--{name} {count}" for name, count in size._asdict().items() if name != "failures")
        print(f"FAILED: {len(broken)} things do not hold; repeat with: simulation --seed {seed} {told}")
    else:
        print("  0 invariants broken", flush=True)
    return not broken
