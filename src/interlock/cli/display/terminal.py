"""Printing: only the result on standard output, all other text on standard error (G-7).

Text of agents and people is never parsed as markup. On a terminal its control characters are shown as escapes; into a
pipe or file it is written unchanged. In a sentence of Interlock's, control characters and line breaks are escapes
everywhere: it is one line, whatever path, name or message it contains.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from interlock.cli.display.columns import GAP, PLAIN, Layout, cut_end, fitted

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 without tab and newline, C1, bidirectional controls and line separators, lone surrogates."""
_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "cyan": "36"}
"""Green: success. Red: failure, or not run. Bold: needs attention. Cyan: a tool, a file, a place. Dim: may be skipped.
Yellow is not used: it is illegible on a light background."""
_WORDS = re.compile(r"(\s*)(\S+)")
_CHOICES = re.compile(r"(\s*)((?:(?<![,.])(?<!\w\?)\s|\S)+)")
"""Parts of a question that are not broken across rows: up to a comma, the end of a sentence, or a question mark after a
word."""
HANGING = "  "
MIN_COLUMNS = 20
"""Minimum width of a row."""


_TRANSIENT_COLUMNS = 78
_CLEAR = "\r\x1b[K"
_line = threading.RLock()
"""Held during each write: the transient line is written by a thread of its own."""


class OpenQuestion:
    """A question in the terminal's last row, whose reader has not ended that row with an answer yet.

    Other output ends that row first, and calls `interrupted`; `ask_again` writes the question below it.
    """

    def __init__(self, question: str, interrupted: Callable[[], None]) -> None:
        self._question = question
        self._interrupted = interrupted
        self._is_last = False
        self._is_row_open = False
        """Whether the output since then has left its own row open."""

    def ask(self) -> None:
        """Write the question, and watch for other output from now on."""
        with _line:
            _Shown.question = self
            self.ask_again()

    def ask_again(self) -> None:
        """Write the question in a row of its own, unless it is the latest output."""
        with _line:
            if _Shown.question is self and not self._is_last:
                transient(None)
                _write(sys.stderr, ("\n" if self._is_row_open else "") + in_rows(self._question), safe=False)
                self._is_last = True

    def close(self, *, answered: bool) -> None:
        """End the question; also its row, unless the person's answer has ended it."""
        with _line:
            if _Shown.question is self:
                _Shown.question = None
                if self._is_last and not answered:
                    _write(sys.stderr, "\n", safe=True)

    def precede(self, text: str) -> None:
        """Prepare the terminal for output from elsewhere."""
        if self._is_last:
            _write(sys.stderr, "\n", safe=True)
            self._is_last = False
        self._is_row_open = not text.endswith("\n")
        self._interrupted()


class _Shown:
    transient = False
    question: OpenQuestion | None = None


def printable(text: str) -> str:
    """Write each control character as its escape, so that none reaches a terminal raw; keeps tab and newline."""
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int | None = 200) -> str:
    """Return text for a table's cell or a sentence: printable, on one line, at most `limit` characters if there is a
    limit."""
    line = printable(" ".join(text.split()))
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def in_sentence(text: str) -> str:
    """Write each control character and each line break within a sentence as its escape, so that it stays one line."""
    return printable(text.rstrip("\r\n")).replace("\n", "\\n")


def is_terminal(stream: TextIO) -> bool:
    """Return whether a person reads this stream."""
    try:
        return stream.isatty()
    except ValueError:  # The stream is closed.
        return False


def has_colour(stream: TextIO) -> bool:
    """Return whether to colour: on a terminal, unless NO_COLOR is set or the terminal is dumb."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Colour a text of Interlock's own, or one that is `printable` already."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text.strip() and has_colour(stream) else text


def result(text: str, *, end: str = "\n") -> None:
    """Print a verb's result on standard output, its lines as they are."""
    write(sys.stdout, text + end)


def print_sentence(text: str, style: str | None = None, word: str | None = None, *, indent: int = len(HANGING)) -> None:
    """Print a verb's result that is a sentence on standard output, styled as `say` does. On a terminal its rows break
    between words, and all but the first are indented by `indent` cells, or by two if that would leave too few; into a
    pipe or file it is one line."""
    _sentence(sys.stdout, text, style, word, " " * indent)


def say(text: str, style: str | None = None, word: str | None = None) -> None:
    """Print one sentence of progress, a hint or an error on standard error; `text` may contain text of others. Only
    `word` is coloured, so that the rest has the terminal's own colours; without it all of the text is, which suits
    `dim`. On a terminal its rows break between words, and all but the first are indented."""
    _sentence(sys.stderr, text, style, word)


def _sentence(stream: TextIO, text: str, style: str | None, word: str | None, indent: str = HANGING) -> None:
    first, *more = _rows(in_sentence(text), stream, indent)
    shown = [marked(first, style, word, stream), *(marked(row, None if word else style, None, stream) for row in more)]
    write(stream, "\n".join(shown) + "\n", safe=True)


def marked(line: str, style: str | None, word: str | None, stream: TextIO) -> str:
    """Colour the first `word` of a line that is printable, or the whole line without one."""
    if style is None:
        return line
    if not word:
        return styled(line, style, stream)
    before, found, after = line.partition(in_sentence(word))
    return before + styled(found, style, stream) + after


def notice(mark: str, text: str, style: str | None = None) -> None:
    """Print a sentence on standard error behind a mark that alone has the style, so that the sentence has the
    terminal's own colours. On a terminal its rows break between words, and all but the first are indented; into a pipe
    or file it is one line."""
    rows = _rows(in_sentence(f"{mark} {text}".strip()), sys.stderr)
    if style is not None:
        shown = min(len(mark), len(rows[0]))
        rows[0] = styled(rows[0][:shown], style, sys.stderr) + rows[0][shown:]
    write(sys.stderr, "\n".join(rows) + "\n", safe=True)


def in_rows(question: str) -> str:
    """Return a question for the terminal of standard error: its rows break between its choices, all at the margin, and
    its last blank is kept."""
    words = question.rstrip()
    return "\n".join(_rows(words, sys.stderr, "", _CHOICES)) + question[len(words):]


def _rows(text: str, stream: TextIO, indent: str = HANGING, words: re.Pattern[str] = _WORDS) -> list[str]:
    """Cut lines into rows of this stream's terminal; if the stream is not a terminal, they are unchanged."""
    if not is_terminal(stream):
        return [text]
    width = _width(stream)
    if width - len(indent) < MIN_COLUMNS:
        indent = HANGING
    return [row for line in printable(text).split("\n") for row in word_rows(line, width, indent, words)]


def word_rows(text: str, width: int, indent: str = HANGING, words: re.Pattern[str] = _WORDS) -> list[str]:
    """Cut one line into rows of at most `width` cells between its words; all but the first are indented, in addition to
    the line's own indentation. A word of ASCII that is wider than a row, such as a path, is not cut: the terminal
    breaks it, and it can still be copied. Text that has no blanks between words is cut."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return [text.rstrip()]
    own = text[:len(text) - len(text.lstrip(" "))]
    rows, row, used = list[str](), own, len(own)
    for blank, word in _words(text[len(own):], width - len(own + indent), words):
        more = cell_len(blank) + cell_len(word)
        fits_a_row = cell_len(word) <= width - len(own + indent)
        if row.strip() and used + more > width and (fits_a_row or used >= width):
            rows.append(row)
            row, used, blank = own + indent, len(own + indent), ""
            more = cell_len(word)
        row, used = row + blank + word, used + more
    return [*rows, row] if row.strip() else rows


def _words(text: str, width: int, words: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield each word with the blanks before it, and one that is not ASCII in pieces of at most `width` cells."""
    for blank, word in words.findall(text):
        first, *more = [word] if word.isascii() else cut(word, width)
        yield blank, first
        yield from (("", piece) for piece in more)


def _width(stream: TextIO) -> int:
    """Return the number of cells in a row of the terminal that this stream writes to."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(MIN_COLUMNS, columns or shutil.get_terminal_size().columns)


def cut(text: str, width: int) -> list[str]:
    """Cut text into rows of at most `width` cells, after a blank of the second half if there is one. Loses nothing."""
    if text.isascii():
        cells = None
        fits = len(text) <= width
    else:
        from rich.cells import cell_len as cells

        fits = cells(text) <= width
    if fits:
        return [text]
    rows: list[str] = []
    while text:
        end = width
        if cells is not None:
            end, used = 0, 0
            while end < len(text) and used + cells(text[end]) <= width:
                used += cells(text[end])
                end += 1
        if end < len(text):
            blank = text.rfind(" ", end // 2, end)
            end = blank + 1 if blank > 0 else max(1, end)
        rows.append(text[:end])
        text = text[end:]
    return rows


def write(stream: TextIO, text: str, *, safe: bool = False) -> None:
    """Write a text and flush the stream. On a terminal control characters are escaped first, unless the text is `safe`
    already."""
    with _line:
        transient(None)
        if _Shown.question is not None and text and is_terminal(stream):
            _Shown.question.precede(text)
        _write(stream, text, safe=safe)


def transient(text: str | None) -> None:
    """Show a line on the terminal of standard error until the next output; None removes it. Nothing is shown on a
    terminal that cannot erase a line."""
    with _line:
        if text is None and not _Shown.transient:
            return
        if os.environ.get("TERM") == "dumb":
            return
        _Shown.transient = text is not None
        # A line that wraps at the edge cannot be erased completely.
        room = min(_TRANSIENT_COLUMNS, _width(sys.stderr) - 1)
        shown = styled(cut_end(one_line(text, None), room), "dim", sys.stderr) if text is not None else ""
        try:
            _write(sys.stderr, _CLEAR + shown, safe=True)
        except (OSError, ValueError):  # The terminal is gone; the work continues.
            _Shown.transient = False


def _write(stream: TextIO, text: str, *, safe: bool) -> None:
    if not safe and is_terminal(stream):
        text = printable(text)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def terminal_width() -> int | None:
    """Return the columns of the terminal of standard output; None if it is not a terminal."""
    return _width(sys.stdout) if is_terminal(sys.stdout) else None


def table(rows: Sequence[Sequence[str]], header: Sequence[str], layout: Layout = PLAIN, width: int | None = None
          ) -> str:
    """Lay rows out in columns: all columns in full if `width` is None, otherwise those that fit that number of cells
    (Y-8)."""
    cells = [[one_line(cell, None) for cell in row] for row in rows]
    return laid_out([list(header), *cells] if width is None else fitted(cells, header, width, layout))


def laid_out(lines: Sequence[Sequence[str]]) -> str:
    """Write a header and rows, whose cells are printable, in columns as wide as a terminal shows them; no trailing
    spaces."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    written = ["".join(cell + " " * (widths[i] - cell_len(cell) + GAP) for i, cell in enumerate(row)).rstrip()
               for row in lines]
    written[0] = styled(written[0], "bold", sys.stdout)
    return "\n".join(written)


def print_table(rows: Sequence[Sequence[str]], header: Sequence[str], layout: Layout = PLAIN) -> None:
    """Print a table as the result: the columns that fit to a terminal, otherwise every column in full."""
    write(sys.stdout, table(rows, header, layout, terminal_width()) + "\n", safe=True)


def print_json(raw: bytes) -> None:
    """Print one JSON document as the result."""
    write(sys.stdout, raw.decode("utf-8", "replace") + "\n")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 13:
        return "\\r"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
