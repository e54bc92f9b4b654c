"""Stored patterns of rules, matched by RE2: in time proportional to the text, whatever the pattern.

Python's own `re` backtracks: a stored `(a+)+b` blocked a whole gateway for 26 s. No user's pattern is passed to it.
"""

from __future__ import annotations

import re as _re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import re2

_RE2: Any = re2
_ERROR: type[Exception] = _RE2.error

MAX_PATTERN_CHARS = 1_000
MAX_PROGRAM_BYTES = 1 << 20
"""Memory of one compiled pattern: `(a{1000}){1000}` needs more, and is refused."""
SEPARATORS = ";&|<>()$`\n"
"""Characters that start another command, a redirection or an expansion in a shell."""
SPECIAL = SEPARATORS + "=!#~*?[{\\"
"""The separators, and the other characters with a special meaning to a shell."""
_GLOB = _re.compile(r"(?:\s|(?<!\\)[\w/])\*(?=\s|$|\.\w)")


class Pattern(NamedTuple):
    """A compiled pattern and its properties.

    `wild` holds the characters of SPECIAL that a class or dot of it matches; `open` is such a class or dot that is
    repeated and matches one of SEPARATORS, None if there is none; `names` are the words that it contains literally,
    `begins` those and the beginnings of words that a class continues.
    """

    regex: Any
    wild: frozenset[str]
    open: str | None
    names: frozenset[str]
    begins: frozenset[str]

    def covers(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self.regex.fullmatch(text) is not None

    def occurs(self, text: str) -> bool:
        """Return whether some part of the text matches."""
        return self.regex.search(text) is not None


def reads_as_glob(source: str) -> bool:
    """Return whether a pattern looks like a glob of a shell, such as `echo *`. As an expression, its star repeats the
    character before it."""
    return _GLOB.search(source) is not None


@lru_cache(maxsize=1_024)
def pattern(source: str) -> Pattern:
    """Compile a pattern. Raises ValueError with one sentence."""
    if not 0 < len(source) <= MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern has from 1 to {MAX_PATTERN_CHARS} characters")
    regex = compiled(source)
    atoms = list(_atoms(source))
    wild = {character for atom in atoms if atom.literal is None for character in _matched(atom.text, SPECIAL)}
    opening = next((atom.text for atom in atoms
                    if atom.literal is None and atom.repeated and _matched(atom.text, SEPARATORS)), None)
    names, begins = _words(atoms)
    return Pattern(regex, frozenset(wild), opening, names, begins)


@lru_cache(maxsize=2_048)
def compiled(source: str, *, ignore_case: bool = False) -> Any:
    """Compile with RE2 alone. Raises ValueError with RE2's own reason."""
    options = _RE2.Options()
    options.log_errors, options.dot_nl, options.never_capture = False, True, True
    options.case_sensitive, options.max_mem = not ignore_case, MAX_PROGRAM_BYTES
    try:
        return _RE2.compile(source, options)
    except (_ERROR, UnicodeEncodeError) as error:
        raise ValueError(f"not a regular expression of RE2's syntax: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


class _Atom(NamedTuple):
    """A position in a pattern: a literal character, a class (`literal` None), or a boundary (`text` "")."""

    text: str
    literal: str | None
    repeated: bool = False
    optional: bool = False


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_TOKEN = _re.compile(r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z) | \\x\{(?P<long>[0-9A-Fa-f]+)\} | \\x(?P<short>[0-9A-Fa-f]{2})
  | \\(?P<octal>[0-7]{1,3}) | (?P<property>\\[pP](?:\{[^}]*\}|.)) | (?P<perl>\\[dDwWsSC]) | \\(?P<edge>[bBAzZ])
  | \\(?P<escaped>.) | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]) | (?P<any>\.)
  | (?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*[:)]))?) | (?P<close>\)) | (?P<other>[|^$])
  | (?P<times>\*|\+|\?|\{\d+(?:,\d*)?\})\??\+? | (?P<letter>.)
""", _re.VERBOSE | _re.DOTALL)


def _atoms(source: str) -> list[_Atom]:
    """Split a pattern that RE2 accepted into positions; a quantifier marks each position of the group that it
    follows."""
    atoms: list[_Atom] = []
    groups: list[int] = []
    last = 0  # The start of the atom or group that a quantifier would apply to.
    for found in _TOKEN.finditer(source):
        kind = found.lastgroup or ""
        value = found[kind]
        if kind == "times":
            often = value in "*+" or (value[0] == "{" and value not in ("{0}", "{1}", "{0,1}", "{1,1}"))
            maybe = value in "*?" or value.startswith("{0")
            atoms[last:] = [atom._replace(repeated=atom.repeated or often, optional=atom.optional or maybe)
                            for atom in atoms[last:]]
            atoms.append(_Atom("", ""))
            continue
        if kind == "open":
            groups += [len(atoms)] if not value.endswith(")") else []
            atoms.append(_Atom("", ""))
        elif kind == "close":
            last = groups.pop() if groups else len(atoms)
            atoms.append(_Atom("", ""))
            continue
        elif kind == "quoted":
            atoms += [_Atom(character, character) for character in value]
        else:
            atoms.append(_atom(kind, value))
        last = len(atoms) - 1
    return atoms


def _atom(kind: str, value: str) -> _Atom:
    match kind:
        case "long" | "short":
            return _Atom(value, chr(min(int(value, 16), 0x10FFFF)))
        case "octal":
            return _Atom(value, chr(int(value, 8)))
        case "property" | "perl" | "set" | "any":
            return _Atom(value, None)
        case "escaped":
            return _Atom(value, _ESCAPED.get(value, value))
        case "letter":
            return _Atom(value, value)
        case _:
            return _Atom("", "")


def _matched(text: str, characters: str) -> Iterator[str] | list[str]:
    try:
        one = compiled(text)
    except ValueError:  # Not supported here, so it may match anything.
        return list(characters)
    return [character for character in characters if one.fullmatch(character) is not None]


def _words(atoms: list[_Atom]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that are complete in a pattern, and those with the beginnings of words before a class."""
    names: set[str] = set()
    begins: set[str] = set()
    run, after_class = "", False
    for atom in [*atoms, _Atom("", "")]:
        if atom.literal and (atom.optional or not atom.repeated):
            run += atom.literal
            continue
        words = run.split()
        if words and after_class and not run[0].isspace():
            words = words[1:]
        begins.update(words)
        if words and atom.literal is None and not run[-1].isspace():
            words = words[:-1]
        names.update(words)
        run, after_class = "", atom.literal is None
    return frozenset(names), frozenset(begins)
