"""Fit a table to a terminal: choose columns, shorten texts, and write long ids as unique beginnings (Y-8). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

WHOLE_ID = re.compile(r"[a-z]{3}_[0-9A-Z]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A prefix and a ULID, or a UUID."""
GAP = 2
"""Cells between two columns."""
TEXT_LEAST, TEXT_USUAL = 20, 32
"""Below the second width of a text, columns of `extra` are dropped; below the first, columns of `drop`."""
CELL_LEAST = 8
"""Minimum width of the other columns when none is left to drop; below it they are dropped too."""
ID_CHARS = 8
"""Minimum characters behind the prefix of an abbreviated id."""


class Layout(NamedTuple):
    """How a table fits a narrow terminal. Columns are named by their headings.

    `text` names the columns that are shortened first, the widest before the others. `extra` and `drop` name the columns
    that are dropped, in order; a column of `extra` that is empty in every row is always dropped. The first column
    identifies the row and is always shown.
    """

    text: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text_least: int = TEXT_LEAST
    text_usual: int = TEXT_USUAL
    shorten: Callable[[str, int], str] | None = None
    """Shortens a text to a number of cells; the end is cut if it is None."""


PLAIN = Layout()


def fitted(rows: Sequence[Sequence[str]], header: Sequence[str], width: int, layout: Layout = PLAIN
           ) -> list[list[str]]:
    """Return the header and the rows with the columns and cells that fit `width` cells.

    A row is wider than `width` only if its first column, an id that is not shortened, alone is.
    """
    table = _Table(rows, header, layout)
    table.leave_out(*table.empty())
    if table.least_width(layout.text_usual) > width:
        table.abbreviate_ids()
    for leaving, least in ((layout.extra, layout.text_usual), (layout.drop, layout.text_least)):
        for heading in leaving:
            if table.least_width(least) > width:
                table.leave_out(heading)
    while table.least_width(CELL_LEAST, everywhere=True) > width and len(table.columns) > 1:
        table.leave_out(table.columns[-1].heading)
    table.shorten(width)
    return table.lines()


def cut_end(text: str, width: int) -> str:
    """Shorten a text to `width` cells, the last of them `…`."""
    from rich.cells import set_cell_size

    return text if _cells(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """Shorten a text to `width` cells: its beginning and its end identify it better than its middle."""
    if _cells(text) <= width:
        return text
    head_cells = max((width - 1) * 3 // 5, 1)
    head = _beginning(text, head_cells)
    tail = _beginning(text[::-1], max(width - 1 - _cells(head), 0))[::-1]
    return f"{head}…{tail}"


def unique_beginnings(ids: Sequence[str]) -> dict[str, str]:
    """Map each id to its shortest beginning that no other one of `ids` has, of at least `ID_CHARS` characters behind a
    prefix such as `cmd_`."""
    every = set(ids)
    more = 0
    while True:
        short = {one: one[: one.find("_") + 1 + ID_CHARS + more] for one in every}
        if len(set(short.values())) == len(every):
            return short
        more += 1


class _Column:
    def __init__(self, heading: str, cells: list[str]) -> None:
        self.heading, self.cells = heading, cells
        self.has_ids = any(map(WHOLE_ID.fullmatch, cells))
        self.width = 0
        self.measure()

    def measure(self) -> None:
        self.width = max(map(_cells, (self.heading, *self.cells)))


class _Table:
    def __init__(self, rows: Sequence[Sequence[str]], header: Sequence[str], layout: Layout) -> None:
        self.columns = [_Column(heading, [row[at] for row in rows]) for at, heading in enumerate(header)]
        self._layout = layout

    def leave_out(self, *headings: str) -> None:
        self.columns = [one for one in self.columns if one.heading not in headings]

    def empty(self) -> list[str]:
        """Return the headings of the columns that may be dropped because no row has a value."""
        return [one.heading for one in self.columns
                if one.heading in self._layout.extra and not set(one.cells) - {"", "-"}]

    def least_width(self, least: int, *, everywhere: bool = False) -> int:
        """Return the width of the table in cells if its texts, or all columns that may be shortened, have `least`
        cells."""
        widths = [self._least(one, least) if everywhere or one.heading in self._layout.text else one.width
                  for one in self.columns]
        return sum(widths) + GAP * (len(widths) - 1)

    def abbreviate_ids(self) -> None:
        """Write ids as unique beginnings, which every verb accepts."""
        for column in self.columns:
            if column.has_ids:
                short = unique_beginnings([cell for cell in column.cells if WHOLE_ID.fullmatch(cell)])
                column.cells = [short.get(cell, cell) for cell in column.cells]
                column.measure()

    def shorten(self, width: int) -> None:
        """Shorten the texts, then the other columns, the widest first, until the table fits."""
        texts = [one for one in self.columns if one.heading in self._layout.text]
        others = [one for one in self.columns if one not in texts]
        for columns, least in ((texts, self._layout.text_least), (others, CELL_LEAST), (texts, CELL_LEAST)):
            self._shorten(columns, least, width)
        cut = self._layout.shorten or cut_end
        for column in self.columns:
            way = cut if column in texts else cut_end
            column.heading = cut_end(column.heading, column.width)
            column.cells = [way(cell, column.width) for cell in column.cells]

    def _shorten(self, columns: Sequence[_Column], least: int, width: int) -> None:
        over = sum(one.width for one in self.columns) + GAP * (len(self.columns) - 1) - width
        while over > 0:
            widest = max(columns, key=lambda one: one.width - self._least(one, least), default=None)
            if widest is None or widest.width <= self._least(widest, least):
                return
            widest.width -= 1
            over -= 1

    def lines(self) -> list[list[str]]:
        """Return the header and the rows."""
        cells = [[one.heading, *one.cells] for one in self.columns]
        return [list(row) for row in zip(*cells, strict=True)]

    def _least(self, column: _Column, least: int) -> int:
        named = column.has_ids or (column is self.columns[0] and column.heading not in self._layout.text)
        return column.width if named else min(column.width, least)


def _beginning(text: str, width: int) -> str:
    """Return the longest prefix of a text that takes at most `width` cells."""
    used = 0
    for at, character in enumerate(text):
        used += _cells(character)
        if used > width:
            return text[:at]
    return text


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
