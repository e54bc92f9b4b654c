"""Text of agents and people, rendered so that a reader sees every character of it (H-4).

A character that a screen does not draw, draws as another one, or uses to reorder its neighbours is written as its code
point, `<U+202E>`. Letters of ordinary writing in any script are unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SPACES_SHOWN = 64
"""A longer run of spaces is written as its length: it could move the following text out of sight."""
_LOOKALIKES = frozenset({"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LISU"})
"""Scripts whose letters can be mistaken for Latin ones when both occur in one word."""
_BLANKS = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols that are drawn as blanks."""
_IGNORABLE = re.compile("[\u034f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that are not drawn: the grapheme joiner, and the variation selectors, which name one form of a character."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""General categories that are not drawn, or drawn as a blank."""
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")
_MANY_SPACES = re.compile(rf" {{{SPACES_SHOWN + 1},}}")
TABS_SHOWN = 16
_MANY_TABS = re.compile(rf"\t{{{TABS_SHOWN + 1},}}")


def visible(text: str) -> str:
    """Return a text with each character that could deceive written as its code point; newlines and tabs stay."""
    if _PLAIN.fullmatch(text) is None:
        drawn = "".join([one if " " <= one <= "~" else _drawn(one) for one in text])
        text = _WORD.sub(_without_lookalikes, drawn)
    text = _MANY_TABS.sub(lambda run: f"<{len(run[0])} tabs>", text)
    return _MANY_SPACES.sub(lambda run: f"<{len(run[0])} spaces>", text)


def one_line(text: str, limit: int) -> str:
    """Return a text on one line of at most `limit` characters; blanks are collapsed, and a cut ends in an ellipsis."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= limit else line[:limit - 1] + "…"


@lru_cache(maxsize=4_096)
def _drawn(one: str) -> str:
    if one in "\n\t":
        return one
    if unicodedata.category(one) in _HIDDEN or one in _BLANKS or _IGNORABLE.match(one) or _passes_for_ascii(one):
        return f"<U+{ord(one):04X}>"
    return one


def _passes_for_ascii(one: str) -> bool:
    """Return whether a character is a full-width, mathematical or other form of an ASCII character, or resembles the
    solidus or a quote."""
    folded = unicodedata.normalize("NFKC", one)
    return (folded != one and len(folded) == 1 and folded.isascii()) or one in "\u2044\u2215\u2216\u29f8\u02b9\u037e"


def _without_lookalikes(word: re.Match[str]) -> str:
    text = word[0]
    if text.isascii():
        return text
    scripts = {one: _script(one) for one in set(text)}
    if "LATIN" not in scripts.values():
        return text
    return "".join([f"<U+{ord(one):04X}>" if scripts[one] in _LOOKALIKES else one for one in text])


@lru_cache(maxsize=4_096)
def _script(one: str) -> str:
    return unicodedata.name(one, "").partition(" ")[0] if one.isalpha() else ""
