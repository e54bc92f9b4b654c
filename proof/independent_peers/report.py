"""The table, printed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable

from proof.independent_peers.table import FAILS, SKIPPED, Line

WIDTHS = (15, 8, 44, 58, 13)
HEAD = ("CLAUSE", "AGAINST", "PLAYED", "THE OTHER SIDE", "")
SHOWN_CHARS = 400


def printed(lines: Iterable[Line]) -> str:
    """A line for each play, its cells wrapped."""
    rows = [HEAD, *((line.play.clause, line.play.against, line.play.played, line.did[:SHOWN_CHARS], line.verdict)
                    for line in lines)]
    return "\n".join(_row(row) for row in rows)


def _row(cells: tuple[str, ...]) -> str:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS, strict=True)]
    height = max(map(len, wrapped))
    columns = [cell + [""] * (height - len(cell)) for cell in wrapped]
    return "\n".join("  ".join(part.ljust(width) for part, width in zip(row, WIDTHS, strict=True)).rstrip()
                     for row in zip(*columns, strict=True))


def counted(lines: list[Line]) -> str:
    """How many hold."""
    verdicts = Counter(line.verdict for line in lines)
    clauses = len({line.play.clause for line in lines})
    verdict_line = f"{len(lines)} plays of {clauses} clauses: {verdicts[FAILS]} do not hold"
    return verdict_line + (f", {verdicts[SKIPPED]} not played" if verdicts[SKIPPED] else "")
