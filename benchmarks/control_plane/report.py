"""Report of the control plane's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """The limits of a section: its approximate seconds, and the most rows if something grows."""

    seconds: float
    most: int = 1_000_000


class Line(NamedTuple):
    """One figure of a row of the performance table: its value, and its ratio to the row's limit."""

    row: str
    what: str
    value: float
    unit: str
    ratio: float
    wanted: float | None = None
    at_most: bool = False
    """Whether `wanted` is an upper bound of the ratio."""

    @property
    def met(self) -> bool | None:
        """Whether the ratio is within its limit; None without a limit."""
        if self.wanted is None:
            return None
        return self.ratio <= self.wanted if self.at_most else self.ratio >= self.wanted


def table(lines: Sequence[Line]) -> str:
    """Write the figures as a Markdown table."""
    rows = [f"| {line.row} | {line.what} | {line.value:,.0f} {line.unit} | {line.ratio:.2f} | {_wanted(line)} |"
            for line in lines]
    return "\n".join(["| row | what | measured | ratio | wanted |", "|---|---|---|---|---|", *rows])


def _wanted(line: Line) -> str:
    if line.wanted is None:
        return ""
    return f"{'≤' if line.at_most else '≥'} {line.wanted}: {'met' if line.met else 'not met'}"
