"""R3: power is cut 100 times, and what was not synced is gone: nothing acknowledged is, all opens, the log verifies.

Ledger, outbox, transcripts, objects, keys and checkpoints are on a disk that loses what was not synced
(`proof.faults.volatile_disk`). The power of the gateway, of the runner or of both is cut at random instants, also while
they start.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from proof.faults.volatile_component import CUT
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Part, Stack
from proof.workload.clients import CONFIG, Crew, Pace
from proof.workload.outcome_tally import Reckoning, reckon

CUTS = 100
SETTLE_TIMEOUT_S = 120.0
BOTH: tuple[tuple[Part, ...], ...] = (("gateway",), ("runner",), ("gateway", "runner"))
WHILE_IT_STARTS = 0.2
"""How likely power goes again before it is ready."""
PACE = Pace(writers=8, sessions=4, rest_s=0.6)


class Findings(NamedTuple):
    """What a run counted."""

    cuts: int
    starting: int
    reckoned: Reckoning


def cut_power(place: Path, seed: int, cuts: int, pace: Pace = PACE) -> Findings:
    """Let a crew work, and cut power. Raises NotReady where a part does not open any more."""
    draw = random.Random(seed)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    starting = 0
    try:
        _start(stack, draw, *BOTH[2])
        stack.ready()
        crew = Crew(stack, seed, pace)
        crew.start()
        for _ in range(cuts):
            time.sleep(draw.random() * 0.8)
            parts = draw.choice(BOTH)
            _cut(stack, parts)
            _start(stack, draw, *parts)
            if draw.random() < WHILE_IT_STARTS:
                starting += 1
                time.sleep(draw.random() * 0.4)
                _cut(stack, parts)
                _start(stack, draw, *parts)
            stack.ready()
        crew.stop()
        crew.settle(SETTLE_TIMEOUT_S)
        return Findings(cuts + starting, starting, reckon(crew, deltas=False))
    finally:
        stack.down()
        fork_server.close()


def _start(stack: Stack, draw: random.Random, *parts: Part) -> None:
    for part in parts:
        stack.entry[part] = ["proof.faults.volatile_component", str(draw.randrange(2**32))]
        stack.start(part)


def _cut(stack: Stack, parts: tuple[Part, ...]) -> None:
    for part in parts:
        stack.processes[part].send_signal(CUT)
    for part in parts:
        stack.processes[part].wait(10)


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts cuts."""
    with tempfile.TemporaryDirectory(prefix="interlock-r3-") as place:
        seen = cut_power(Path(place), seed, rounds or CUTS)
    print(f"{seen.cuts} power cuts, {seen.starting} of them while it started; everything opened each time")
    print(seen.reckoned.table())
    print("passed" if seen.reckoned.passed else f"FAILED; repeat with --seed {seed}")
    return seen.reckoned.passed
