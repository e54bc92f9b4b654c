"""Colours inside a diff on a terminal: tokens by the language of the file, added and removed lines by the colour of the
rest (Y-2).

Only attributes and the sixteen colours of the terminal's own palette are used, so a diff is legible on light and on
dark backgrounds. Red and green only mean removed and added: no token has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from interlock.command.card.lines import CardLine, Style

MAX_CODE_CHARS = 20_000
"""Maximum characters of one file's part of a diff that are coloured by language: a lexer must not keep a person
waiting."""
MAX_LINE_CHARS = 500
"""A diff with a longer line, such as minified text, is coloured by added and removed only."""
BASE: dict[Style, str] = {"added": "32", "removed": "31"}
SIGN: dict[Style, str] = {"added": "1;32", "removed": "1;31"}
_TOKENS = (("Comment", "2"), ("Literal.String", "36"), ("Literal.Number", "35"), ("Keyword", "1;34"),
           ("Name.Tag", "1;34"), ("Name.Decorator", "35"), ("Name.Function", "1"), ("Name.Class", "1"))
_LANGUAGES = {
    "bash": "bash", "c": "c", "cc": "cpp", "cfg": "ini", "cpp": "cpp", "cs": "csharp", "css": "css", "go": "go",
    "h": "c", "hpp": "cpp", "htm": "html", "html": "html", "ini": "ini", "java": "java", "js": "javascript",
    "json": "json", "jsx": "javascript", "kt": "kotlin", "lua": "lua", "mjs": "javascript", "php": "php",
    "py": "python", "pyi": "python", "rb": "ruby", "rs": "rust", "sh": "bash", "sql": "sql", "swift": "swift",
    "toml": "toml", "ts": "typescript", "tsx": "typescript", "xml": "xml", "yaml": "yaml", "yml": "yaml",
    "dockerfile": "docker", "makefile": "make",
}
"""Maps a file's extension or complete name to the name of its language in pygments."""


class ColourSpan(NamedTuple):
    """Characters of a line from `start` to before `end`, and their ANSI code."""

    start: int
    end: int
    code: str


def language_of(path: str) -> str | None:
    """Return the language of a file, None if it has none that is coloured."""
    name = PurePosixPath(path.split(", ")[0].strip()).name.lower()
    return _LANGUAGES.get(name.rpartition(".")[2])


def diffs_of(lines: Sequence[CardLine]) -> list[CardLine]:
    """Return the diffs among the lines of a card, each with the line that names its file."""
    return [line for start, end, _ in _diffs(lines) for line in lines[start - 1:end]]


def spans_of(lines: Sequence[CardLine]) -> list[tuple[ColourSpan, ...]]:
    """Return the coloured spans of each line of a card; nothing for lines outside of diffs."""
    found: list[tuple[ColourSpan, ...]] = [()] * len(lines)
    for start, end, language in _diffs(lines):
        part = lines[start:end]
        tokens = _tokens(part, language) if language is not None else {}
        for place, line in enumerate(part):
            if line.style in BASE:
                found[start + place] = _filled(line, tokens.get(place, ()))
            else:
                found[start + place] = tuple(tokens.get(place, ()))
    return found


def painted(text: str, spans: Iterable[ColourSpan]) -> str:
    """Return a text coloured by its spans, which are in order and do not overlap. Its characters are unchanged."""
    shown, at = list[str](), 0
    for span in spans:
        piece = text[span.start:span.end]
        shown += [text[at:span.start], f"\x1b[{span.code}m{piece}\x1b[0m" if piece.strip() else piece]
        at = span.end
    return "".join([*shown, text[at:]])


def shifted(spans: Iterable[ColourSpan], start: int, end: int, by: int) -> tuple[ColourSpan, ...]:
    """Return the spans of a row that shows the characters from `start` to before `end` of a line, moved right by
    `by`."""
    return tuple(ColourSpan(max(span.start, start) - start + by, min(span.end, end) - start + by, span.code)
                 for span in spans if span.start < end and span.end > start)


def _diffs(lines: Sequence[CardLine]) -> Iterator[tuple[int, int, str | None]]:
    """Yield the lines of each file's diff, as (first, after the last, language)."""
    heads = [at for at, line in enumerate(lines) if line.style == "place" and line.text.startswith("--- ")]
    for at, following in pairwise([*heads, len(lines)]):
        end = at + 1
        while end < following and (lines[end].style in ("added", "removed", "place") or _is_context(lines[end])):
            end += 1
        yield at + 1, end, language_of(lines[at].text.removeprefix("--- "))


def _is_context(line: CardLine) -> bool:
    return line.style == "plain" and line.text.startswith(" ")


def _tokens(part: Sequence[CardLine], language: str) -> dict[int, list[ColourSpan]]:
    """Return the spans of the text before the change and after it, each lexed as a whole: a string may span several
    lines."""
    if sum(len(line.text) for line in part) > MAX_CODE_CHARS or any(len(one.text) > MAX_LINE_CHARS for one in part):
        return {}
    after = [place for place, line in enumerate(part) if line.style in ("plain", "added")]
    before = [place for place, line in enumerate(part) if line.style in ("plain", "removed")]
    return {**_lexed(part, before, language), **_lexed(part, after, language)}


def _lexed(part: Sequence[CardLine], places: Sequence[int], language: str) -> dict[int, list[ColourSpan]]:
    texts = [part[place].text[1:] for place in places]
    source, found = "\n".join(texts) + "\n", {place: list[ColourSpan]() for place in places}
    at, row = 0, 0
    lexed: list[tuple[int, object, str]] = list(_lexer(language).get_tokens_unprocessed(source))
    if "".join(value for _, _, value in lexed) != source:
        return {}  # A colour on the wrong characters misleads.
    for _, kind, value in lexed:
        name = str(kind).removeprefix("Token.")
        code = next((code for prefix, code in _TOKENS if name.startswith(prefix)), "")
        for number, piece in enumerate(value.split("\n")):
            if number:
                row, at = row + 1, 0
            if piece and code and row < len(places):
                found[places[row]].append(ColourSpan(at + 1, at + 1 + len(piece), code))
            at += len(piece)
    return found


def _filled(line: CardLine, spans: Sequence[ColourSpan]) -> tuple[ColourSpan, ...]:
    """Add the colour of added or removed to the sign, and to text without a token's colour."""
    found, at = [ColourSpan(0, 1, SIGN[line.style])], 1
    for span in spans:
        if at < span.start:
            found.append(ColourSpan(at, span.start, BASE[line.style]))
        found.append(span)
        at = span.end
    return tuple([*found, ColourSpan(at, len(line.text), BASE[line.style])] if at < len(line.text) else found)


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import find_lexer_class_by_name

    return find_lexer_class_by_name(language)()
