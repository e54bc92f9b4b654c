"""Costs of staged changes: an overlay's start on a small and a large workspace, the difference, a landing (H-17).

Also the memory that a box takes beside a start without one.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec

from interlock.box.host import Host
from interlock.box.walls import NO_WALLS, Walls
from interlock.runner.process.process import AgentProcess
from interlock.runner.staged.store import Staged

SMALL_TREE = 100
FILES_OF_A_DIRECTORY = 500
STARTS = 15
ADDED_LIMIT_MS = 60.0
"""How much later an agent may be there with an overlay than without any walls."""
SIZE_LIMIT_MS = 10.0
"""How much later on a large workspace than on a small one: noise, since a start does not depend on the size."""
CHANGES = 1_000
DIFFERENCE_LIMIT_S = 1.0


class Stage(msgspec.Struct, frozen=True):
    """Starts in milliseconds (the fastest of `starts`, so that other work counts least), and what the difference and
    the landing of `changes` took in seconds."""

    files: int
    starts: int
    bare_ms: float
    small_ms: float
    large_ms: float
    changes: int
    difference_s: float
    landing_s: float


class Memory(msgspec.Struct, frozen=True):
    """Memory of the processes around an agent (PSS), in KiB."""

    kind: str
    kib: int


def write_tree(place: Path, files: int) -> None:
    """Write a workspace of this many small files."""
    place.mkdir()
    for number in range(files):
        directory = place / str(number // FILES_OF_A_DIRECTORY)
        if number % FILES_OF_A_DIRECTORY == 0:
            directory.mkdir()
        (directory / str(number)).write_bytes(b"file %d\n" % number)


async def measure(place: Path, files: int) -> Stage:
    """Start in turns without walls, over a small workspace and over one of `files`; then change, compare and land."""
    small, large = place / "small", place / "large"
    await asyncio.to_thread(write_tree, small, SMALL_TREE)
    await asyncio.to_thread(write_tree, large, files)
    overlays = {name: Staged(place / "staged", name, str(workspace)) for name, workspace in (
        ("small", small), ("large", large))}
    took: dict[str, list[float]] = {"bare": [], "small": [], "large": []}
    for _ in range(STARTS):
        took["bare"].append(await _start_ms(large, None))
        for name, staged in overlays.items():
            took[name].append(await _start_ms(staged.workspace, staged))
    staged = overlays["large"]
    changes = min(CHANGES, files)
    lines = await _ran(staged, f'set -- $(seq 0 {files // changes} {files - 1}); for n; do [ $# -ge 1 ] && '
                       f'echo changed > $((n / {FILES_OF_A_DIRECTORY}))/$n; done; echo done')
    if lines != [b"done"]:
        raise AssertionError(f"the files were not changed: {lines}")
    began = time.perf_counter()
    found = await asyncio.to_thread(lambda: staged.look(staged.moment()))
    difference_s = time.perf_counter() - began
    began = time.perf_counter()
    landed = await asyncio.to_thread(lambda: staged.land(found.changes))
    landing_s = time.perf_counter() - began
    if landed.refused or len(landed.done) < changes:
        raise AssertionError(f"{len(landed.done)} of {changes} landed: {landed.refused[:3]}")
    bare_ms, small_ms, large_ms = (round(min(took[name]), 1) for name in ("bare", "small", "large"))
    return Stage(files, STARTS, bare_ms, small_ms, large_ms, len(found.changes), round(difference_s, 3),
                 round(landing_s, 3))


def _behind(staged: Staged | None) -> Walls:
    if staged is None:
        return NO_WALLS
    return Walls("namespace", staged=(str(staged.workspace), str(staged.upper), str(staged.work)))


async def _start_ms(workspace: Path, staged: Staged | None) -> float:
    began = time.perf_counter()
    if staged is not None:
        await asyncio.to_thread(staged.prepare, staged.moment())
    agent = await AgentProcess.start(["/bin/echo", "here"], {"PATH": os.defpath}, workspace, walls=_behind(staged))
    await anext(agent.lines())
    took = (time.perf_counter() - began) * 1000
    await agent.terminate(0)
    return took


async def _ran(staged: Staged, line: str) -> list[bytes]:
    await asyncio.to_thread(staged.prepare, staged.moment())
    agent = await AgentProcess.start(["/bin/sh", "-ec", line], {"PATH": os.defpath}, staged.workspace,
                                     walls=_behind(staged))
    lines = [one async for one in agent.lines()]
    await agent.terminate(0)
    return lines


async def memory(host: Host, place: Path) -> list[Memory]:
    """Measure the overhead of an idle agent in each kind of box."""
    boxes = {"no walls": NO_WALLS, **{kind: Walls(kind, (str(place),)) for kind in host.kinds}}
    if host.programs is None:
        boxes[f"{host.kinds[0]}, held programs"] = Walls(host.kinds[0], (str(place),), programs=True)
    found: list[Memory] = []
    for name, walls in boxes.items():
        agent = await AgentProcess.start(["/bin/cat"], {"PATH": os.defpath}, place.parent, walls=walls)
        found.append(Memory(name, _around()))
        await agent.terminate(0)
    return found


def _around() -> int:
    """PSS of this process's descendants but the agent itself, which is `cat`."""
    return sum(_pss_kib(pid) for pid in _children(os.getpid()) if _name(pid) != "cat")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _pss_kib(pid: int) -> int:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def table(stage: Stage | None, memories: list[Memory]) -> list[str]:
    """Markdown tables."""
    lines: list[str] = []
    if stage is not None:
        added, size = stage.small_ms - stage.bare_ms, stage.large_ms - stage.small_ms
        lines += [
            "| staged changes | | limit |", "|---|---|---|",
            _row(f"start over {SMALL_TREE} files, beside no walls ({stage.bare_ms} ms)", f"{added:+.1f} ms", added,
                 ADDED_LIMIT_MS, "ms"),
            _row(f"start over {stage.files:,} files, beside {SMALL_TREE}", f"{size:+.1f} ms", size, SIZE_LIMIT_MS,
                 "ms"),
            _row(f"difference after {stage.changes:,} changes", f"{stage.difference_s} s", stage.difference_s,
                 DIFFERENCE_LIMIT_S, "s"),
            f"| landing of {stage.changes:,} changes | {stage.landing_s} s | |", ""]
    lines += ["| memory around an idle agent | PSS | added |", "|---|---|---|"]
    bare = memories[0].kib
    return [*lines, *(f"| {one.kind} | {one.kib:,} KiB | {one.kib - bare:+,} KiB |" for one in memories)]


def _row(name: str, value: str, measured: float, limit: float, unit: str) -> str:
    return f"| {name} | {value} | {limit:g} {unit}; {'kept' if measured <= limit else 'passed'} |"
