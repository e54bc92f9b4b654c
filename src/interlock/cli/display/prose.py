"""An agent's Markdown on a terminal, rendered block by block as it streams (Y-6).

A block is written once it is complete, and written text is never erased: nothing flickers, and nothing is lost if the
terminal closes. Raw HTML, entities and link definitions are shown as written, and the address of a link follows its
text, so that the rendered text hides nothing that the agent wrote.
"""

from __future__ import annotations

import re
from functools import cache
from io import StringIO
from typing import Any, ClassVar

from interlock.cli.display.terminal import printable

MAX_PENDING_CHARS = 65_536
"""A longer block is written in parts."""
MIN_COLUMNS = 20
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_INDENTED = re.compile(r"[ \t]")


class MarkdownStream:
    """Splits a stream of Markdown into complete blocks. Pure."""

    def __init__(self) -> None:
        self._block = ""
        """Complete lines of a block that is not complete."""
        self._line = ""
        """The line that is not ended."""
        self._opener = ""
        """The line that opened the fence that is not closed."""
        self._added = 0
        """Characters of `_block` that are not the agent's: a code fence that is reopened after its first part."""

    @property
    def pending(self) -> int:
        """Return how many of the last characters received are not in a block yet."""
        return len(self._block) - self._added + len(self._line)

    def add(self, text: str) -> list[str]:
        """Add text; return the blocks that it completes, each with its blank lines."""
        found = list[str]()
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            found += self._add_line(line + "\n")
        if self.pending > MAX_PENDING_CHARS:
            found += self.rest()
        return found

    def rest(self) -> list[str]:
        """Return the text that is not in a block yet, as the last block."""
        last = [self._block + self._line] if self.pending else []
        # Text after a part of a code fence is code, too.
        self._block, self._line, self._added = self._opener, "", len(self._opener)
        return last

    def reset(self) -> list[str]:
        """Return the last block of a text that has ended."""
        last = self.rest()
        self._block, self._opener, self._added = "", "", 0
        return last

    def _add_line(self, line: str) -> list[str]:
        if self._opener:
            self._block += line
            if not self._closes(line):
                return []
            self._opener = ""
            return [] if self._goes_on() else self._complete()
        found = self._complete() if line.strip() and self._ends_before(line) else []
        self._block += line
        opens = _FENCE.match(line)
        if opens and not (opens[1].startswith("`") and "`" in opens[2]):
            self._opener = line
        if line.strip() or not self._block.strip() or self._goes_on():
            return found
        return [*found, *self._complete()]

    def _complete(self) -> list[str]:
        block, self._block, self._added = self._block, "", 0
        return [block]

    def _goes_on(self) -> bool:
        """Return whether blank lines do not end the block: a list, or indented code."""
        begins = self._block.lstrip("\n")
        return _ITEM.match(begins) is not None or _INDENTED.match(begins) is not None

    def _ends_before(self, line: str) -> bool:
        """Return whether the block ended at a blank line, before a line that is not blank."""
        if not self._block.strip() or not self._block.endswith("\n\n"):
            return False
        in_list = _ITEM.match(self._block.lstrip("\n")) is not None
        return not (_INDENTED.match(line) or (in_list and _ITEM.match(line)))

    def _closes(self, line: str) -> bool:
        opened, closing = _FENCE.match(self._opener), _FENCE.match(line.rstrip("\n"))
        return opened is not None and closing is not None and not closing[2].strip() \
            and closing[1][0] == opened[1][0] and len(closing[1]) >= len(opened[1])


def rendered(block: str, columns: int) -> str:
    """Render one block for a terminal of this width, with one blank line before and after it if it had any."""
    from rich.color import ColorSystem
    from rich.console import Console

    before, behind = ("\n" if has else "" for has in (block.startswith("\n"), block.endswith("\n\n")))
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=max(columns, MIN_COLUMNS),
                      highlight=False, markup=False, emoji=False, legacy_windows=False, theme=_theme())
    lines = list[str]()
    for line in console.render_lines(_document(printable(block)), pad=False):
        # A decoded entity or an escape could have created a control character: none may reach the terminal.
        parts = [(printable(segment.text), segment.style) for segment in line if not segment.control]
        while parts and not parts[-1][0].strip():
            parts.pop()
        if parts:
            parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
        lines.append("".join(style.render(text, color_system=ColorSystem.STANDARD) if style else text
                             for text, style in parts))
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return before + "\n".join(lines) + "\n" + behind if lines else ""


def _document(text: str) -> Any:
    """Return the Markdown as an object that rich can print."""
    document = _classes()(text, hyperlinks=False)
    document.parsed = tokens = _parser().parse(text)
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":  # Agents insert line breaks deliberately.
                child.type = "hardbreak"
    return document


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(
        ["reference", "image", "entity", "html_block", "html_inline"])


@cache
def _theme() -> Any:
    """Return attributes, and colours that are legible on light and on dark backgrounds."""
    from rich.theme import Theme

    headings = {f"markdown.h{level}": "bold" for level in range(1, 8)}
    return Theme({
        **headings, "markdown.h1": "bold underline", "markdown.code": "cyan", "markdown.code_block": "cyan",
        "markdown.block_quote": "dim", "markdown.item.bullet": "bold", "markdown.item.number": "bold",
        "markdown.link": "underline", "markdown.link_url": "underline", "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    })


@cache
def _classes() -> Any:
    """Return rich's Markdown with headings at the left, code without a background, and cells that are never cut."""
    from rich import box
    from rich.markdown import CodeBlock, Heading, Markdown, TableElement
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            yield self.text

    class PlainCode(CodeBlock):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            yield Padding(Text(str(self.text).rstrip("\n"), style="markdown.code_block", overflow="fold"), (0, 0, 0, 2))

    class WholeTable(TableElement):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            table = Table(box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
            for cell in self.header.row.cells if self.header and self.header.row else ():
                table.add_column(cell.content, overflow="fold")
            for row in self.body.rows if self.body else ():
                table.add_row(*(cell.content for cell in row.cells))
            yield table

    class AgentMarkdown(Markdown):
        elements: ClassVar[dict[str, Any]] = {
            **Markdown.elements, "heading_open": LeftHeading, "fence": PlainCode, "code_block": PlainCode,
            "table_open": WholeTable,
        }

    return AgentMarkdown
