"""The simulation at its full size: worlds for one seed after another, their invariants, and their costs.

A run is the same each time by its seed: the clock, the network, the store and all faults are drawn from it.
"""

from __future__ import annotations

import time

from proof.simulation import FAILURES_A_SECOND, FORWARDS, FULL_COUNTS
from proof.simulation.forwards import forwards
from proof.simulation.input_log import report
from proof.simulation.invariants import INVARIANTS
from proof.simulation.resource_use import Phases, needs, parts, table
from proof.simulation.trial import trial
from proof.simulation.world import FAILURES, Size

FULL = Size(failures=FAILURES_A_SECOND)._replace(**FULL_COUNTS)


def run(seed: int, rounds: int | None, **counts: float | None) -> bool:
    """Run it and print what was counted."""
    size = FULL._replace(**{name: count for name, count in counts.items() if count is not None})
    if min(size[:5]) < 1 or size.failures < 0:
        print("  ! there must be at least one of each: runners, sessions, viewers, gateways, steps; and no less than 0 "
              "failures")
        return False
    held = True
    phases = Phases()
    for at in range(rounds or 1):
        phases = Phases()
        held &= _one(seed + at, size, phases)
        held &= _forwards(seed + at)
    found = parts(seed)
    print("  on one gateway where nothing fails:")
    for line in (*found.lines(), *table(size, needs(size, phases.of, found), found)):
        print(f"  {line}", flush=True)
    return held


def _forwards(seed: int) -> bool:
    found = forwards(seed, FORWARDS)
    print(f"  seed {seed}: {FORWARDS} commands at gateways that do not have the session: {dict(found.answers)}")
    print(f"  befell them: {', '.join(f'{count} x {name}' for name, count in sorted(found.befell.items()))}")
    for sentence in found.broken[:20]:
        print(f"  ! {sentence}")
    print(f"  {len(found.broken)} forwarded commands lost, done twice, late or answered wrongly", flush=True)
    return not found.broken


def _one(seed: int, size: Size, phases: Phases) -> bool:
    print(f"  seed {seed}: {size._asdict()}", flush=True)
    began_s = time.process_time()
    broken, counted = trial(seed, size, reached=phases.reached)
    for line in phases.lines(size, counted):
        print(f"  {line}")
    print(f"  {dict(counted)}")
    print(f"  failed at random: {', '.join(f'{counted[name]} x {name}' for name in FAILURES)}")
    print(f"  {time.process_time() - began_s:,.0f} s of a core for {counted['simulated s']} simulated seconds")
    for name in INVARIANTS:
        count = sum(sentence.startswith(name) for sentence in broken)
        print(f"  {name}: {'holds' if not count else f'does not hold, {count} times'}")
    for sentence in broken[:20]:
        print(f"  ! {sentence}")
    if broken:
        arguments = " ".join(f"--{name} {count}" for name, count in size._asdict().items())
        print(f"FAILED: {len(broken)} things do not hold; repeat with: simulation --seed {seed} {arguments}")
        print("  once more, with every lane recorded:", flush=True)
        report(seed, size)
    else:
        print("  0 invariants broken", flush=True)
    return not broken
