"""The documentation matches the program: generated pages, links, commands, examples, policies, error codes."""

from __future__ import annotations

import importlib.util
import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import pytest
import yaml

from interlock import config
from interlock.command.facts.request import RequestFacts
from interlock.command.policy.policy import PolicySubject, RuleSet
from interlock.protocol.codes import Code
from interlock.protocol.extras import Extra, install
from interlock.protocol.problems import PROBLEMS

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "decisions")
FRONT = [REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
POLICIES = DOCS / "how-to/policies.md"
ERRORS = DOCS / "how-to/errors.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
OUT_OF_PLACE = re.compile(r"/tmp/|/home/(?!ann/)")


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "reference/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def blocks(path: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(path.read_text("utf-8")) if language in languages]


# --- the reference ---
@pytest.mark.req("G-7", "F-2")
@pytest.mark.parametrize("page", GENERATOR.PAGES)
def test_the_reference_is_generated_from_the_program(page: str) -> None:
    written = (DOCS / "reference" / page).read_text("utf-8")
    assert written == GENERATOR.PAGES[page](), "run: python docs/reference/generate.py"


# --- links ---
def anchor(heading: str) -> str:
    """The anchor that a heading is given: lower case, no punctuation, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", path.read_text("utf-8")))}


@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=name)
def test_every_link_has_a_target(path: Path) -> None:
    for target in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        place, _, part = target.partition("#")
        found = (path.parent / place).resolve() if place else path
        assert found.exists(), f"{target}: there is no such page"
        if part:
            assert part in anchors(found), f"{target}: the page has no such heading"


def test_every_page_can_be_reached_from_another() -> None:
    linked = {(path.parent / target.partition("#")[0]).resolve()
              for path in [*PAGES, *FRONT] for target in LINK.findall(path.read_text("utf-8"))}
    assert [name(path) for path in PAGES if path not in linked and path != DOCS / "README.md"] == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_page_names_a_path_that_readers_do_not_have(path: Path) -> None:
    assert OUT_OF_PLACE.findall(path.read_text("utf-8")) == []


# --- commands ---
class Typed(NamedTuple):
    """One `interlock …` that a page has people type."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)


def commands(path: Path) -> Iterator[Typed]:
    """Find the commands: lines after `$` of a console block, all lines of a shell block, and text in backticks."""
    text = path.read_text("utf-8")
    lines = [line[2:] for body in blocks(path, "console") for line in body.splitlines() if line.startswith("$ ")]
    lines += [body.replace("\\\n", " ") for body in blocks(path, "sh")]
    lines += [body for body in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)) if body.startswith("interlock ")]
    for line in lines:
        for words in simple_commands(line):
            if words[0] == "interlock" and len(words) > 1:
                yield Typed(words[1:])


def simple_commands(line: str) -> Iterator[tuple[str, ...]]:
    """Split a shell's lines at their operators, quotes respected; `…` marks omitted text."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n")
    reader.whitespace_split = True
    reader.whitespace = " \t"
    words: list[str] = []
    for token in [*reader, ";"]:
        if not set(token) <= set("();<>|&\n"):
            words += [token] if token != "…" else []
        elif words:
            yield tuple(words)
            words = []


def check_typed(typed: Typed) -> None:
    """The verb is one of the program's, and so is each option; a value of an option is not looked at."""
    known = dict(GENERATOR.every_verb())
    words = list(typed.words)
    if words[0].startswith("-") or words[0] in ("VERB",):
        return
    verb = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
    if verb not in known:
        group = {one.split()[0] for one in known if " " in one}
        assert verb in group, f"interlock {typed}: no such verb"
        assert len(words) == 1, f"interlock {typed}: {verb} has no {words[1]}"
        return
    names = {option for found in GENERATOR.options(verb) for option in found.names} | {"--help"}
    for word in words[len(verb.split()):]:
        if word.startswith("--"):
            assert word.partition("=")[0] in names, f"interlock {typed}: {verb} has no {word}"


def test_no_page_and_no_message_installs_an_unpublished_name() -> None:
    for path in [REPOSITORY / "README.md", *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("src/**/*.py")]:
        assert "install interlock" not in path.read_text("utf-8"), path
        assert "interlock[" not in path.read_text("utf-8"), path


@pytest.mark.parametrize("name", get_args(Extra))
def test_every_recommended_extra_can_be_installed(name: str) -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert name in declared
    assert f"'.[{name}]'" in install(name)


@pytest.mark.req("G-7")
@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=name)
def test_every_command_of_the_pages_exists(path: Path) -> None:
    for typed in commands(path):
        check_typed(typed)


@pytest.mark.req("G-7")
@pytest.mark.parametrize("typed", ["attack", "run shell --slowly", "audit forge", "config check --fix"])
def test_an_unknown_command_is_found(typed: str) -> None:
    with pytest.raises(AssertionError):
        check_typed(Typed(tuple(typed.split())))


def test_the_tutorial_types_every_step() -> None:
    verbs = [typed.words[0] for typed in commands(DOCS / "tutorial.md")]
    way = iter(verbs)
    assert all(step in way for step in ["up", "doctor", "run", "run", "run", "approvals", "approve", "attach", "audit"])


# --- examples ---
@pytest.mark.req("G-1")
@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_toml_example_is_a_config(path: Path) -> None:
    for number, body in enumerate(blocks(path, "toml")):
        config.parse(body, f"{name(path)}[{number}]")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_json_example_is_json(path: Path) -> None:
    bodies = blocks(path, "json")
    bodies += [body for block in blocks(path, "sh") for body in re.findall(r"-d '(.*?)'", block, re.DOTALL)]
    bodies += [line for block in blocks(path, "console") for line in block.splitlines() if line.startswith("{")]
    for body in bodies:
        json.loads(body)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_yaml_example_is_yaml(path: Path) -> None:
    for body in blocks(path, "yaml"):
        assert isinstance(yaml.safe_load(body), dict)


def test_every_fence_is_closed_and_has_a_known_name() -> None:
    for path in PAGES:
        assert path.read_text("utf-8").count("\n```") % 2 == 0, name(path)
        languages = {language for language, _ in FENCE.findall(path.read_text("utf-8"))}
        known = {"", "sh", "console", "toml", "json", "js", "lua", "elisp", "nginx", "mermaid", "python", "yaml"}
        assert languages <= known, name(path)


# --- policies ---
class Example(NamedTuple):
    """One row of a table in policies.md, under the rules above it."""

    section: str
    rules: str
    asked: str
    decision: str
    rule: str


def examples() -> list[Example]:
    found: list[Example] = []
    for section in re.split(r"^## ", POLICIES.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        rules = "\n".join(body for language, body in FENCE.findall(section) if language == "toml")
        found += [Example(title, rules, row[0].replace("\\|", "|"), *row[1:])
                  for row in re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", section, re.MULTILINE)]
    return found


def subject(asked: str) -> PolicySubject:
    """Read `tool agent=shell command="ls -l"`."""
    door, *pairs = shlex.split(asked)
    fields = dict(pair.split("=", 1) for pair in pairs)
    at = fields.pop("at", "2026-11-21T12:00:00Z")
    path, line = fields.pop("path", None), fields.pop("command", None)
    more: dict[str, Any] = {
        "tool_kind": fields.pop("kind", None),
        "trusted_kinds": fields.pop("trusted", "no") == "yes",
        "facts": RequestFacts(paths=(posixpath.normpath(path),) if path else (), lines=(line,) if line else ()),
        "tool_name": "some_tool" if door == "tool" else None,
        "command_type": fields.pop("type", "execute") if door == "command" else None,
    }
    made = PolicySubject(door, "default", fields.pop("agent"), fields.pop("origin", "user"),
                         fields.pop("permission", "asks"),  # pyright: ignore[reportArgumentType]
                         int(datetime.fromisoformat(at).timestamp() * 1000), **more)
    assert not fields, f"{asked}: {', '.join(fields)} is not known here"
    return made


@pytest.mark.req("P-1")
@pytest.mark.parametrize("example", examples(), ids=lambda one: f"{one.section}: {one.asked}")
def test_a_policy_decides_as_the_page_describes(example: Example) -> None:
    policy = RuleSet(config.parse(example.rules, "policies.md").policy.rules)
    verdict = policy.decide(subject(example.asked))
    decided = f"{verdict.effect} {verdict.required}" if verdict.required > 1 else verdict.effect
    assert (decided, verdict.rule) == (example.decision, example.rule)


@pytest.mark.req("P-1")
def test_every_rule_on_the_page_decides_an_example() -> None:
    deciding = {(one.section, one.rule) for one in examples()}
    for section, rules in {(one.section, one.rules) for one in examples()}:
        named = {(section, rule.name) for rule in config.parse(rules, "policies.md").policy.rules}
        assert named <= deciding


# --- errors ---
@pytest.mark.req("F-1", "W-2")
def test_every_code_has_its_section_and_no_section_is_left_over() -> None:
    text = ERRORS.read_text("utf-8")
    sections = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert len(sections) == len(set(sections))
    own = {"AgentLost", "LedgerRestored", "AgentExited", "Detached", "Reattached", "Truncated", "ToolsNotGated",
           "RanUnasked", "RanOtherThanAllowed", "StoppedAsking", "EmptyTurn", "AgentStopped", "BudgetOverrun",
           "PromptRefused"}
    assert set(sections) == set(PROBLEMS) | {code.value for code in Code} | own


@pytest.mark.req("F-1")
@pytest.mark.parametrize("code", PROBLEMS)
def test_a_section_names_the_status_of_its_code(code: str) -> None:
    section = ERRORS.read_text("utf-8").split(f"\n## {code}\n", 1)[1].split("\n## ", 1)[0]
    if code == "Canceled":  # Never the answer to a request.
        return
    assert re.search(rf"\b{PROBLEMS[code].status}\b", section)
    assert "not sent yet" not in section.lower()


@pytest.mark.req("F-1")
def test_every_code_is_raised_and_no_other() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (REPOSITORY / "src/interlock").rglob("*.py"))
    raised = set(re.findall(r"Problem\(\s*\"(\w+)\"", source))
    assert raised == set(PROBLEMS) - {"Canceled"}
