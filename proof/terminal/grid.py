"""The content of a terminal after a program has written to it: cells with colours, as text and as a picture. Pure.

It supports what Interlock's output, shells and editors use: colours, carriage returns, moves of the cursor, erasing.
Nothing scrolls away: rows grow downwards.
"""

from __future__ import annotations

import re
from html import escape
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len

CELL_WIDTH, ROW_HEIGHT, MARGIN = 8.4, 18, 12
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
BACKGROUND, FOREGROUND = "#10151c", "#d5dae1"
COLOURS = ("#4a5361", "#f2777a", "#99cc99", "#ffcc66", "#6699cc", "#cc99cc", "#66cccc", "#d5dae1",
           "#747e8c", "#ff9a9c", "#b6e3b6", "#ffdf99", "#8db8e6", "#e0b8e0", "#8de0e0", "#ffffff")
NO_BREAK = "\u00a0"
"""A space that no renderer collapses."""
MAX_ROWS = 5_000
TAB = 8
_TOKEN = re.compile(
    r"\x1b\[([?>=]?)([\d;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78cDEHM]|\x1b.|[\s\S]")


class CellStyle(NamedTuple):
    """How a cell is drawn."""

    colour: str = FOREGROUND
    background: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False


class GridCell(NamedTuple):
    """A character and its style; "" is right of a wide one."""

    character: str
    style: CellStyle


BLANK = GridCell(" ", CellStyle())


class TerminalGrid:
    """A terminal of some width."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._rows: list[list[GridCell]] = [[]]
        self._row = self._column = 0
        self._style = CellStyle()

    def feed(self, text: str) -> None:
        """Take what a program has written."""
        for token in _TOKEN.finditer(text):
            private, numbers, letter = token.group(1, 2, 3)
            if letter is not None:
                if not private:
                    self._control(letter, [int(one or 0) for one in numbers.split(";")])
            elif not token[0].startswith("\x1b"):
                self._character(token[0])

    def text(self) -> str:
        """Return the rows as plain text."""
        lines = ["".join(cell.character for cell in row).rstrip() for row in self._rows]
        return "\n".join(lines).rstrip("\n") + "\n"

    def widest(self) -> int:
        """Return how many cells the widest row takes."""
        return max(len("".join(cell.character or " " for cell in row).rstrip()) for row in self._rows)

    def svg(self, title: str) -> str:
        """Draw the rows. A viewer of the picture loads nothing."""
        rows = self._rows[:max(1, self.text().count("\n"))]
        width = self.columns * CELL_WIDTH + 2 * MARGIN
        height = len(rows) * ROW_HEIGHT + 2 * MARGIN
        drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
                 f'viewBox="0 0 {width:.0f} {height}" role="img"><title>{escape(title)}</title>',
                 f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
                 f'<g font-family="{escape(FONT)}" font-size="14">']
        for number, row in enumerate(rows):
            drawn += self._drawn(row, MARGIN + number * ROW_HEIGHT)
        return "\n".join([*drawn, "</g></svg>\n"])

    def _drawn(self, row: list[GridCell], top: float) -> list[str]:
        drawn: list[str] = []
        at = 0
        for style, cells in groupby(row, key=lambda cell: cell.style):
            run = list(cells)
            text, left = "".join(cell.character for cell in run), MARGIN + at * CELL_WIDTH
            wide = len(run) * CELL_WIDTH
            at += len(run)
            if style.background:
                drawn.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{ROW_HEIGHT}" '
                             f'fill="{style.background}"/>')
            if text.strip():
                looks = "".join((' font-weight="bold"' if style.bold else "", ' opacity="0.65"' if style.dim else "",
                                 ' font-style="italic"' if style.italic else "",
                                 ' text-decoration="underline"' if style.underlined else ""))
                shown = escape(text.replace(" ", NO_BREAK))
                drawn.append(f'<text x="{left:.1f}" y="{top + 13:.1f}" textLength="{wide:.1f}" '
                             f'lengthAdjust="spacingAndGlyphs" fill="{style.colour}"{looks}>{shown}</text>')
        return drawn

    def _character(self, character: str) -> None:
        match character:
            case "\n":
                self._move(self._row + 1, self._column)
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._column = min(self.columns - 1, (self._column // TAB + 1) * TAB)
            case _ if character >= " " and character != "\x7f":
                self._put(character)
            case _:
                return  # A bell, and what else is not seen.

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if width == 0:
            if 0 < self._column <= len(self._rows[self._row]):
                before = self._rows[self._row][self._column - 1]
                self._rows[self._row][self._column - 1] = before._replace(character=before.character + character)
            return
        if self._column + width > self.columns:
            self._move(self._row + 1, 0)
        row = self._rows[self._row]
        row.extend([BLANK] * (self._column + width - len(row)))
        row[self._column] = GridCell(character, self._style)
        if width == 2:
            row[self._column + 1] = GridCell("", self._style)
        self._column += width

    def _move(self, row: int, column: int) -> None:
        self._row, self._column = min(max(0, row), MAX_ROWS - 1), min(max(0, column), self.columns - 1)
        while len(self._rows) <= self._row:
            self._rows.append([])

    def _control(self, letter: str, numbers: list[int]) -> None:
        count = numbers[0] or 1
        match letter:
            case "m":
                self._style = _styled(self._style, numbers)
            case "A":
                self._move(self._row - count, self._column)
            case "B":
                self._move(self._row + count, self._column)
            case "C":
                self._move(self._row, self._column + count)
            case "D":
                self._move(self._row, self._column - count)
            case "G":
                self._move(self._row, count - 1)
            case "K":
                self._erase_line(numbers[0])
            case "J":
                if numbers[0] == 0:
                    self._erase_line(0)
                    del self._rows[self._row + 1:]
            case _:
                return

    def _erase_line(self, how: int) -> None:
        row = self._rows[self._row]
        if how == 0:
            del row[self._column:]
        elif how == 2:
            row.clear()
        else:
            upto = min(self._column + 1, len(row))
            row[:upto] = [BLANK] * upto


def _styled(style: CellStyle, numbers: list[int]) -> CellStyle:
    """Apply the numbers of one `CSI … m`."""
    rest = list(numbers)
    while rest:
        number = rest.pop(0)
        match number:
            case 0:
                style = CellStyle()
            case 1:
                style = style._replace(bold=True)
            case 2:
                style = style._replace(dim=True)
            case 3:
                style = style._replace(italic=True)
            case 4:
                style = style._replace(underlined=True)
            case 22:
                style = style._replace(bold=False, dim=False)
            case 23:
                style = style._replace(italic=False)
            case 24:
                style = style._replace(underlined=False)
            case 7:
                style = style._replace(colour=style.background or BACKGROUND, background=style.colour)
            case 27:
                style = style._replace(colour=style.background or FOREGROUND, background="")
            case 38 | 48:
                colour = _long_colour(rest)
                style = style._replace(colour=colour) if number == 38 else style._replace(background=colour)
            case 39:
                style = style._replace(colour=FOREGROUND)
            case 49:
                style = style._replace(background="")
            case _:
                style = _sixteen(style, number)
    return style


def _sixteen(style: CellStyle, number: int) -> CellStyle:
    for first, bright in ((30, 0), (90, 8)):
        if first <= number < first + 8:
            return style._replace(colour=COLOURS[number - first + bright])
        if first + 10 <= number < first + 18:
            return style._replace(background=COLOURS[number - first - 10 + bright])
    return style


def _long_colour(rest: list[int]) -> str:
    """Take a colour of 256, or of three bytes, off the front."""
    kind = rest.pop(0) if rest else 0
    if kind == 2 and len(rest) >= 3:
        red, green, blue = rest.pop(0), rest.pop(0), rest.pop(0)
        return f"#{red & 255:02x}{green & 255:02x}{blue & 255:02x}"
    index = rest.pop(0) & 255 if kind == 5 and rest else 7
    if index < 16:
        return COLOURS[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    parts = (index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6
    return "#" + "".join(f"{0 if part == 0 else 55 + 40 * part:02x}" for part in parts)
