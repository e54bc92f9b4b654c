"""Costs of a box: at an agent's start, from the order to its first line, beside a start without walls (H-15); in a
build; over staged changes; in memory."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from benchmarks.box import build, staged_changes
from interlock.box.host import survey
from interlock.box.walls import Kind, Walls
from interlock.runner.process.process import AgentProcess

LIMIT_MS = 30.0
"""How much later a boxed agent may be there."""
LEAST_STARTS = 10


class Row(msgspec.Struct, frozen=True):
    """One kind of wall: starts, and milliseconds until the first line of a program that does nothing else."""

    kind: Kind
    starts: int
    median_ms: float
    worst_ms: float
    added_ms: float
    """Median, beside the start without walls."""


class Report(msgspec.Struct, frozen=True):
    """Every kind that this host has, and why the others are missing."""

    rows: list[Row]
    missing: dict[str, str]
    builds: list[build.Build] = []
    stage: staged_changes.Stage | None = None
    memory: list[staged_changes.Memory] = []


class Counts(msgspec.Struct, frozen=True):
    """Source files of the project that is built, builds of each kind, files of the large workspace."""

    sources: int = 200
    builds: int = 5
    files: int = 100_000


async def _start_ms(walls: Walls, place: Path) -> float:
    began = time.perf_counter()
    agent = await AgentProcess.start(["/bin/echo", "here"], {"PATH": os.defpath}, place, walls=walls)
    await anext(agent.lines())
    took = (time.perf_counter() - began) * 1000
    await agent.terminate(0)
    return took


async def _measure(seconds: float, counts: Counts, place: Path) -> Report:
    host = survey()
    kinds: list[Kind] = ["none", *host.kinds]
    (place / "state").mkdir()
    (place / "work").mkdir()
    took: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    deadline = time.monotonic() + seconds
    # In turns, so that what else the machine does falls on all of them alike.
    while time.monotonic() < deadline or len(took["none"]) < LEAST_STARTS:
        for kind in kinds:
            took[kind].append(await _start_ms(Walls(kind, (str(place / "state"),)), place / "work"))
    bare = statistics.median(took["none"])
    rows = [Row(kind, len(found), round(statistics.median(found), 1), round(max(found), 1),
                round(statistics.median(found) - bare, 1)) for kind, found in took.items()]
    missing = dict(host.missing)
    builds: list[build.Build] = []
    if (why := build.missing(host)) is not None:
        missing["make -j2"] = why
    else:
        builds = await build.measure(host, place, counts.sources, counts.builds)
    stage = None if host.no_overlay else await staged_changes.measure(place, counts.files)
    if host.no_overlay:
        missing["staged changes"] = host.no_overlay
    return Report(rows, missing, builds, stage, await staged_changes.memory(host, place / "state"))


def run(seconds: float, counts: Counts) -> Report:
    """Start agents for this time, behind each wall in turn; then measure builds, staged changes and memory."""
    with tempfile.TemporaryDirectory(prefix="interlock-box-") as place:
        return asyncio.run(_measure(seconds, counts, Path(place).resolve()))


def table(report: Report) -> str:
    """A Markdown table."""
    lines = ["| walls | starts | median | worst | added |", "|---|---|---|---|---|"]
    lines += [f"| {row.kind} | {row.starts} | {row.median_ms} ms | {row.worst_ms} ms | {row.added_ms:+} ms |"
              for row in report.rows]
    above = [row.kind for row in report.rows if row.added_ms > LIMIT_MS]
    lines += [f"limit: +{LIMIT_MS:g} ms" + (f"; passed by {', '.join(above)}" if above else "; kept"), ""]
    lines += [*build.table(report.builds), ""] if report.builds else []
    lines += [*staged_changes.table(report.stage, report.memory), ""]
    return "\n".join([*lines, *(f"not measured: {kind}: {why}" for kind, why in report.missing.items())]).rstrip()
