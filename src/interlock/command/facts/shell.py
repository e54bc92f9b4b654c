"""Parsing of a command line as a shell does: its simple commands word by word, and its other constructs (H-7).

The grammar of tree-sitter-bash parses it. What is plain enough for an allow rule is parsed a second time by a small
lexer of Interlock's own; if the two differ, the line is unclear, and so is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from interlock.command.facts.programs import RUNNERS, SHELLS, program

LINE_CHARS = 4_096
"""A longer command line is unclear: no allow rule covers it."""
MAX_DEPTH = 40
"""Nesting depth of constructs; a deeper line is unclear."""
MAX_NESTED = 4
"""Nesting depth of command lines in arguments (`bash -c "bash -c …"`) that deny rules examine."""
MAX_OPENINGS = 128
"""Maximum number of opening characters: the grammar takes time with the square of those that are never closed."""

MARKS = {
    "pipe": "|", "and": "&", "or": "|", "sequence": ";\n", "background": "&", "null": "<>&", "write": "<>&",
    "read": "<", "heredoc": "<", "expansion": "$", "substitution": "$`", "subshell": "(", "group": "{", "brace": "{",
    "assignment": "=", "not": "!", "comment": "#", "tilde": "~", "glob": "*?[", "compound": ";\n(", "escape": "\\",
}
"""Constructs that a line may have besides plain words, each with its characters."""


class Simple(NamedTuple):
    """A simple command: its words after quote removal; a word with an expansion is unchanged."""

    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the words with one space between them, quoted if a shell requires it."""
        return " ".join(quoted(word) for word in self.words)


class CommandLine(NamedTuple):
    """A parsed command line. `inner` are the commands inside its arguments, for deny rules only; `targets` are files
    that it redirects to or from. `unclear` is why no allow rule may cover it, None if one may."""

    text: str
    commands: tuple[Simple, ...] = ()
    inner: tuple[Simple, ...] = ()
    targets: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    assigned: tuple[str, ...] = ()
    unclear: str | None = None


_PLAIN = re.compile(r"[\w@%+=:,./^~*?\[\]{}#!-]+")


def quoted(word: str) -> str:
    """Return a word as one would type it."""
    if word and _PLAIN.fullmatch(word) is not None:
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


@lru_cache(maxsize=512)
def read(text: str, depth: int = 0) -> CommandLine:
    """Parse a command line. Never raises: what cannot be parsed is unclear."""
    text = text.strip(" \t\n")
    if not text:
        return CommandLine(text, unclear="there is no command")
    if len(text) > LINE_CHARS:
        return CommandLine(text, unclear=f"the command has more than {LINE_CHARS} characters")
    if any((ord(one) < 32 and one not in "\t\n") or 0xD800 <= ord(one) < 0xE000 or ord(one) == 127 for one in text):
        return CommandLine(text, unclear="the command has control characters")
    if sum(text.count(one) for one in "(<{`[") > MAX_OPENINGS:
        return CommandLine(text, unclear="the command is too intricate to read")
    parser = _parser()
    if parser is None:
        return CommandLine(text, unclear="the grammar for shells (tree-sitter-bash) is not installed")
    source = text.encode()
    tree = parser.parse(source)
    found = _Reading(source, depth)
    try:
        found.statement(tree.root_node, 0)
    except _Deep:
        return CommandLine(text, tuple(found.commands), unclear="the command is nested too deep to read")
    unclear = "the command is not of a shell's grammar" if tree.root_node.has_error else found.unclear
    line = CommandLine(text, tuple(found.commands), tuple(found.inner), tuple(found.targets), frozenset(found.marks),
                       tuple(found.assigned), unclear)
    if unclear is None and line.marks <= LISTED and _lexed(text) != [one.words for one in line.commands]:
        return line._replace(unclear="the command can be read in two ways")
    return line


LISTED = frozenset({"pipe", "and", "or", "sequence", "null", "glob", "tilde"})
"""Marks of lines that are read twice."""


class _Deep(Exception):
    pass


@lru_cache(maxsize=1)
def _parser() -> Any:
    """Return the parser, loaded when the first command is judged; None if the packages are missing."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Reading:
    """A walk of one syntax tree."""

    def __init__(self, source: bytes, depth: int) -> None:
        self._source, self._depth = source, depth
        self.commands: list[Simple] = []
        self.inner: list[Simple] = []
        self.targets: list[str] = []
        self.assigned: list[str] = []
        self.marks: set[str] = set()
        self.unclear: str | None = None

    def statement(self, node: Any, depth: int) -> None:
        """Read a statement of any kind."""
        if depth > MAX_DEPTH:
            raise _Deep
        kind: str = node.type
        if not node.is_named:
            self._operator(kind)
            return
        if kind == "command":
            self._command(node, depth)
            return
        if kind == "file_redirect":
            self._redirect(node, depth)
            return
        if kind == "variable_assignment":
            self._assignment(node, depth)
            return
        mark = _STATEMENTS.get(kind)
        if mark is None and kind in _WORDS:
            self._word(node, depth)
            return
        if mark is None:
            mark = "compound"
        if mark:
            self.marks.add(mark)
        if kind == "declaration_command":
            self.commands.append(Simple(tuple(self._text(child) for child in node.children)))
        statements = 0
        for child in node.children:
            statements += child.is_named and child.type != "comment"
            self.statement(child, depth + 1)
        if kind == "program" and statements > 1:
            self.marks.add("sequence")

    def _operator(self, kind: str) -> None:
        mark = _OPERATORS.get(kind)
        if mark is None:
            self.marks.add("compound")
        elif mark:
            self.marks.add(mark)

    def _command(self, node: Any, depth: int) -> None:
        words: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child, depth)
            elif child.type == "command_name":
                words += [self._word(one, depth) for one in child.children]
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                self.statement(child, depth + 1)
            elif child.is_named or child.type not in _OPERATORS:
                words.append(self._word(child, depth))
            else:
                self._operator(child.type)
        simple = Simple(tuple(words))
        self.commands.append(simple)
        self._look_inside(simple)

    def _look_inside(self, simple: Simple) -> None:
        """Collect the commands that a program would run from its arguments, whichever options come first."""
        words = simple.words
        if program(words) in RUNNERS or program(words) in ("find", "fd", "fdfind"):
            self.inner += [Simple(words[at:]) for at in range(1, len(words))]
        if self._depth >= MAX_NESTED or program(words) not in SHELLS:
            return
        for word in words[1:]:
            if any(character in word for character in " \t\n;|&"):
                line = read(word, self._depth + 1)
                self.inner += [*line.commands, *line.inner]

    def _assignment(self, node: Any, depth: int) -> None:
        self.marks.add("assignment")
        self.assigned.append(self._text(node).partition("=")[0] + "=")
        for child in node.children:
            if child.is_named and child.type not in ("variable_name", "subscript"):
                self._word(child, depth)

    def _redirect(self, node: Any, depth: int) -> None:
        destination = node.child_by_field_name("destination")
        operator = next((child.type for child in node.children if not child.is_named), "")
        value = self._word(destination, depth) if destination is not None else ""
        duplicated = operator in (">&", "<&") and value in ("0", "1", "2")
        if duplicated or (value == "/dev/null" and operator in ("<", ">", ">>", "&>", "&>>", ">&")):
            self.marks.add("null")
            return
        self.marks.add("read" if operator == "<" else "write")
        if value and not duplicated:
            self.targets.append(value)

    def _word(self, node: Any, depth: int) -> str:
        """Return the value of a word; its marks are recorded."""
        if depth > MAX_DEPTH:
            raise _Deep
        kind: str = node.type
        text = self._text(node)
        if kind in ("word", "number", "variable_name", "extglob_pattern", "regex", "test_operator", "file_descriptor"):
            return self._bare(text)
        if kind == "raw_string":
            return text[1:-1]
        if kind == "string" and all(child.type in ("string_content", '"') for child in node.children):
            if "`" in text or "$" in _UNESCAPED.sub("", text):
                self.marks.add("expansion")
            return _IN_QUOTES.sub(r"\1", text[1:-1])
        if kind == "concatenation":
            if any(one.end_byte != two.start_byte for one, two in zip(node.children, node.children[1:], strict=False)):
                self.unclear = "the command can be read in two ways"
            if any(not child.is_named and child.type in "{}" for child in node.children):
                self.marks.add("brace")
            return "".join(self._word(child, depth + 1) for child in node.children)
        self.marks.add("substitution" if kind in ("command_substitution", "process_substitution") else "expansion")
        for child in node.children:
            if child.is_named:
                self.statement(child, depth + 1)
        return text

    def _bare(self, text: str) -> str:
        plain = _UNESCAPED.sub("", text)
        if any(character in plain for character in "*?["):
            self.marks.add("glob")
        if plain.startswith("~") or "=~" in plain or ":~" in plain:
            self.marks.add("tilde")
        if "{" in plain and plain != "{}":
            self.marks.add("brace")
        if "$" in plain or "`" in plain:
            self.marks.add("expansion")
        if "\\\n" in text:
            self.marks.add("escape")
        return _ESCAPE.sub(r"\1", text)

    def _text(self, node: Any) -> str:
        return self._source[node.start_byte:node.end_byte].decode("utf-8", "replace")


_UNESCAPED = re.compile(r"\\.", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\])')
_WORDS = frozenset({
    "ansi_c_string", "arithmetic_expansion", "array", "brace_expression", "command_substitution", "concatenation",
    "expansion", "extglob_pattern", "file_descriptor", "heredoc_content", "heredoc_end", "heredoc_start",
    "number", "process_substitution", "raw_string", "regex", "simple_expansion", "special_variable_name",
    "string", "string_content", "test_operator", "translated_string", "variable_name", "word",
})
_STATEMENTS = {
    "program": "", "list": "", "pipeline": "", "redirected_statement": "", "command_name": "", "negated_command": "not",
    "comment": "comment", "subshell": "subshell", "compound_statement": "group", "herestring_redirect": "heredoc",
    "heredoc_redirect": "heredoc", "heredoc_body": "heredoc", "variable_assignments": "assignment",
    "array": "assignment",
}
_OPERATORS = {
    "|": "pipe", "&&": "and", "||": "or", ";": "sequence", "\n": "sequence", "&": "background", "|&": "pipe",
    "!": "not",
    "(": "subshell", ")": "subshell", "{": "group", "}": "group", "$(": "substitution", "`": "substitution",
    "<(": "substitution", ">(": "substitution", '"': "", "'": "", "<<": "heredoc", "<<-": "heredoc", "<<<": "heredoc",
    "$": "expansion",
}

# --- the second reading ---
_TOKEN = re.compile(r"""
    (?P<blank>[ \t]+)
  | (?P<null>(?:[0-2]|&)?>>?[ \t]*/dev/null(?=[ \t\n;|&]|$) | [0-2]?<[ \t]*/dev/null(?=[ \t\n;|&]|$)
      | [0-2]?>&[0-2](?=[ \t\n;|&]|$))
  | (?P<operator>&&|\|\||\|&?|;|\n)
  | (?P<word>(?:[A-Za-z0-9_@%+=:,./^~*?\[\]{}#!-]|[^\x00-\x7f]|'[^']*'|"(?:[^"\\$`]|\\[^\n])*"|\\[^\n])+)
""", re.VERBOSE)
_PIECE = re.compile(r"""'(?P<raw>[^']*)'|"(?P<text>(?:[^"\\]|\\.)*)"|\\(?P<one>.)|(?P<bare>[^'"\\]+)""", re.DOTALL)


def _lexed(text: str) -> list[tuple[str, ...]] | None:
    """Split a line of plain commands at its operators; None for any other line."""
    commands: list[tuple[str, ...]] = []
    words: list[str] = []
    at, glued = 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        if found["operator"] is not None:
            commands.append(tuple(words))
            words = []
        elif found["word"] is not None:
            if glued or (found["word"][0] == "#"):
                return None
            words.append("".join(_pieces(found["word"])))
        glued = found["word"] is not None or found["null"] is not None
        at = found.end()
    commands.append(tuple(words))
    return [one for one in commands if one]


def _pieces(word: str) -> Iterator[str]:
    for piece in _PIECE.finditer(word):
        if piece["text"] is not None:
            yield _IN_QUOTES.sub(r"\1", piece["text"])
        else:
            yield piece["raw"] or piece["one"] or piece["bare"] or ""
