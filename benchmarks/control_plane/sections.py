"""The control plane beside its limits: one section a row of the performance table (`python -m benchmarks control`).

A section is a function from its scale to the lines it measured;
a new row is a line of SECTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.control_plane import audit_log, fan_out, ledger, ledger_growth, post_stages
from benchmarks.control_plane.report import Line, Scale
from interlock.app.gateway import tune_collector

Section = Callable[[Scale], list[Line]]

SECTIONS: dict[str, Section] = {
    "3": ledger.transactions,
    "4": post_stages.posts,
    "5": fan_out.fan_out,
    "6": ledger.replay,
    "8": audit_log.speed,
    "11-audit": audit_log.growth,
    "11-commands": ledger_growth.commands,
    "11-sessions": ledger_growth.sessions,
}


def run(scale: Scale, rows: Sequence[str] = ()) -> list[Line]:
    """Measure the named rows, by default all, each for an equal part of the time."""
    tune_collector()  # As a gateway has it.
    chosen = [section for name, section in SECTIONS.items() if not rows or name in rows]
    return [line for section in chosen for line in section(scale._replace(seconds=scale.seconds / len(chosen)))]
