"""The page that `interlock --help` prints, written without the parser, whose import takes longer than all other work.

It equals the page that the parser would print; a test compares the two at several widths.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

from interlock.cli.display.terminal import has_colour, write
from interlock.cli.verbs import ABOUT, EXITS, FIRST, SETUP, examples, listed

WIDTH_LEAST = 32
"""On a narrower terminal the parser breaks words, so the parser prints the page."""
_OPTIONS = (("--help (-h)", "Display this message and exit."), ("--version", "Display application version."))
_FRAME = 4
_GAP = 2


def width() -> int | None:
    """Return the width of a line in cells as the parser computes it; None if the terminal is too narrow, or cannot show
    frames."""
    found = shutil.get_terminal_size().columns
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return found if found >= WIDTH_LEAST and encoding == "utf8" and os.environ.get("TERM") != "dumb" else None


def show(cells: int) -> None:
    """Print the page."""
    write(sys.stdout, "\n".join(page(cells, coloured=has_colour(sys.stdout))) + "\n", safe=True)


def page(cells: int, *, coloured: bool) -> Iterator[str]:
    """Yield the lines of the page, each at most `cells` cells wide."""
    bold, cyan, end = ("\x1b[1m", "\x1b[36m", "\x1b[0m") if coloured else ("", "", "")
    yield from _wrapped(examples(FIRST), cells)
    yield ""
    yield f"{bold}Usage: interlock COMMAND{end}"
    yield ""
    yield from _wrapped(ABOUT, cells)
    yield ""
    for heading, verbs in listed():
        rows = [(verb.name, verb.line) for verb in verbs] + (list(_OPTIONS) if heading == SETUP else [])
        names = max(len(name) for name, _ in rows)
        lead = f"╭─ {heading} "
        yield lead + "─" * (cells - len(lead) - 1) + "╮"
        for name, line in rows:
            for at, part in enumerate(_wrapped(line, cells - _FRAME - names - _GAP)):
                shown = f"{cyan}{name if at == 0 else '':{names}}{end}"
                yield f"│ {shown}{'':{_GAP}}{part:{cells - _FRAME - names - _GAP}} │"
        yield "╰" + "─" * (cells - 2) + "╯"
    yield ""
    yield from _wrapped(EXITS, cells)


def _wrapped(text: str, cells: int) -> Iterator[str]:
    """Break a text between words; its own line breaks and indents are kept. It is ASCII."""
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        row = ""
        for word in line.split():
            longer = f"{row} {word}" if row else indent + word
            if len(longer) > cells and row:
                yield row
                longer = word
            row = longer
        yield row
