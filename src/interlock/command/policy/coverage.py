"""The match of a rule's input fields with the facts: an allow rule must cover each, ask and deny need one (H-6,
H-7)."""

from __future__ import annotations

import posixpath
import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from interlock.command.facts import programs
from interlock.command.facts.request import MAX_DENY_TEXT_CHARS, URL, RequestFacts, relative, tokens
from interlock.command.facts.shell import MARKS, CommandLine, Simple, quoted
from interlock.command.policy.globs import path_glob, path_globs
from interlock.command.policy.patterns import Pattern, pattern

SECRETS = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.kdbx", "id_rsa", "id_ed25519", ".ssh/**", ".aws/**", ".gnupg/**",
    ".netrc", ".npmrc", ".pypirc", "credentials*", "secrets*",
)
"""Files that hold keys and passwords: a wildcard matches none of them."""
REST = "**"
"""The last item of `words` that matches any number of plain arguments."""
MAX_WORDS_CHARS = 1_000
MATCH_CHARS = 65_536
"""A longer command line matches every ask and deny rule about commands."""
ALWAYS_READ = frozenset({"null", "glob", "tilde"})
"""Marks that need not be named: nothing is written, and the words that contain them are checked."""


class CoverageTerms(NamedTuple):
    """A rule's conditions on the input; each part that is not empty must hold."""

    command: tuple[str, ...] = ()
    command_line: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    url: tuple[str, ...] = ()
    shell: frozenset[str] = frozenset()

    @property
    def says_something(self) -> bool:
        """Return whether the rule has any condition on the input."""
        return bool(self.command or self.command_line or self.words or self.path or self.url)


# --- allow ---
def uncovered(wanted: CoverageTerms, facts: RequestFacts) -> str | None:
    """Return the field of an allow rule that leaves a fact of the request uncovered; None if it covers every one."""
    if facts.described or facts.unclear is not None:
        return "input"
    if facts.beside:
        return "path" if facts.beside == ("directory",) and wanted.path and _paths_fit(wanted, facts.paths) else "input"
    if field := _runs_uncovered(wanted, facts):
        return field
    if facts.paths and not _paths_fit(wanted, facts.paths):
        return "path"
    if wanted.path and not facts.paths and not facts.lines:
        return "path"
    if facts.urls and not all(_one_of(url, wanted.url) for url in facts.urls):
        return "url"
    if wanted.url and not facts.urls and not facts.lines:
        return "url"
    return None


def _runs_uncovered(wanted: CoverageTerms, facts: RequestFacts) -> str | None:
    field = "command_line" if wanted.command_line else "words" if wanted.words else "command"
    runs = wanted.command or wanted.words or wanted.command_line
    if not facts.lines:
        return field if runs else None
    if not runs:
        return "command"
    return None if all(_line_covered(wanted, facts, line) for line in facts.read) else field


def _line_covered(wanted: CoverageTerms, facts: RequestFacts, line: CommandLine) -> bool:
    if line.text in wanted.command_line and relative(facts.directory, facts.workspace) in (".", ""):
        return True
    if line.unclear is not None:
        return False
    commands = [_as_run(command) for command in line.commands]
    named = {command: _must_be_named(command, line, wanted, facts) for command in commands}
    patterns = [pattern(source) for source in wanted.command]
    if any(_whole_line(one, line, named) for one in patterns):
        return True
    plain = not line.targets and line.marks <= (wanted.shell | ALWAYS_READ)
    if not plain or not commands or not all(command.words for command in commands):
        return False
    split = _by_program(wanted.words)
    return all(any(_words_fit(items, command.words, named[command]) for items in split.get(command.words[0], ()))
               or any(_regex_fits(one, command, named[command]) for one in patterns)
               for command in commands)


def _whole_line(one: Pattern, line: CommandLine, named: dict[Simple, set[int]]) -> bool:
    """Return whether a pattern is the complete line with everything in it written out: no class of it matches an
    operator."""
    if not line.marks or not one.covers(line.text):
        return False
    if any(not one.wild.isdisjoint(MARKS[mark]) for mark in line.marks):
        return False
    if not all(any(word.startswith(name) for word in one.begins) for name in line.assigned):
        return False
    return one.names.issuperset(line.targets) and all(
        _named_by(one, command, indexes) for command, indexes in named.items())


def _regex_fits(one: Pattern, command: Simple, named: set[int]) -> bool:
    return (one.covers(command.text) or one.covers(" ".join(command.words))) and _named_by(one, command, named)


def _named_by(one: Pattern, command: Simple, named: set[int]) -> bool:
    return all(set(command.words[at].split()) <= one.names for at in named)


def _must_be_named(command: Simple, line: CommandLine, wanted: CoverageTerms, facts: RequestFacts) -> set[int]:
    """Return the words that a wildcard must not match: what runs, writes, leaves the workspace or the host (H-7)."""
    words = command.words
    named = programs.must_name(words)
    for at, word in enumerate(words[1:], 1):
        if at in named:
            continue
        url = programs.urls_in(word)
        if (url and not _one_of(url, wanted.url)) or _is_expanded(word, line) or any(
                _leads_away(path, facts) and not _path_fits(wanted.path, facts, path)
                for path in programs.paths_in(word)):
            named.add(at)
    if programs.program(words) in programs.CHANGE_DIRECTORY:
        named |= {at for at in range(1, len(words)) if words[at].startswith("-")}
    return named


_OPEN_GLOB = re.compile(r"^(?:-.*)?[*?[]|(?:^|/)\.[^/]*[*?[]", re.DOTALL)
"""A pattern that may become an option, or a hidden name: a key file's, or with some shells the parent directory's."""


def _is_expanded(word: str, line: CommandLine) -> bool:
    """Return whether a shell may make an option or a path elsewhere of the word; zsh looks up `=ls` as a program."""
    return word.startswith("=") or ("tilde" in line.marks and "~" in word) or (
        "glob" in line.marks and _OPEN_GLOB.search(word) is not None)


def _leads_away(path: str, facts: RequestFacts) -> bool:
    return is_secret(path) or any(outside(place) or is_secret(place) for place in facts.place(path))


def _as_run(command: Simple) -> Simple:
    """Return the command as it runs: a `cd` without a directory changes to the home directory."""
    if programs.program(command.words) in programs.CHANGE_DIRECTORY and len(command.words) == 1:
        return Simple((*command.words, "~"))
    return command


@lru_cache(maxsize=4_096)
def is_secret(path: str) -> bool:
    """Return whether a path, relative to the workspace or absolute, has a name of SECRETS."""
    return path_globs(SECRETS).fullmatch(_sound(posixpath.normpath(path))) is not None


def outside(path: str) -> bool:
    """Return whether a path, as facts write it, is outside the workspace."""
    return path == ".." or path.startswith(("/", "~", "../"))


def _path_fits(globs: tuple[str, ...], facts: RequestFacts, path: str) -> bool:
    return bool(globs) and all(_place_fits(globs, place) for place in facts.place(path))


def _paths_fit(wanted: CoverageTerms, paths: Sequence[str]) -> bool:
    return bool(paths) and all(_place_fits(wanted.path, path) for path in paths)


def _place_fits(globs: tuple[str, ...], place: str) -> bool:
    """Return whether a glob matches a place. A glob that begins inside the workspace stays there: `**` does not match
    paths outside."""
    return any(path_glob(glob, any_depth=False).fullmatch(place) for glob in globs
               if not outside(place) or glob.startswith(("/", "~", "..")))


def _one_of(value: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)


@lru_cache(maxsize=1_024)
def _by_program(sources: tuple[str, ...]) -> dict[str, list[tuple[str, ...]]]:
    """Return the patterns of an allow rule by their program, which each names literally."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for items in map(_split, sources):
        found.setdefault(items[0], []).append(items)
    return found


@lru_cache(maxsize=1_024)
def _split(source: str) -> tuple[str, ...]:
    return tuple(shlex.split(source))


def _words_fit(items: tuple[str, ...], words: tuple[str, ...], named: set[int]) -> bool:
    open_ended = items[-1] == REST
    head = items[:-1] if open_ended else items
    if len(words) < len(head) or (len(words) > len(head) and not open_ended):
        return False
    for at, (item, word) in enumerate(zip(head, words, strict=False)):
        if item != word and (at in named or not _wild(item) or not fnmatchcase(word, item)):
            return False
    return not any(at >= len(head) for at in named)


def _wild(item: str) -> bool:
    return "*" in item or "?" in item


# --- ask and deny ---
def meets(wanted: CoverageTerms, facts: RequestFacts) -> str | None:
    """Return the field of an ask or deny rule that no fact of the request matches; None if each one has a fact."""
    vague = facts.vague and bool(wanted.command or wanted.words or wanted.path or wanted.url)
    if vague and (sum(map(len, facts.texts)) > MAX_DENY_TEXT_CHARS
                  or any(len(line) > MATCH_CHARS for line in facts.lines)):
        return None
    searched = _searched(facts) if vague else ()
    if wanted.command_line and not any(line in facts.lines for line in wanted.command_line):
        return "command_line"
    if wanted.command and not any(_command_met(pattern(one), facts, searched) for one in wanted.command):
        return "command"
    if wanted.words and not any(_words_met(_split(one), facts, searched) for one in wanted.words):
        return "words"
    if wanted.path and not _path_met(wanted.path, facts, searched):
        return "path"
    if wanted.url and not any(_one_of(url, wanted.url) for url in _urls(facts, searched)):
        return "url"
    return None


def _searched(facts: RequestFacts) -> tuple[str, ...]:
    """Return all text of a request that could not be parsed: as it is, and with its blanks and quotes normalised."""
    texts = dict.fromkeys((*facts.texts, *facts.lines))
    return tuple(dict.fromkeys(form for text in texts for form in (text, _even(text))))


def _even(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = "".join(one for one in text if unicodedata.category(one) not in ("Cf", "Cc") or one in "\t\n ")
    return re.sub(r"[ \t\n]+", " ", re.sub(r"['\"`\\]", "", text))


def _command_met(one: Pattern, facts: RequestFacts, searched: tuple[str, ...]) -> bool:
    texts = dict.fromkeys(_command_texts(facts))
    return any(one.covers(text) for text in texts) or any(one.occurs(text) for text in searched)


def _command_texts(facts: RequestFacts) -> Iterator[str]:
    for line, whole in zip(facts.read, facts.lines, strict=True):
        yield _sound(whole)
        for command in (*line.commands, *line.inner):
            for words in _spellings(command.words):
                yield _sound(" ".join(words))
                yield _sound(" ".join(map(quoted, words)))


def _sound(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _spellings(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the same command with its program's bare name, and without the options before the operation."""
    yield words
    if not words:
        return
    name = programs.program(words)
    if name != words[0]:
        yield (name, *words[1:])
    if name in programs.DISPATCHERS:
        at = 1
        while at < len(words) and (words[at].startswith("-") or words[at - 1].startswith("-")):
            at += 1
            yield (name, *words[at:])


def _words_met(items: tuple[str, ...], facts: RequestFacts, searched: tuple[str, ...]) -> bool:
    for line in facts.read:
        for command in (*line.commands, *line.inner):
            if any(_words_fit(items, words, set()) for words in _spellings(command.words) if words):
                return True
    literal = " ".join(item for item in items if not _wild(item))
    return any(literal in text for text in searched)


def _path_met(globs: tuple[str, ...], facts: RequestFacts, searched: tuple[str, ...]) -> bool:
    parts = (part for text in searched for part in tokens(text))
    found = dict.fromkeys((*facts.paths, *_argument_paths(facts), *parts))
    return any(_path_denied(globs, path) for path in found)


@lru_cache(maxsize=4_096)
def _path_denied(globs: tuple[str, ...], path: str) -> bool:
    denied = path_globs(globs)
    return any(denied.fullmatch(form) is not None for form in dict.fromkeys(_path_forms(path)))


def _argument_paths(facts: RequestFacts) -> Iterator[str]:
    for line in facts.read:
        for word in (*line.targets, *(word for command in (*line.commands, *line.inner) for word in command.words)):
            for part in dict.fromkeys((word, *programs.paths_in(word))):
                yield part
                yield from facts.place(part)


def _path_forms(path: str) -> Iterator[str]:
    for form in (posixpath.normpath(path), unicodedata.normalize("NFKC", posixpath.normpath(path.strip()))):
        yield _sound(form)
        yield _sound(f"{form}/")  # A denial of all below a directory also denies its removal.
    seen = "".join(one for one in path if one.isascii() or unicodedata.category(one) != "Cf")
    if seen != path:  # Some file systems pass over characters that are not shown.
        yield from _path_forms(seen)


def _urls(facts: RequestFacts, searched: tuple[str, ...]) -> Iterator[str]:
    yield from facts.urls
    for line in facts.read:
        for command in (*line.commands, *line.inner):
            yield from (url for word in command.words if (url := programs.urls_in(word)))
    for text in searched:
        yield from URL.findall(text)


# --- validation of a config ---
def check_words(source: str, *, allows: bool) -> None:
    """Check that `words` have a meaning, and do not leave open what is run. Raises ValueError with one sentence."""
    if not 0 < len(source) <= MAX_WORDS_CHARS:
        raise ValueError(f"words: from 1 to {MAX_WORDS_CHARS} characters")
    try:
        items = shlex.split(source)
    except ValueError:
        raise ValueError(f"words: a quote is not closed in {source!r}") from None
    if not items or REST in items[:-1]:
        raise ValueError(f'words: write a program and its words, such as "git status **"; {REST} is the last of them')
    if any(item and set(item) <= set(";&|<>()") for item in items):
        raise ValueError(f"words: {source!r} holds an operator; `shell` names those that a rule allows")
    if not allows:
        return
    name = programs.program(items)
    fixed = len(items) if name in programs.RUNNERS else programs.fixed_words(items)
    open_at = [item for item in items[:fixed] if _wild(item)]
    if open_at and name in programs.RUNNERS:
        raise ValueError(f"words: {source!r} leaves open what {name} runs; write every word")
    if open_at:
        raise ValueError(f'words: {source!r} leaves open what is run; write the words before {open_at[0]}, as in '
                         '"git status **"')


def check_command(source: str, *, allows: bool) -> None:
    """Check that RE2 accepts a `command`, and that it allows no other command after the one it names. Raises
    ValueError."""
    try:
        found = pattern(source)
    except ValueError as error:
        raise ValueError(f"command: {error}") from None
    if allows and found.open is not None:
        raise ValueError(
            f"command: {found.open} in {source!r} also matches `; x` and `$(x)`, so the rule would allow any command "
            f"behind the one it names; write words instead, such as {_safe_form(source)}, or a class without "
            "; & | < > ( ) $ and `")


def _safe_form(source: str) -> str:
    """Return the recommended form: the words that the pattern begins with, and plain arguments after them."""
    head = re.match(r"[\w./ -]*[\w/-](?=$|[ (\[.|\\])", source)
    items = head[0].split() if head else []
    text = " ".join([*items, REST]) if items else "git status **"
    try:
        check_words(text, allows=True)
    except ValueError:
        text = "git status **"
    return f'["{text}"]'
