"""R13: 30 minutes of work: memory grows by 1 MB a minute at the most, descriptors do not. Then SIGTERM (`sigterm`).

Writers, a voter and viewers work all the time. Memory is what gateway and runner each hold (RSS), a straight line laid
through it from the moment that they are warm; descriptors are counted beside it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.processes.stack import Component, Stack
from proof.recovery.graceful_stop import GONE_S, STREAMS, stop_and_resume
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

MINUTES = 30
WARM_SHARE = 0.2
"""The warm-up share of the time: pools, caches and the interpreter's memory reach their size."""
MB_A_MINUTE = 1.0
MORE_DESCRIPTORS = 8
"""This many more at the end than at the start still count as flat, since their number fluctuates."""
LOOK_S = 1.0
SETTLE_TIMEOUT_S = 120.0
PACE = Pace(writers=8, sessions=4, rest_s=1.0)
COMPONENTS: tuple[Component, ...] = ("gateway", "runner")


class Look(NamedTuple):
    """What one component held at one time."""

    at_s: float
    rss_bytes: int
    descriptors: int


class Held(NamedTuple):
    """What a component held over a run, once it was warm."""

    mb_a_minute: float
    first_mb: float
    last_mb: float
    first_descriptors: float
    last_descriptors: float
    """Medians of the first and the last quarter."""


def look(pid: int, at_s: float) -> Look:
    """Look at a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Look(at_s, pages * os.sysconf("SC_PAGE_SIZE"), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


def held(looks: Sequence[Look]) -> Held:
    """Lay a straight line through what was seen after the warm part. Raises StatisticsError for fewer than two."""
    warm = [one for one in looks if one.at_s >= looks[-1].at_s * WARM_SHARE]
    slope = statistics.linear_regression([one.at_s / 60 for one in warm], [one.rss_bytes / 1e6 for one in warm]).slope
    quarter = max(1, len(warm) // 4)
    first, last = warm[:quarter], warm[-quarter:]
    return Held(slope, *(statistics.median(one.rss_bytes for one in part) / 1e6 for part in (first, last)),
                *(statistics.median(one.descriptors for one in part) for part in (first, last)))


def wrong(component: str, what: Held) -> list[str]:
    """Report growth."""
    found: list[str] = []
    if what.mb_a_minute > MB_A_MINUTE:
        found.append(f"the {component} grows by {what.mb_a_minute:.2f} MB a minute, {MB_A_MINUTE:.0f} are allowed")
    if what.last_descriptors > what.first_descriptors + MORE_DESCRIPTORS:
        found.append(f"the {component} had {what.first_descriptors:.0f} descriptors open, and at last "
                     f"{what.last_descriptors:.0f}")
    return found


def soak(place: Path, seed: int, seconds: float, pace: Pace = PACE) -> tuple[dict[Component, list[Look]], OutcomeTally]:
    """Let clients work for this time, and measure both components."""
    stack = Stack(place, CONFIG)
    looks: dict[Component, list[Look]] = {component: [] for component in COMPONENTS}
    try:
        stack.up()
        clients = Clients(stack, seed, pace)
        clients.start()
        began = time.monotonic()
        while (at_s := time.monotonic() - began) < seconds:
            for component in COMPONENTS:
                looks[component].append(look(stack.processes[component].pid, at_s))
            time.sleep(LOOK_S)
        clients.stop()
        clients.settle(SETTLE_TIMEOUT_S)
        return looks, tally_outcomes(clients)
    finally:
        stack.down()


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts minutes."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="interlock-r13-") as place:
        looks, outcomes = soak(Path(place), seed, 60 * (rounds or MINUTES))
    for component in COMPONENTS:
        what = held(looks[component])
        print(f"{f'memory of the {component}':<50} {what.first_mb:.1f} → {what.last_mb:.1f} MB, "
              f"{what.mb_a_minute:+.2f} MB a minute; "
              f"descriptors {what.first_descriptors:.0f} → {what.last_descriptors:.0f}")
        found += wrong(component, what)
    print(outcomes.table())
    with tempfile.TemporaryDirectory(prefix="interlock-r13-") as place:
        seen = stop_and_resume(Path(place), STREAMS)
    print(f"{'SIGTERM with so many streams open':<50} {seen.streams}: gone after {seen.gone_s:.2f} s, {seen.ended} "
          f"ended before; {seen.events} events, over the restart")
    found += seen.wrong
    if seen.gone_s > GONE_S:
        found.append(f"the gateway was gone after {seen.gone_s:.1f} s, {GONE_S:.0f} s are allowed")
    for sentence in found:
        print("  !", sentence)
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    passed = outcomes.passed and not found
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
