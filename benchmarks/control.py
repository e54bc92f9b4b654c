"""The control plane beside its limits: one section a row of the performance table (`python -m benchmarks control`).

A section is a function from about how many seconds it may take to the lines it measured;
a new row is a line of SECTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import audit
from benchmarks.control_report import Line

Section = Callable[[float], list[Line]]

SECTIONS: dict[str, Section] = {
    "8": audit.speed,
    "11-audit": audit.growth,
}


def run(seconds: float, rows: Sequence[str] = ()) -> list[Line]:
    """Measure the rows that are named, all where none is, each for a fair part of `seconds`."""
    chosen = [section for name, section in SECTIONS.items() if not rows or name in rows]
    return [line for section in chosen for line in section(seconds / len(chosen))]
