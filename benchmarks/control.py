"""The control plane beside its limits: one section a row of the performance table (`python -m benchmarks control`).

A section is a function from its scale to the lines it measured;
a new row is a line of SECTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import audit, fanning, growth, ledger, stages
from benchmarks.control_report import Line, Scale
from interlock.app.gateway import tune_collector

Section = Callable[[Scale], list[Line]]

SECTIONS: dict[str, Section] = {
    "3": ledger.transactions,
    "4": stages.posts,
    "5": fanning.fan_out,
    "6": ledger.replay,
    "8": audit.speed,
    "11-audit": audit.growth,
    "11-commands": growth.commands,
    "11-sessions": growth.sessions,
}


def run(scale: Scale, rows: Sequence[str] = ()) -> list[Line]:
    """Measure the rows that are named, all where none is, each for a fair part of the time."""
    tune_collector()  # As a gateway has it.
    chosen = [section for name, section in SECTIONS.items() if not rows or name in rows]
    return [line for section in chosen for line in section(scale._replace(seconds=scale.seconds / len(chosen)))]
