"""Colours inside a command line or JSON on a terminal: only visible text is coloured, and its characters are unchanged
(Y-2, H-4)."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TextIO

from interlock.cli.display.terminal import has_colour

Language = Literal["bash", "json"]
_BASE: dict[Language, str] = {"bash": "1", "json": ""}
"""The style of text that matches none of the tokens below: a command is bold."""
_TOKENS = (("Comment", "2"), ("Literal.String", "32"), ("Name.Variable", "36"), ("Name.Tag", "36"),
           ("Literal.Number", "35"), ("Operator", "1;35"), ("Punctuation", "1;35"), ("Keyword", "1;34"),
           ("Name.Builtin", "1;34"))
"""ANSI colours by pygments' token types; they are legible on light and on dark backgrounds."""


def highlighted(text: str, language: Language, stream: TextIO) -> str:
    """Colour one row of a language. Returns the text as it is if the stream takes no colours."""
    if not text.strip() or not has_colour(stream):
        return text
    found: list[tuple[int, object, str]] = list(_lexer(language).get_tokens_unprocessed(text))
    tokens = [(str(kind).removeprefix("Token."), value) for _, kind, value in found]
    if "".join(value for _, value in tokens) != text:  # A colour must never change a character.
        return text
    return "".join(_painted(value, kind, _BASE[language]) for kind, value in tokens)


def _painted(value: str, kind: str, base: str) -> str:
    code = next((code for name, code in _TOKENS if kind.startswith(name)), base)
    return f"\x1b[{code}m{value}\x1b[0m" if code and value.strip() else value


@cache
def _lexer(language: Language) -> Any:
    from pygments.lexers.data import JsonLexer
    from pygments.lexers.shell import BashLexer

    return BashLexer() if language == "bash" else JsonLexer()
