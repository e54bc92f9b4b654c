"""R9 in a cluster: 500 timeouts of 1 to 5 s ring once each and never early, while gateways die and their clocks jump.

The agent records when its turn began and when its cancel came, on the machine's monotonic clock. If no gateway died
meanwhile, that is at most 250 ms late at the 99th percentile; if one did, another one has taken its sessions over
within 5 s, and rings then.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from interlock.command.machine import TERMINAL
from proof.processes.cluster import ClusterStack, GatewayKiller
from proof.processes.gateways import GATEWAYS
from proof.processes.skewed_gateway import JUMP_NAME
from proof.sessions.timers import HOUR_MS, LATE_MS, LONGEST_MS, SHORTEST_MS, TIMERS
from proof.workload import cancellable_agent
from proof.workload.command_retries import execute, until_state

LANES = 30
TAKEOVER_MS = 5_000
BETWEEN_KILLS_S = (8.0, 16.0)
"""Long enough that most timers meet no death."""
BETWEEN_JUMPS_S = 2.0
CONFIG = f"""
[agents.scripted]
adapter = "dps"
command = "{sys.executable}"
args = ["-I", "-S", "{cancellable_agent.__file__}"]

[rates]
principal_a_minute = 0
tenant_a_minute = 0
"""


class Timed(NamedTuple):
    """What the timers showed."""

    rings: Counter[int]
    """How often a timer rang, and of how many that is so."""
    early: int
    calm_ms: list[float]
    """How late those rang beside which no gateway died, sorted."""
    disturbed_ms: list[float]
    """The same for the others."""
    states: Counter[str]
    kills: int
    jumps: int
    wrong: list[str]
    audit: tuple[bool, int, str]


class _Jumps(threading.Thread):
    """Sets the clock of a gateway that is drawn an hour forward or back, or right again, now and then."""

    def __init__(self, stack: ClusterStack, draw: random.Random) -> None:
        super().__init__(daemon=True)
        self._stack = stack
        self._draw = draw
        self.ended = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self.ended.wait(self._draw.random() * BETWEEN_JUMPS_S):
            home = self._stack.gateways.home(self._draw.randrange(GATEWAYS))
            (home / JUMP_NAME).write_text(str(self._draw.choice((-HOUR_MS, 0, HOUR_MS))))
            self.count += 1


def timers(stack: ClusterStack, seed: int, count: int) -> Timed:
    """Run this many timers on a running stack."""
    draw = random.Random(seed)
    timeouts = {f"t{number}": draw.randint(SHORTEST_MS, LONGEST_MS) for number in range(count)}
    commands: dict[str, str] = {}
    states: Counter[str] = Counter()
    wrong: list[str] = []

    def run_lane(lane: int) -> None:
        try:
            for name in list(timeouts)[lane::LANES]:
                commands[name] = execute(stack, lane, name, f"proof-timer-{seed}-{name}", timeouts[name])
                states[until_state(stack, commands[name], TERMINAL.__contains__)] += 1
        except (AssertionError, TimeoutError) as stands:
            wrong.append(f"lane {lane}: {stands}")

    killer = GatewayKiller(stack, random.Random(seed + 1), BETWEEN_KILLS_S)
    jumps = _Jumps(stack, random.Random(seed + 2))
    lanes = [threading.Thread(target=run_lane, args=(lane,)) for lane in range(min(LANES, count))]
    for thread in (killer, jumps, *lanes):
        thread.start()
    for thread in lanes:
        thread.join()
    jumps.ended.set()
    jumps.join()
    killer.stop()
    for name, command in commands.items():
        ends = [event["state"] for event in stack.pages(f"/v1/commands/{command}/status", "events")
                if event["event"] == "state" and event.get("state") in TERMINAL]
        if ends != ["timed_out"]:
            wrong.append(f"{name} ended as {ends}")
    stack.down()
    begun, rang = _noted(stack.workspace / "begun.txt"), _noted(stack.workspace / "rang.txt")
    wrong += [f"{name} began {len(at)} times" for name, at in begun.items() if len(at) != 1]
    calm, disturbed = list[float](), list[float]()
    for name, timeout_ms in timeouts.items():
        if name in begun and name in rang:
            late_ms = rang[name][0] - begun[name][0] - timeout_ms
            # A gateway that died before the start may have held it up; what is behind the ring cannot have.
            beside = any(begun[name][0] - TAKEOVER_MS < at * 1000 < rang[name][0] for at in killer.deaths)
            (disturbed if beside else calm).append(late_ms)
    return Timed(Counter(len(rang[name]) if name in rang else 0 for name in timeouts),
                 sum(one < 0 for one in (*calm, *disturbed)), sorted(calm), sorted(disturbed), states,
                 len(killer.deaths), jumps.count, wrong, stack.audit_ok())


def _noted(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for line in path.read_text().splitlines():
        name, at_ms = line.split()
        found[name].append(float(at_ms))
    return found


def _at(sorted_ms: list[float], part: float) -> float:
    return sorted_ms[min(len(sorted_ms) - 1, int(len(sorted_ms) * part))] if sorted_ms else 0.0


def run(seed: int, rounds: int | None) -> bool:
    """Time them and print how late they were; `rounds` counts timers."""
    with tempfile.TemporaryDirectory(prefix="interlock-r9-") as place:
        stack = ClusterStack(Path(place), CONFIG, module="proof.processes.skewed_gateway")
        try:
            stack.up()
            seen = timers(stack, seed, rounds or TIMERS)
        finally:
            stack.down()
    print(f"{sum(seen.rings.values())} timers under {seen.kills} kills of a gateway and {seen.jumps} jumps of its "
          f"clock: rang so often {dict(sorted(seen.rings.items()))}, {seen.early} early")
    for what, late in (("no gateway died meanwhile", seen.calm_ms), ("one died", seen.disturbed_ms)):
        print(f"late where {what:<26} p50 {_at(late, 0.5):.0f} ms, p99 {_at(late, 0.99):.0f} ms, latest "
              f"{_at(late, 1):.0f} ms ({len(late)} timers)")
    print(f"they ended as {dict(seen.states)}; {seen.audit[2]}; load of the machine {os.getloadavg()[0]:.1f}")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    right = not seen.early and not seen.wrong and set(seen.rings) == {1} and seen.audit[0]
    in_time = _at(seen.calm_ms, 0.99) <= LATE_MS and _at(seen.disturbed_ms, 1) <= TAKEOVER_MS
    if not in_time:
        print(f"  ! later than {LATE_MS} ms, or {TAKEOVER_MS} ms beside a death, which are allowed on two free cores")
    print("passed" if right and in_time else f"FAILED; repeat with --seed {seed}")
    return right and in_time
