"""`interlock diff`: the changes that git finds in a session's workspace (J-4)."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout, cut_middle
from interlock.cli.display.diff_colours import painted, spans_of
from interlock.cli.display.terminal import has_colour, one_line, print_table, printable, result, say, write
from interlock.cli.options import LatestSession
from interlock.cli.verb_answer import print_answer
from interlock.cli.verb_error import Trouble
from interlock.command.card.lines import CardLine, Style
from interlock.protocol.answers import GitChanges
from interlock.protocol.payloads import ChangedFile
from interlock.sdk.requests import sessions

COLUMNS = Layout(text=("PATH",), shorten=cut_middle)
COMMIT_CHARS = 12
STYLES: dict[str, Style] = {"+": "added", "-": "removed", " ": "plain"}
"""Styles by the first character of a line below a diff's head; the others are for positions."""


def diff(
    session: LatestSession = short_ids.LAST,
    /,
    *,
    stat: Annotated[bool, Parameter(negative=(), help="List the files with their counts, without the lines.")] = False,
    json: Annotated[bool, Parameter(help="Print it as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Show what git finds changed in a session's workspace since it began, committed or not. The runner
    looks now."""
    return print_answer(where, short_ids.of_session(session, sessions.diff), lambda found: _show(found, stat=stat),
                        json=json)


def _show(found: GitChanges, *, stat: bool) -> None:
    if found.why_not:
        raise Trouble("Conflict", one_line(found.why_not, None))
    if not found.files:
        say(f"git finds no changes in {found.workspace}")
    elif stat:
        print_table([(file.change, _path(file), _count(file.added), _count(file.removed)) for file in found.files],
                    ("CHANGE", "PATH", "ADDED", "REMOVED"), COLUMNS)
    else:
        for file in found.files:
            _show_file(file)
    if found.count > len(found.files):
        say(f"and {found.count - len(found.files)} more files")
    if found.partly:
        say(one_line(found.partly, None))
    if found.commits:
        say("committed since the session began:")
    for made in found.commits:
        say(f"  {made.commit[:COMMIT_CHARS]} {one_line(f'{made.subject} ({made.author})', None)}")
    if found.commit:
        branch = f" on {one_line(found.branch)}" if found.branch else ""
        say(f"compared with commit {found.commit[:COMMIT_CHARS]}{branch}", "dim")


def _path(file: ChangedFile) -> str:
    return file.path if file.old_path is None else f"{file.old_path} => {file.path}"


def _show_file(file: ChangedFile) -> None:
    if not file.diff:
        result(f"{file.change}: {one_line(_path(file), None)}")
    elif has_colour(sys.stdout):
        write(sys.stdout, coloured(file.diff) + "\n", safe=True)
    else:
        result(file.diff)
    if file.cut:
        say(f"the diff of {one_line(file.path, None)} is cut", "dim")


def coloured(diff: str) -> str:
    """Colour a diff of one file as in an approval (Y-2), with control characters shown as escapes."""
    lines, is_head = list[CardLine](), True
    for text in printable(diff).split("\n"):
        is_head = is_head and not text.startswith("@@")
        style = STYLES.get(text[:1], "place")
        if is_head:
            style = "place" if text.startswith(("--- ", "+++ ")) else "note"
        lines.append(CardLine(text, style))
    return "\n".join(painted(line.text, spans) for line, spans in zip(lines, spans_of(lines), strict=True))


def _count(lines: int | None) -> str:
    return str(lines) if lines is not None else "-"
