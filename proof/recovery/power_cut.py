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
from proof.processes.stack import Component, Stack
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

CUTS = 100
SETTLE_TIMEOUT_S = 120.0
BOTH: tuple[tuple[Component, ...], ...] = (("gateway",), ("runner",), ("gateway", "runner"))
WHILE_IT_STARTS = 0.2
"""How likely power goes again before it is ready."""
PACE = Pace(writers=8, sessions=4, rest_s=0.6)


class Findings(NamedTuple):
    """What a run counted."""

    cuts: int
    starting: int
    outcomes: OutcomeTally


def cut_power(place: Path, seed: int, cuts: int, pace: Pace = PACE) -> Findings:
    """Let clients work, and cut power. Raises NotReady if a component does not open any more."""
    draw = random.Random(seed)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    starting = 0
    try:
        _start(stack, draw, *BOTH[2])
        stack.ready()
        clients = Clients(stack, seed, pace)
        clients.start()
        for _ in range(cuts):
            time.sleep(draw.random() * 0.8)
            components = draw.choice(BOTH)
            _cut(stack, components)
            _start(stack, draw, *components)
            if draw.random() < WHILE_IT_STARTS:
                starting += 1
                time.sleep(draw.random() * 0.4)
                _cut(stack, components)
                _start(stack, draw, *components)
            stack.ready()
        clients.stop()
        clients.settle(SETTLE_TIMEOUT_S)
        return Findings(cuts + starting, starting, tally_outcomes(clients, deltas=False))
    finally:
        stack.down()
        fork_server.close()


def _start(stack: Stack, draw: random.Random, *components: Component) -> None:
    for component in components:
        stack.entry[component] = ["proof.faults.volatile_component", str(draw.randrange(2**32))]
        stack.start(component)


def _cut(stack: Stack, components: tuple[Component, ...]) -> None:
    for component in components:
        stack.processes[component].send_signal(CUT)
    for component in components:
        stack.processes[component].wait(10)


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts cuts."""
    with tempfile.TemporaryDirectory(prefix="interlock-r3-") as place:
        seen = cut_power(Path(place), seed, rounds or CUTS)
    print(f"{seen.cuts} power cuts, {seen.starting} of them while it started; everything opened each time")
    print(seen.outcomes.table())
    print("passed" if seen.outcomes.passed else f"FAILED; repeat with --seed {seed}")
    return seen.outcomes.passed
