"""R2: kill -9 of gateway or runner 200 times at random under 20 writers and live turns, beside 100,000 old commands.

No acknowledged command is lost or doubled, the invariants of the design hold, and gateway and runner are ready again
within 2 s of each start, as whole new processes.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx2

from proof.processes import process_clock
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Component, Stack
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.ledger_fill import fill
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

KILLS = 200
COMMANDS = 100_000
FEW_COMMANDS = 600
"""They leave more records than may be unsigned."""
READY_LIMIT_S = 2.0
SETTLE_TIMEOUT_S = 180.0
FULL = Pace()


class Findings(NamedTuple):
    """What a run counted."""

    kills: Counter[Component]
    in_turn: int
    filled: int
    fill_s: float
    ready_s: dict[Component, list[float]]
    start_cpu_s: dict[Component, list[float]]
    """Processor time of a component from its start until it was ready: what a wait is without others on the machine."""
    held_up_s: dict[Component, list[float]]
    """The time that a component was runnable while others had the processor."""
    outcomes: OutcomeTally

    @property
    def slowest_s(self) -> float:
        """The longest wait until both were ready again, without the time that the component waited for a core."""
        return max((ready - held_up for component, times in self.ready_s.items()
                    for ready, held_up in zip(times, self.held_up_s[component], strict=True)), default=0.0)

    def table(self) -> str:
        """Print form."""
        rows = [f"{f'kills of the {component}':<50} {self.kills[component]}" for component in ("gateway", "runner")]
        rows.append(f"{'kills inside a turn':<50} {self.in_turn}")
        rows.append(f"{'commands in the ledger before':<50} {self.filled} (filled in {self.fill_s:.1f} s)")
        rows += [f"{f'ready after a kill of the {component}, median, slowest':<50} {statistics.median(times):.2f} s, "
                 f"{max(times):.2f} s" for component, times in self.ready_s.items() if times]
        rows += [f"{f'of that the {component} waited for a core, median':<50} {statistics.median(times):.2f} s"
                 for component, times in self.held_up_s.items() if times]
        rows += [f"{f'processor time of the {component} until then, median':<50} {statistics.median(times):.2f} s"
                 for component, times in self.start_cpu_s.items() if times]
        return "\n".join([*rows, self.outcomes.table()])


def kill_many(stack: Stack, seed: int, kills: int, pace: Pace = FULL, filled: int = 0) -> Findings:
    """Let clients work, and kill one side at random instants."""
    draw = random.Random(seed)
    fill_s = prepare(stack, seed, filled) if filled else 0.0
    stack.up()
    clients = Clients(stack, seed, pace)
    clients.start()
    killed: Counter[Component] = Counter()
    in_turn = 0
    ready_s: dict[Component, list[float]] = {"gateway": [], "runner": []}
    start_cpu_s: dict[Component, list[float]] = {"gateway": [], "runner": []}
    held_up_s: dict[Component, list[float]] = {"gateway": [], "runner": []}
    for number in range(kills):
        component: Component = draw.choice(("gateway", "runner"))
        # Every other instant is drawn from the whole time, the others from the time in which a turn is open.
        in_turn += turn_is_open(stack, wait_s=10.0 if number % 2 else 0.0)
        time.sleep(draw.random() * 0.4)
        stack.kill(component)
        killed[component] += 1
        time.sleep(draw.random() * 0.1)
        stack.start(component)
        ready_s[component].append(stack.ready())
        start_cpu_s[component].append(process_clock.cpu_s(stack.processes[component].pid))
        held_up_s[component].append(_held_up_s(stack.processes[component].pid))
    clients.stop()
    clients.settle(SETTLE_TIMEOUT_S)
    return Findings(killed, in_turn, filled, fill_s, ready_s, start_cpu_s, held_up_s, tally_outcomes(clients))


def prepare(stack: Stack, seed: int, filled: int) -> float:
    """Let one command run, and copy what it left so often."""
    command_id = one_command(stack, seed)
    stack.down()
    return fill(stack.state, command_id, filled)


def one_command(stack: Stack, seed: int) -> str:
    """Start the stack, and let one command run in it that leaves no trace in what is compared at the end."""
    stack.up()
    clients = Clients(stack, seed + 1, Pace(writers=1, sessions=1, rest_s=60.0))
    clients.start()
    stack.until(lambda: bool(clients.commands()))
    clients.stop()
    clients.settle(SETTLE_TIMEOUT_S)
    ((_, command_id, _),) = clients.commands()
    for note in (*clients.written, clients.probes, clients.votes, clients.shown):
        note.path.unlink()
    (stack.workspace / "ran.txt").unlink(missing_ok=True)
    return command_id


def turn_is_open(stack: Stack, wait_s: float) -> bool:
    """Whether a turn is running, or starts within this time."""
    deadline = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(httpx2.TransportError, KeyError):
            if stack.get("/v1/commands", state="running", limit=1)["items"]:
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)


def _held_up_s(pid: int) -> float:
    """How long the main thread of a process waited for a processor; 0 if the system does not count it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts kills."""
    with tempfile.TemporaryDirectory(prefix="interlock-r2-") as place:
        stack = Stack(Path(place), CONFIG, on_file=True)
        try:
            seen = kill_many(stack, seed, rounds or KILLS, filled=COMMANDS)
        finally:
            stack.down()
    print(seen.table())
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    passed = seen.outcomes.passed and seen.slowest_s <= READY_LIMIT_S
    if seen.slowest_s > READY_LIMIT_S:
        print(f"  ! ready again after {seen.slowest_s:.2f} s without the waits for a core; {READY_LIMIT_S:.0f} s are "
              "allowed")
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed


def quick(place: Path, seed: int, kills: int) -> Findings:
    """The same, small, with components that start fast and a ledger in which little is."""
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    try:
        return kill_many(stack, seed, kills, Pace(writers=4, sessions=2, rest_s=0.3), filled=FEW_COMMANDS)
    finally:
        stack.down()
        fork_server.close()
