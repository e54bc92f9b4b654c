"""R2 in a cluster: kill -9 of one of three gateways or three runners, 200 times at random, under 20 writers.

The others continue. After each death of a gateway a session of each runner receives a command, which the gateway that
took the session over acknowledges within 5 s; the dead one is restarted later. At the end everything is compared over
REST.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from proof.processes.cluster import RUNNERS, ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.recovery.kills_under_load import COMMANDS, FULL, KILLS, one_command, turn_is_open
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.ledger_fill import fill
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

TAKEOVER_LIMIT_S = 5.0
SETTLE_TIMEOUT_S = 900.0
"""Twenty writers give more than agents that die get done; all of it must end."""
AWAY_S = 3.0
"""The longest absence of a killed gateway after its sessions are served again."""


class Findings(NamedTuple):
    """What a run counted."""

    kills: Counter[str]
    in_turn: int
    filled: int
    fill_s: float
    takeovers_s: list[float]
    """From each kill of a gateway until a session acknowledged its next command, for each session, sorted."""
    outcomes: OutcomeTally

    def table(self) -> str:
        """Print form."""
        times = self.takeovers_s or [0.0]
        rows = [("kills of a gateway, of a runner", f"{self.kills['gateway']}, {self.kills['runner']}"),
                ("kills inside a turn", self.in_turn),
                ("commands in the ledger before", f"{self.filled} (filled in {self.fill_s:.1f} s)"),
                ("a session's next acknowledgement after a kill", f"p50 {times[len(times) // 2]:.2f} s, p99 "
                 f"{times[int(len(times) * 0.99)]:.2f} s, slowest {times[-1]:.2f} s ({len(times)} times)")]
        return "\n".join([*(f"{name:<50} {value}" for name, value in rows), self.outcomes.table()])


def kill_cluster(stack: ClusterStack, seed: int, kills: int, pace: Pace = FULL, filled: int = 0) -> Findings:
    """Let clients work, and kill one process at random instants."""
    draw = random.Random(seed)
    fill_s = 0.0
    if filled:  # Beside the gateways, as a program that imports does it.
        fill_s = fill(stack.gateways.home(0), one_command(stack, seed), filled)
    else:
        stack.up()
    clients = Clients(stack, seed, pace)
    clients.start()
    killed: Counter[str] = Counter()
    takeovers: list[float] = []
    in_turn = 0
    with ThreadPoolExecutor(RUNNERS) as probes:
        for number in range(kills):
            in_turn += turn_is_open(stack, wait_s=10.0 if number % 2 else 0.0)
            time.sleep(draw.random() * 0.4)
            if draw.random() < 0.5:
                one = draw.randrange(RUNNERS)
                stack.kill_runner(one)
                time.sleep(draw.random() * 0.1)
                stack.start_runner(one)
                killed["runner"] += 1
            else:
                one = draw.randrange(GATEWAYS)
                stack.gateways.kill(one)
                names = [f"k{number}-{session}" for session in range(RUNNERS)]
                takeovers += probes.map(clients.probe, range(RUNNERS), names)
                time.sleep(draw.random() * AWAY_S)
                stack.gateways.start(one)
                killed["gateway"] += 1
            stack.ready()
    clients.stop()
    clients.settle(SETTLE_TIMEOUT_S)
    return Findings(killed, in_turn, filled, fill_s, sorted(takeovers), tally_outcomes(clients))


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts kills."""
    with tempfile.TemporaryDirectory(prefix="interlock-r2-") as place:
        stack = ClusterStack(Path(place), CONFIG)
        try:
            seen = kill_cluster(stack, seed, rounds or KILLS, filled=COMMANDS if rounds is None else 0)
        finally:
            stack.down()
    print(seen.table())
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    late = sum(one > TAKEOVER_LIMIT_S for one in seen.takeovers_s)
    if late:
        print(f"  ! {late} times later than {TAKEOVER_LIMIT_S:.0f} s, which are allowed on two free cores")
    passed = seen.outcomes.passed and not late
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
