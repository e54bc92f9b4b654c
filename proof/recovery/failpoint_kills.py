"""R4: a process dies at each of the named failpoints, 25 times at each, and the invariants of the design hold.

Gateway and runner are both armed, each at a point of its own; a process that dies is restarted armed at the next one.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from proof.faults.failpoints import MOMENTS, POINTS
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Component, Stack
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

TIMES = 25
REACH_TIMEOUT_S = 20.0
"""A point that no one came to in this time is put back behind the others."""
GIVEN_UP = 20
"""After this many rounds in a row without a reached point the stack counts as stuck."""
SETTLE_TIMEOUT_S = 120.0
PACE = Pace(writers=8, sessions=4, pieces=4, pause_ms=15, rest_s=0.3)


class Findings(NamedTuple):
    """What a run counted."""

    deaths: Counter[str]
    unreached: list[str]
    outcomes: OutcomeTally

    @property
    def passed(self) -> bool:
        """Every point was died at as often as asked, and all invariants hold."""
        return not self.unreached and self.outcomes.passed


class _Plan:
    """The points of one component that are still to be died at, and the one that it is armed at."""

    def __init__(self, component: Component, times: int, draw: random.Random) -> None:
        self.component: Component = component
        self.left = [f"{name},{moment}" for name in POINTS[component] for moment in MOMENTS] * times
        draw.shuffle(self.left)
        self.draw = draw
        self.armed_at = 0.0
        self.idle = 0

    def arm(self, stack: Stack) -> None:
        """Start the component, armed at the next point; unarmed after the last."""
        stack.entry[self.component] = ["proof.processes.component"]
        if self.left:
            point = self.left[-1]
            call = self.draw.randint(1, POINTS[self.component][point.partition(",")[0]].calls)
            stack.entry[self.component] = ["proof.faults.failpoints", f"{point},{call}"]
        stack.start(self.component)
        self.armed_at = time.monotonic()


def fail_everywhere(place: Path, seed: int, times: int, pace: Pace = PACE, few: int | None = None) -> Findings:
    """Let clients work in a stack whose components die at every point `times` times; with `few`, at that many."""
    draw = random.Random(seed)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    plans = [_Plan("gateway", times, draw), _Plan("runner", times, draw)]
    if few is not None:
        for plan in plans:
            del plan.left[few:]
    deaths: Counter[str] = Counter()
    try:
        stack.up()  # Its first start is whole: the clients need a key.
        clients = Clients(stack, seed, pace)
        clients.start()
        for plan in plans:
            stack.kill(plan.component)
            plan.arm(stack)
        while any(plan.left and plan.idle < GIVEN_UP for plan in plans):
            time.sleep(0.005)
            for plan in plans:
                _look(stack, plan, deaths)
        clients.stop()
        for plan in plans:
            if stack.processes[plan.component].poll() is not None:
                plan.left = []
                plan.arm(stack)
        stack.ready()
        clients.settle(SETTLE_TIMEOUT_S)
        unreached = [point for plan in plans for point in sorted(set(plan.left))]
        return Findings(deaths, unreached, tally_outcomes(clients))
    finally:
        stack.down()
        fork_server.close()


def _look(stack: Stack, plan: _Plan, deaths: Counter[str]) -> None:
    """Take one that died back; put a point back that no one comes to."""
    if stack.processes[plan.component].poll() is not None:
        if plan.left:
            deaths[f"{plan.component}, {plan.left.pop()}"] += 1
            plan.idle = 0
        plan.arm(stack)
    elif plan.left and time.monotonic() - plan.armed_at > REACH_TIMEOUT_S:
        plan.left.insert(0, plan.left.pop())
        plan.idle += 1
        stack.kill(plan.component)
        plan.arm(stack)


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts the deaths at each point."""
    with tempfile.TemporaryDirectory(prefix="interlock-r4-") as place:
        seen = fail_everywhere(Path(place), seed, rounds or TIMES)
    for point, count in sorted(seen.deaths.items()):
        print(f"  {count} × {point.replace(',', ':', 1).replace(',', ', ')}")
    print(f"{len(seen.deaths)} failpoints, {seen.deaths.total()} deaths; not reached: {seen.unreached or 'none'}")
    print(seen.outcomes.table())
    print("passed" if seen.passed else f"FAILED; repeat with --seed {seed}")
    return seen.passed
