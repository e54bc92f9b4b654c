"""An approval as drawn at a terminal: Interlock's rows at the margin, the request's rows always indented (H-4, Y-2).

A request that does not fit one page is drawn page by page, and the reader always sees how much of it was shown.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from interlock.cli.display.diff_colours import SIGN, ColourSpan, painted, shifted, spans_of
from interlock.cli.display.syntax import highlighted
from interlock.cli.display.terminal import cut, has_colour, is_terminal, word_rows, write
from interlock.cli.display.terminal import styled as coloured
from interlock.cli.display.values import until
from interlock.command.approval import counted_votes, shared_votes
from interlock.command.card.asked_by import NAME_CHARS, names
from interlock.command.card.lines import CardLine, Style
from interlock.command.card.permission_request import lines_of_approval, request_of_approval, title_of_approval
from interlock.command.card.text import one_line, visible
from interlock.command.card.votes import ANOTHER, tally
from interlock.protocol.resources import Approval

CARD_LINES = 60
"""A request of more rows is shown page by page."""
LEAST_PAGE = 8
ROWS_BESIDE = 8
"""Rows of a terminal that a page leaves to the card's own rows and the question."""
LEAST_WIDTH = 24
WIDTH_OF_A_PIPE = 100
TITLED_FROM = 4
"""A request of more lines is preceded by its title."""
DIFFED_FROM = 12
"""So is a diff of one file of more lines."""
FIRST_LINE = ("@@ -0,0 ", "@@ -1 ", "@@ -1,")
DIGEST_CHARS = 16
SHOWN_CHATS = 8
"""Chats that a card names; it counts the others."""
INDENT, CONTINUED = "    ", "  ↪ "
_COLOURS: dict[Style, str] = {"place": "cyan", "note": "bold"}


class CardRow(NamedTuple):
    """A row of the terminal; `ours` is at the margin, the rest is the request's."""

    text: str
    style: Style = "plain"
    ours: bool = False
    spans: tuple[ColourSpan, ...] = ()


class CardReading:
    """A card that is being read. `whole` once every row of the request was shown. `up_to_you` is False for a reader who
    has voted, or whose vote would not count."""

    def __init__(self, approval: Approval, width: int | None = None, page: int | None = None, *,
                 up_to_you: bool = True) -> None:
        columns = (width or screen_columns()) - 1
        self._approval = approval
        self._up_to_you = up_to_you
        self._width = max(LEAST_WIDTH, columns)
        self._page = page or _page_rows()
        self._request = request_of_approval(approval)
        self._lines = _without_lone_hunk(lines_of_approval(approval)[1 if self._request.asked.described else 0:])
        self._rows = rows_of(self._lines, self._width)
        self._at = 0

    @property
    def whole(self) -> bool:
        """Return whether nothing of the request is left to show."""
        return self._at >= len(self._rows)

    @property
    def progress(self) -> str:
        """Return how much was shown."""
        return f"shown {self._at} of {len(self._rows)} lines"

    def next_rows(self) -> list[CardRow]:
        """Return the next rows: the head with the first page, one more page, the foot with the last one."""
        head = self._head() if self._at == 0 else []
        page = self._rows[self._at:self._at + self._page]
        self._at += len(page)
        return [*head, *page, *(self._foot(short=True) if self.whole else [])]

    def one_page(self) -> list[CardRow]:
        """Return the card with at most the first page of the request, and how to read the rest."""
        rows = self.next_rows()
        if self.whole:
            return rows
        return [*rows, *self._ours(f"  {self.progress}; read it with: interlock approvals {self._approval.id}", "note"),
                *self._foot(short=True)]

    def all_rows(self) -> list[CardRow]:
        """Return the whole card, with the whole digest."""
        self._at = len(self._rows)
        return [*self._head(), *self._rows, *self._foot(short=False)]

    def _head(self) -> list[CardRow]:
        approval = self._approval
        state = approval.state if approval.state != "pending" else "waits for you" if self._up_to_you else ANOTHER
        state += f" by {approval.superseded_by}" if approval.superseded_by else ""
        left = f" · {until(approval.expires_at)} left" if approval.state == "pending" else ""
        rows = self._ours(f"approval {approval.id} · {state}{left}", "note")
        rows += self._ours(f"  {' · '.join(names(approval))}")
        if self._request.changed:
            rows += self._ours("  changed since it was announced: this is what would run", "note")
        if self._request.asked.described:
            rows += self._ours("  the agent does not send its input; this is what it says of it", "note")
        if approval.door == "command" and approval.verb is None and approval.budget is None \
                and not approval.workspace_files:
            rows += self._ours("  starts a turn with this prompt:")
        elif _needs_title(approval, self._lines):
            rows += self._ours(f"  {visible(one_line(title_of_approval(approval), NAME_CHARS))}")
        return rows

    def _foot(self, *, short: bool) -> list[CardRow]:
        approval = self._approval
        signed = ", signed" if approval.signed else ""
        wanted = f"{tally(approval)}{signed}" if approval.kind == "permission" else "wants an answer in words"
        ruled = f"  rule: {one_line(approval.rule, NAME_CHARS)} · {wanted}"
        if short:
            return [*self._ours(f"{ruled} · sha256 {approval.digest[:DIGEST_CHARS]}…"), *self._votes(),
                    *self._made_keys(), *self._chats()]
        return [*self._ours(ruled), *self._votes(), *self._made_keys(), *self._chats(),
                *self._ours(f"  sha256 {approval.digest}")]

    def _chats(self) -> list[CardRow]:
        """Return the chats where it also waits, according to the bridges (J-5)."""
        named = [f"{card.service} ({one_line(card.chat, NAME_CHARS)})" for card in self._approval.cards]
        if not named:
            return []
        left = f" and {len(named) - SHOWN_CHATS} more" if len(named) > SHOWN_CHATS else ""
        return self._ours(f"  posted in {', '.join(named[:SHOWN_CHATS])}{left} as well")

    def _votes(self) -> list[CardRow]:
        """Return who voted what, and why."""
        rows = list[CardRow]()
        for vote in counted_votes(self._approval):
            why = f": {visible(one_line(vote.comment, NAME_CHARS))}" if vote.comment else ""
            rows += self._ours(f"  {one_line(vote.by, NAME_CHARS)} voted {vote.decision}{why}")
        return rows

    def _made_keys(self) -> list[CardRow]:
        """Return which votes the requester could have cast, and which of them would not count."""
        approval, rows = self._approval, list[CardRow]()
        if approval.require_independent:
            rows += self._ours("  no vote counts by a key that the one who asked has made, nor two by keys that one "
                               "person has")
        for vote in approval.votes:
            if vote.key_made_by is not None and vote.withdrawn_at is None:
                voter, maker = one_line(vote.by, NAME_CHARS), one_line(vote.key_made_by, NAME_CHARS)
                rows += self._ours(f"  {maker}, who asked for this, made the key of {voter}, which voted "
                                   f"{vote.decision}", "note")
        for shared in shared_votes(approval):
            by, first, second = (one_line(name, NAME_CHARS) for name in shared)
            rows += self._ours(f"  {by} holds or made the keys of {first} and {second}, and could have cast both votes",
                               "note")
        return rows

    def _ours(self, text: str, style: Style = "plain") -> list[CardRow]:
        # A word that is wider than a row is cut, since its rest would be at the margin as if it were Interlock's.
        first, *more = (piece for row in word_rows(text, self._width - 2, "") for piece in cut(row, self._width - 2))
        return [CardRow(first, style, ours=True), *(CardRow(f"  {row.lstrip()}", style, ours=True) for row in more)]


def card(approval: Approval, *, width: int | None = None) -> str:
    """Return the whole card without colours."""
    return "\n".join(row.text for row in CardReading(approval, width).all_rows())


def show(rows: list[CardRow]) -> None:
    """Print rows of a card on standard error, coloured on a terminal."""
    write(sys.stderr, "".join(f"{_coloured(row)}\n" for row in rows), safe=True)


def show_result(rows: list[CardRow]) -> None:
    """Print rows of a card on standard output."""
    write(sys.stdout, "".join(f"{row.text}\n" for row in rows), safe=True)


def json_of(approval: Approval) -> str:
    """Return what the digest covers as JSON, every character of it visible, with the whole digest."""
    raw = bytes(approval.subject) if isinstance(approval.subject, msgspec.Raw) else bytes(approval.input)
    try:
        text = msgspec.json.format(raw, indent=2).decode("utf-8", "backslashreplace")
    except msgspec.DecodeError:
        text = raw.decode("utf-8", "backslashreplace")
    lines = "\n".join(f"{INDENT}{line}" for line in visible(text).split("\n"))
    return f"{lines}\n  sha256:{approval.digest}"


def show_json(approval: Approval) -> None:
    """Print what the digest covers as JSON on standard error, coloured on a terminal."""
    text = "".join(f"{highlighted(line, 'json', sys.stderr)}\n" for line in json_of(approval).split("\n"))
    write(sys.stderr, text, safe=True)


def _needs_title(approval: Approval, lines: list[CardLine]) -> bool:
    """Return whether the request's own lines do not name the action, or are too many for a glance. A diff of one file
    names that file itself."""
    bare = approval.verb is not None or approval.budget is not None
    glance = DIFFED_FROM if _names_its_file(lines) else TITLED_FROM
    return approval.kind == "permission" and (bare or len(lines) > glance or not lines)


def _names_its_file(lines: Sequence[CardLine]) -> bool:
    heads = [at for at, line in enumerate(lines) if line.style == "place" and line.text.startswith("--- ")]
    return heads == [0]


def _without_lone_hunk(lines: list[CardLine]) -> list[CardLine]:
    """Return the lines without the line numbers of a diff of one hunk that begins with the first line."""
    hunks = [at for at, line in enumerate(lines) if line.style == "place" and line.text.startswith("@@ ")]
    if hunks != [1] or not _names_its_file(lines) or not lines[1].text.startswith(FIRST_LINE):
        return lines
    return [lines[0], *lines[2:]]


def rows_of(lines: Sequence[CardLine], width: int) -> list[CardRow]:
    """Cut a request's lines into indented rows of at most `width` cells, each with the colours inside it."""
    shown = [CardLine(line.text.expandtabs(8), line.style) for line in lines]
    spans = spans_of(shown) if has_colour(sys.stderr) else [()] * len(shown)
    return [row for line, own in zip(shown, spans, strict=True) for row in _wrapped(line, own, width)]


def _wrapped(line: CardLine, spans: tuple[ColourSpan, ...], width: int) -> list[CardRow]:
    rows, at = list[CardRow](), 0
    for piece in cut(line.text, width - len(INDENT)):
        before = CONTINUED if at else INDENT
        own = shifted(spans, at, at + len(piece), len(before))
        if at and spans and line.style in SIGN:  # A continued row has no sign of its own.
            own = (ColourSpan(0, len(before), SIGN[line.style]), *own)
        rows.append(CardRow(before + piece, line.style, spans=own))
        at += len(piece)
    return rows


def _coloured(row: CardRow) -> str:
    if row.spans:
        return painted(row.text, row.spans)
    if row.style == "command" and not row.ours:
        return highlighted(row.text, "bash", sys.stderr)
    style = _COLOURS.get(row.style)
    if row.ours and style is None:
        return row.text
    return coloured(row.text, style, sys.stderr) if style else row.text


def screen_columns() -> int:
    """Return the cells of a row of the terminal that shows cards."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stderr) else WIDTH_OF_A_PIPE


def _page_rows() -> int:
    if not is_terminal(sys.stderr):
        return CARD_LINES
    return min(CARD_LINES, max(LEAST_PAGE, shutil.get_terminal_size().lines - ROWS_BESIDE))
