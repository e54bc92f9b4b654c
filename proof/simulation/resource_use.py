"""Costs of a world: processor and memory by phase, and of one part by removing all of its kind.

All of it runs in one process, so a runner's processor holds its own side too, and memory the ledger's: what one gateway
needs is below these figures. Another measurement shows the limit of the ledger (`python -m benchmarks cluster`).
"""

from __future__ import annotations

import gc
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NamedTuple, TypeVar

from proof.simulation.time import SimulatedLoop
from proof.simulation.trial import alone
from proof.simulation.world import STANDING_S, Size, World

T = TypeVar("T")
MACHINE_BYTES = 24 * 2**30
SAMPLE = Size(runners=100, sessions=400, viewers=200, gateways=1, steps=1, failures=0.0)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Phase(NamedTuple):
    """One phase: processor seconds, bytes that the process grew by."""

    cpu_s: float
    grown: int


class Phases:
    """Measures each phase of a trial as it is over."""

    def __init__(self) -> None:
        self._cpu_s, self._bytes = time.process_time(), _resident()
        self.of: dict[str, Phase] = {}

    def reached(self, phase: str) -> None:
        """A phase is over."""
        cpu_s, now = time.process_time(), _resident()
        self.of[phase] = Phase(cpu_s - self._cpu_s, now - self._bytes)
        self._cpu_s, self._bytes = cpu_s, now
        print(f"  {phase}: {self.of[phase].cpu_s:,.1f} s of a core, {now / 2**20:,.0f} MiB", flush=True)

    def lines(self, size: Size, counted: Counter[str]) -> list[str]:
        """As they are printed."""
        at = self.of
        return [
            f"idle session: {at['sessions'].grown / size.sessions:,.0f} bytes of the ledger in memory, 0 in a gateway",
            f"a runner attaches: {at['runners'].cpu_s / size.runners * 1000:.2f} ms of a core with its "
            f"{size.sessions / size.runners:.0f} sessions; both ends keep {at['runners'].grown / size.runners:,.0f} "
            "bytes",
            f"a viewer joins: {at['viewers'].cpu_s / size.viewers * 1000:.2f} ms of a core; "
            f"it keeps {at['viewers'].grown / size.viewers:,.0f} bytes",
            f"standing by: {at['standing'].cpu_s / STANDING_S * 1000:.0f} ms of a core a second for all gateways and "
            "runners, where nothing happens",
            f"steps, failures and all: {at['steps'].cpu_s:.1f} s of a core for {counted['commits']:,} commits and "
            f"{counted['events']:,} events of all phases",
        ]


class Need(NamedTuple):
    """What a world of this size needs of one gateway, as a share of what it has."""

    what: str
    share: float


def needs(size: Size, of: dict[str, Phase], parts: Parts) -> list[Need]:
    """The largest first, as the first limit. A gateway has one core and MACHINE_BYTES."""
    each = 1 / size.gateways
    turns_s = size.sessions / 3600
    found = [
        Need("core: standing by for its runners", of["standing"].cpu_s / STANDING_S * each),
        Need("core: a turn an hour in each session", turns_s * parts.command_s * each),
        Need("memory: its runners, and what it knows of others'", of["runners"].grown * each / MACHINE_BYTES),
        Need("memory: every session live", size.sessions * parts.lane * each / MACHINE_BYTES),
        Need("memory: its viewers", of["viewers"].grown * each / MACHINE_BYTES),
    ]
    return sorted(found, key=lambda need: -need.share)


def table(size: Size, found: list[Need], parts: Parts) -> list[str]:
    """As it is printed."""
    lines = [f"{'of one gateway of ' + str(size.gateways):50}  share   reached at"]
    lines += [f"{need.what:50} {need.share:6.2%}   {1 / need.share:,.0f} times this size"
              for need in found if need.share]
    commits_s = size.sessions / 3600 * parts.commits_a_command
    return [*lines, f"first limit: {found[0].what}",
            f"beside them the one ledger takes {commits_s:,.0f} commits a second, at a turn an hour in each session"]


class Parts(NamedTuple):
    """What one of each takes of a gateway: bytes, and seconds of a core."""

    lane: float
    runner: float
    viewer: float
    command_s: float
    events_a_command: float
    commits_a_command: float

    def lines(self) -> list[str]:
        """As they are printed."""
        events_s = self.events_a_command / self.command_s
        live = MACHINE_BYTES / self.lane
        return [
            f"live lane {self.lane:,.0f} bytes; attached runner {self.runner:,.0f}; viewer {self.viewer:,.0f}",
            f"a command with its whole turn: {self.command_s * 1000:.2f} ms of a core, {self.events_a_command:.1f} "
            f"events in {self.commits_a_command:.1f} commits; one core: {1 / self.command_s:,.0f} commands/s, "
            f"{events_s:,.0f} events/s",
            f"24 GiB hold {live:,.0f} live lanes, or {MACHINE_BYTES / self.runner:,.0f} runners, "
            f"or {MACHINE_BYTES / self.viewer:,.0f} viewers",
        ]


def parts(seed: int) -> Parts:
    """Measure them on one gateway without failures: processor first, memory in a second run, which is slower."""
    command_s, events, commits = _alone(_processor, seed)
    tracemalloc.start()
    try:
        lane, runner, viewer = _alone(_memory, seed)
    finally:
        tracemalloc.stop()
    return Parts(lane, runner, viewer, command_s, events, commits)


def _alone(measure: Callable[[SimulatedLoop, int], Coroutine[None, None, T]], seed: int) -> T:
    loop = SimulatedLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    with alone(loop):
        return loop.run_until_complete(measure(loop, seed))


async def _busy(world: World) -> None:
    """One command in each session, to its end."""
    for number in range(world.size.sessions):
        world.clients.begin(world.clients.execute(world.tenant_of(number % world.size.runners), f"ses-{number:07d}"))
    await world.calm()


async def _processor(loop: SimulatedLoop, seed: int) -> tuple[float, float, float]:
    world = World(loop, seed, SAMPLE)
    await world.open()
    before_s, before = time.process_time(), Counter(world.store.tallies)
    await _busy(world)
    spent_s = time.process_time() - before_s
    made = world.store.tallies - before
    await world.close()
    return spent_s / SAMPLE.sessions, made["events"] / SAMPLE.sessions, made["commits"] / SAMPLE.sessions


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _memory(loop: SimulatedLoop, seed: int) -> tuple[float, float, float]:
    world = World(loop, seed, SAMPLE)
    await world.open()
    await _busy(world)
    gateway, before = world.gateways[0], _traced()
    lanes = len(gateway.engine.lanes.live())
    await world.everybody_leaves("viewers")
    without_viewers = _traced()
    await gateway.place.start(gateway.engine.lanes.let_go())
    await world.everybody_leaves("runners")
    without = _traced()
    await world.close()
    links = await _links(loop, seed)
    return (without_viewers - without - links * SAMPLE.runners) / lanes, links, (
        before - without_viewers) / SAMPLE.viewers


async def _links(loop: SimulatedLoop, seed: int) -> float:
    """What an attached runner takes that has nothing to do."""
    world = World(loop, seed, SAMPLE._replace(viewers=0))
    await world.open()
    before = _traced()
    await world.everybody_leaves("runners")
    after = _traced()
    await world.close()
    return (before - after) / SAMPLE.runners
