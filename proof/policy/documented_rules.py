"""Policy rules in the documentation: in fences of any kind, in commands for readers to type, and in the middle of a
sentence or a table."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlock import config
from interlock.command.policy.policy import Rule
from proof import REPOSITORY
from proof.json_value import Json

FENCE = re.compile(r"^([ >]*)(`{3,}|~{3,})[ ]*(\w*)[^\n]*\n(.*?)^\1\2`*~*[ ]*$", re.MULTILINE | re.DOTALL)
SHOWS_RULE = re.compile(r"""\[\[?\s*policy\b|\bpolicy\s*=|["']?\beffect["']?\s*[=:]\s*["'](?:allow|ask|deny)""")
"""A fence with this text contains a rule, with any language."""
TYPED = re.compile(r"\binterlock approve [^`\n]*")
INLINE = re.compile(r"`((?:words|command|command_line|path|url) *= *[^`]+|[\w./-]+(?: [^`|=]+)? \*\*)`"
                    r"((?:, `[^`]+`)*\)? is refused)?")
"""A member of a rule in a sentence or a table, or a pattern of words that ends with `**`."""
REFUSED_TABLE = re.compile(r"^\| *refused *\|")
"""The head of a table whose first column has what is refused."""
KEPT = ("words", "command", "path")
"""What a person widens an "always" with."""


class Shown(NamedTuple):
    """A rule that a page shows, and where."""

    origin: str
    rule: Rule
    inline: bool = False


class Pages(NamedTuple):
    """The rules of a tree's pages, and a sentence for each example that could not be read as rules."""

    rules: list[Shown]
    unread: list[str]
    refused: tuple[str, ...] = ()
    """Examples that a page calls refused, and that are."""


def pages(root: Path = REPOSITORY) -> Iterator[Path]:
    """Find every page of a tree: those beside its README, and all below docs, deploy and examples."""
    yield from sorted(root.glob("*.md"))
    for folder in ("docs", "deploy", "examples"):
        yield from sorted((root / folder).rglob("*.md"))


def read_pages(root: Path = REPOSITORY) -> Pages:
    """Read all rules of all pages. An example that shows a rule and cannot be read is reported, not passed over."""
    rules: list[Shown] = []
    unread: list[str] = []
    refused: list[str] = []
    for page in pages(root):
        name, text = str(page.relative_to(root)), page.read_text("utf-8")
        for indent, _, language, body in FENCE.findall(text):
            # A fence in a list or a quotation has its indent before each line.
            plain = textwrap.dedent("\n".join(line.removeprefix(indent) for line in body.splitlines()))
            if not SHOWS_RULE.search(plain):
                continue
            try:
                rules += [Shown(f"{name} {rule.name}", rule) for rule in _written(plain, language, name)]
            except (ValueError, config.ConfigError) as error:
                unread.append(f"{name}: an example with a rule cannot be read: {' '.join(str(error).split())}")
        for line in dict.fromkeys(TYPED.findall(text)):
            try:
                rules += [Shown(f"{name} {line}", rule) for rule in _typed(line)]
            except ValueError as error:
                unread.append(f"{name}: {line}: {error}")
        for fragment, is_refused in _inline(FENCE.sub("", text)):
            try:
                rule = _fragment(fragment)
            except ValueError as error:
                (refused if is_refused else unread).append(f"{name}: {fragment}: {error}")
                continue
            if is_refused:
                unread.append(f"{name}: {fragment}: the page calls it refused, and it is a rule")
            rules.append(Shown(f"{name} {fragment}", rule, inline=True))
    return Pages(rules, unread, tuple(refused))


def _inline(text: str) -> Iterator[tuple[str, bool]]:
    """Find members of rules outside of fences, and whether the page calls each refused."""
    table = ""
    for line in text.splitlines():
        table = (table or line) if line.startswith("|") else ""
        for found in INLINE.finditer(line):
            first = line[: found.start()].strip(" |") == ""
            refused = bool(found[2]) or (first and REFUSED_TABLE.match(table) is not None)
            yield found[1].replace("\\|", "|"), refused


def _fragment(text: str) -> Rule:
    """Read a rule that allows from one member of it, or from a pattern of words. Raises ValueError."""
    fields: dict[str, Any] = tomllib.loads(text) if "=" in text else {"words": text}
    return Rule(name=text, effect="allow", door="tool", **fields)


def _written(text: str, language: str, page: str) -> list[Rule]:
    """Read the rules of a fence. Raises ValueError or ConfigError."""
    if language == "json":
        return [msgspec.convert(one, Rule) for one in _objects(json.loads(text)) if "effect" in one]
    rules = config.parse(text, page).policy.in_force
    if not rules:
        raise ValueError("it sets no rule; write it as [[policy.rules]] of a config")
    return rules


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _objects(one)


def _typed(line: str) -> Iterator[Rule]:
    """Read what `interlock approve … --always rule` leaves with a width that the person writes. Raises ValueError."""
    words = iter(shlex.split(line.partition(" #")[0]))
    fields: dict[str, Any] = {}
    for word in words:
        option, _, value = word.partition("=")
        if option.removeprefix("--") in KEPT and option.startswith("--"):
            fields[option.removeprefix("--")] = value or next(words, "")
    if fields:
        yield Rule(name=line, effect="allow", door="tool", **fields)
