"""Costs of a box in a build: `make -j2` of a generated C project, bare, behind walls, with held programs (H-15, H-16).

All kinds take turns, so that other load of the machine affects all of them alike; ratios are within one turn.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.box.host import Host
from interlock.box.walls import NO_WALLS, Walls
from interlock.ports.process import Decision, HeldProgram, StartedBelow
from interlock.runner.process.process import AgentProcess

FUNCTIONS = 12
"""Of each source file: a compiler works on it for tens of milliseconds, as on a usual one."""
INCLUDES = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
WALLS_LIMIT, HELD_LIMIT = 1.03, 1.15
"""How many times longer a build may take behind walls, and with held programs under one rule."""
PATH = os.environ.get("PATH", os.defpath)


class Build(msgspec.Struct, frozen=True):
    """One kind of box: the median time of a build, and the median ratio to the bare build of the same turn, of its time
    and of its processor time, which is more reliable on a busy host."""

    kind: str
    builds: int
    median_s: float
    ratio: float
    processor_ratio: float
    limit: float
    programs: int = 0
    """Programs that a build started below the allowed one."""


class Spent(NamedTuple):
    """One build."""

    seconds: float
    processor_s: float


class Below:
    """Allows what it is asked about together with all that starts below it, as one rule with `below` does."""

    def __init__(self) -> None:
        self.asked = 0
        self.started = 0

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Allow `make` with its compilers."""
        self.asked += 1
        return "below"

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        """Count what was started."""
        self.started += below.total if below is not None else 0

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        """Fail: it is not to happen here."""
        raise AssertionError(f"another program ran: {ran}")

    async def refused(self, why: str) -> None:
        """Fail: it is not to happen here."""
        raise AssertionError(why)


def missing(host: Host) -> str | None:
    """Why builds cannot be measured here; None if they can."""
    if not all(shutil.which(name) for name in ("make", "cc")):
        return "make or cc is not on PATH"
    return host.why_none or (f"no program can be held: {host.programs}" if host.programs else None)


def write_project(place: Path, sources: int) -> None:
    """Write a C project of this many source files, and a makefile with a rule for each."""
    place.mkdir()
    for number in range(sources):
        functions = "\n".join(
            f"int f{number}_{at}(int x) {{ char text[32]; int sum = {at};\n"
            f"  for (int i = 0; i < x; i++) {{ sum += i * {number + 1}; if (sum % 7 == 3) sum ^= x; }}\n"
            f'  snprintf(text, sizeof text, "%d", sum); return atoi(text) + (int)strlen(text); }}'
            for at in range(FUNCTIONS))
        (place / f"part{number}.c").write_text(f"{INCLUDES}{functions}\n")
    calls = " + ".join(f"f{number}_0(argc)" for number in range(sources))
    declared = "".join(f"int f{number}_0(int);\n" for number in range(sources))
    (place / "main.c").write_text(f"{declared}int main(int argc, char **argv) {{ return argv ? {calls} : 1; }}\n")
    objects = " ".join([*(f"part{number}.o" for number in range(sources)), "main.o"])
    rules = "\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n"
    (place / "Makefile").write_text(f"all: program\nprogram: {objects}\n{rules}")


async def measure(host: Host, place: Path, sources: int, builds: int) -> list[Build]:
    """Build in turns behind each kind of box. The shell starts `make`, which is what one rule allows."""
    project = place / "project"
    write_project(project, sources)
    kind = host.kinds[0]
    (place / "hidden").mkdir()
    hidden = (str(place / "hidden"),)
    boxes = {"no walls": NO_WALLS, f"walls ({kind})": Walls(kind, hidden),
             f"held programs ({kind})": Walls(kind, hidden, programs=True)}
    took: dict[str, list[Spent]] = {name: [] for name in boxes}
    below = Below()
    await _build(project, NO_WALLS, below, "main.o part0.o")  # The compiler is in memory from here on.
    for turn in range(builds):
        names = list(boxes)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            took[name].append(await _build(project, boxes[name], below))
    bare = took["no walls"]
    limits = dict(zip(boxes, (1.0, WALLS_LIMIT, HELD_LIMIT), strict=True))
    return [Build(name, builds, round(statistics.median(one.seconds for one in spent), 2),
                  _ratio([one.seconds for one in spent], [one.seconds for one in bare]),
                  _ratio([one.processor_s for one in spent], [one.processor_s for one in bare]),
                  limits[name], below.started // builds if boxes[name].programs else 0)
            for name, spent in took.items()]


def _ratio(measured: list[float], bare: list[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(measured, bare, strict=True)), 3)


def _processor_s() -> float:
    """Processor time of this process and of all its descendants that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _clean(project: Path) -> None:
    for path in (*project.glob("*.o"), project / "program"):
        path.unlink(missing_ok=True)


async def _build(project: Path, walls: Walls, below: Below, goals: str = "program") -> Spent:
    _clean(project)
    began, before = time.perf_counter(), _processor_s()
    line = f"make -s -j2 {goals} && echo built"
    agent = await AgentProcess.start(["/bin/sh", "-c", line], {"PATH": PATH}, project, walls=walls,
                                     programs=below if walls.programs else None)
    lines = [line async for line in agent.lines()]
    took = time.perf_counter() - began
    await agent.terminate(0)
    if lines != [b"built"]:
        raise AssertionError(f"it was not built: {lines} {agent.stderr_tail()}")
    return Spent(took, _processor_s() - before)


def table(builds: list[Build]) -> list[str]:
    """A Markdown table."""
    lines = ["| make -j2 | builds | median | beside no walls | processor time beside it | limit |",
             "|---|---|---|---|---|---|"]
    for one in builds:
        programs = f", {one.programs} programs each" if one.programs else ""
        kept = "" if one.limit == 1 else f"{one.limit} ×; {'kept' if one.ratio <= one.limit else 'passed'}"
        lines.append(f"| {one.kind} | {one.builds}{programs} | {one.median_s} s | {one.ratio} × | "
                     f"{one.processor_ratio} × | {kept} |")
    return lines
