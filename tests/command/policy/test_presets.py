"""Ready-made rules (Y-4): the calls that each allows, the ones it still asks about, and which rules are broad."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from interlock.command.facts.request import RequestFacts
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.presets import PRESETS, STARTS, Preset, is_broad, rules_of
from interlock.command.policy.rule import PolicySubject, Rule
from interlock.protocol.box import CLOSED

pytestmark = pytest.mark.req("Y-4")
TOOL = PolicySubject("tool", "t1", "shell", "user", "asks", 0, tool_name="bash", tool_kind="execute")
EDIT = replace(TOOL, tool_name="write", tool_kind="edit", trusted_kinds=True)


def effect(preset: Preset, subject: PolicySubject) -> str:
    return RuleSet(rules_of([preset])).decide(subject).effect


def running(line: str) -> PolicySubject:
    return replace(TOOL, facts=RequestFacts(lines=(line,)))


def touching(subject: PolicySubject, path: str) -> PolicySubject:
    return replace(subject, facts=RequestFacts(paths=(path,)))


@pytest.mark.parametrize(("line", "answer"), [
    ("ls -la src", "allow"), ("git log --oneline | head -5", "allow"), ("cat a.txt && pwd", "allow"),
    ("cat .env", "ask"), ("git push", "ask"), ("sed -i s/a/b/ x", "ask"), ("find . -delete", "ask"),
    ("ls > out", "ask"), ("cat a & rm b", "ask"), ("pytest", "ask"), ("sort -o x y", "ask"), ("echo $(rm x)", "ask"),
])
def test_readonly_allows_reading_and_asks_about_the_rest(line: str, answer: str) -> None:
    assert effect("readonly", running(line)) == answer


@pytest.mark.parametrize(("path", "answer"), [
    ("src/a.py", "allow"), (".env", "ask"), ("Makefile", "ask"), ("a/Makefile", "ask"), (".git/hooks/x", "ask"),
    (".github/workflows/x.yml", "ask"), ("conftest.py", "ask"), ("home/.ssh/id_rsa", "ask"),
])
def test_edits_asks_before_changes_to_files_that_run_by_themselves(path: str, answer: str) -> None:
    assert effect("edits", touching(EDIT, path)) == answer
    assert effect("edits", running("ls")) == "ask"


@pytest.mark.parametrize(("line", "answer"), [
    ("pytest -q tests", "allow"), ("make test", "allow"), ("cargo build --release", "allow"), ("make deploy", "ask"),
    ("pytest --rootdir=/", "ask"), ("npm publish", "ask"), ("go run x.go", "ask"),
])
def test_ci_allows_building_and_testing(line: str, answer: str) -> None:
    assert effect("ci", running(line)) == answer


def test_boxed_allows_only_inside_a_closed_box() -> None:
    inside = replace(running("rm -r build"), box=tuple(CLOSED))
    assert effect("boxed", inside) == "allow"
    assert effect("boxed", running("rm -r build")) == "ask"
    assert effect("boxed", replace(inside, tool_kind="fetch")) == "ask"


def test_the_rules_of_several_presets_are_in_the_configs_order() -> None:
    both = rules_of(["boxed", "readonly"])
    assert both == [*PRESETS["boxed"], *PRESETS["readonly"]]
    assert rules_of([]) == []
    names = [rule.name for rules in PRESETS.values() for rule in rules]
    assert len(set(names)) == len(names)
    assert all(rule.name.startswith(f"{preset}: ") for preset, rules in PRESETS.items() for rule in rules)


def test_each_file_that_runs_by_itself_is_asked_about_in_any_directory() -> None:
    for glob in STARTS:
        path = glob.replace("**", "x/y").replace("*", "x")
        assert effect("edits", touching(EDIT, path)) == "ask", glob
        assert effect("edits", touching(EDIT, f"deep/down/{path}")) == "ask", glob


@pytest.mark.parametrize(("rule", "broad"), [
    (Rule(name="r", effect="allow"), True), (Rule(name="r", effect="allow", tool="bash"), True),
    (Rule(name="r", effect="allow", box=["writes"]), True), (Rule(name="r", effect="allow", box=True), False),
    (Rule(name="r", effect="allow", box=list(CLOSED)), False), (Rule(name="r", effect="allow", path="src/**"), False),
    (Rule(name="r", effect="allow", words="ls **"), False), (Rule(name="r", effect="allow", digest="0" * 64), False),
    (Rule(name="r", effect="allow", door="command"), False), (Rule(name="r", effect="allow", type="execute"), False),
    (Rule(name="r", effect="deny"), False), (Rule(name="r", effect="ask"), False),
])
def test_a_rule_is_broad_if_it_allows_without_looking_at_the_input(rule: Rule, broad: bool) -> None:
    assert is_broad(rule) is broad
