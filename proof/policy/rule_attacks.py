"""policy: every rule of the docs, the presets and what "always" leaves, against hostile commands and inputs (H-6, H-7).

No hostile one may pass any of them, and at least 9 in 10 ordinary commands must pass the presets: the safe way is only
used if it is usable. `--break PART` disables one part of policy; the proof must notice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from zoneinfo import ZoneInfo

import msgspec

from interlock.command.facts import programs, request, shell
from interlock.command.facts.request import AgentRequest, facts
from interlock.command.policy.policy import PolicySubject, Rule, RuleSet
from interlock.command.policy.presets import PRESETS
from interlock.command.policy.remembered_rule import offers
from interlock.command.policy.rule import concerns, listed
from interlock.protocol.clock import iso
from interlock.protocol.resources import Actor, Approval, Remembering
from proof import REPOSITORY
from proof.policy.documented_rules import read_pages
from proof.policy.hostile_commands import ORDINARY, WORKSPACE, hostile_commands, hostile_inputs

NOW_MS = 1_800_000_000_000
KINDS = ("execute", "edit", "read", "search", "other")
FITTING = {"tenant_id": "tenant", "runner_id": "runner", "workspace": "workspace", "person": "person",
           "origin": "origin", "session_id": "session", "permission": "permission"}
"""Fields of a subject that are set so that a rule's field of another name fits."""
LEAST_COMMANDS, LEAST_INPUTS, LEAST_ORDINARY = 400, 150, 100
"""How many of each a whole run tries."""
WANTED = 0.9
"""The least part of the ordinary commands that the presets allow."""
ALWAYS_ALLOWED = ("git status", "git diff --stat", "ls -l src", "pytest -q tests/test_a.py", "make test", "npm test",
                  "cat README.md", "grep -rn foo src", "find . -name x", "git log --oneline", "cargo test",
                  "go test ./...",
                  "sort names.txt", "python -m pytest -q", "npm run build")
"""Calls that a person allows with "always", in every offered width."""
EDITED = ("src/a.py", "docs/deep/page.md", "README.md")


class TestedRules(NamedTuple):
    """A set of rules, and their source."""

    origin: str
    policy: RuleSet
    agent: str
    tool: str
    kinds: tuple[str, ...]
    known: dict[str, Any]


class Found(NamedTuple):
    """What a run counted."""

    rules: dict[str, int]
    unread: list[str]
    commands: int
    inputs: int
    decisions: int
    passed_hostile: list[str]
    ordinary: int
    refused_ordinary: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing hostile passed and enough of the ordinary did."""
        allowed = self.ordinary - len(self.refused_ordinary)
        usable = allowed >= WANTED * self.ordinary
        return not self.passed_hostile and not self.unread and usable and all(self.rules.values())

    def table(self) -> str:
        """What is printed."""
        lines = [f"rules of {name:<42}{count}" for name, count in self.rules.items()]
        lines += [f"  not tested: {one}" for one in self.unread]
        lines += [f"{'hostile commands':<51}{self.commands}", f"{'hostile inputs':<51}{self.inputs}",
                  f"{'decisions':<51}{self.decisions}", f"{'hostile ones that passed':<51}{len(self.passed_hostile)}",
                  *(f"  {one}" for one in self.passed_hostile[:40]),
                  f"{'ordinary commands':<51}{self.ordinary}",
                  f"{'of them allowed by the presets':<51}{self.ordinary - len(self.refused_ordinary)}",
                  *(f"  asked about: {one}" for one in self.refused_ordinary)]
        return "\n".join(lines)


def run(seed: int, rounds: int | None, broken: str | None = None) -> bool:
    """Try all of it once; it is the same each time."""
    with out_of_action(broken):
        found = attack(hostile_commands()[:rounds], *every_rule())
    print(found.table())
    large = rounds is not None or (found.commands >= LEAST_COMMANDS and found.inputs >= LEAST_INPUTS
                                   and found.ordinary >= LEAST_ORDINARY)
    print("passed" if found.passed and large else "FAILED")
    return found.passed and large


def every_rule(root: Path = REPOSITORY) -> tuple[list[TestedRules], list[str]]:
    """Return all rules to test, with those of the pages of a tree, and a sentence for each that cannot be tested."""
    docs, unread = of_docs(root)
    return [*docs, *of_presets(), *of_always()], unread


def attack(commands: list[str], tested: list[TestedRules], unread: Sequence[str] = ()) -> Found:
    """Try every rule on every hostile command and input, and the presets on the ordinary ones."""
    inputs = hostile_inputs()
    passed: list[str] = []
    decisions = 0
    for one in tested:
        asked = [(command, AgentRequest(json.dumps({"command": command}).encode(), WORKSPACE)) for command in commands]
        for what, hostile in [*asked, *inputs]:
            understood = facts(hostile)
            for kind in one.kinds:
                decisions += 1
                verdict = one.policy.decide(_subject(one, hostile, understood, kind))
                if verdict.effect == "allow":
                    passed.append(f"{one.origin}: {verdict.rule} allows {what[:100]!r} ({kind})")
    presets = RuleSet([rule for rules in PRESETS.values() for rule in rules])
    together = TestedRules("presets", presets, "goose", "shell", KINDS, {})
    refused = [line for line in ORDINARY if not _allowed(together, line)]
    counts = {name: sum(one.origin.startswith(name) for one in tested) for name in ("docs", "preset", "always")}
    return Found(counts, list(unread), len(commands), len(inputs), decisions, list(dict.fromkeys(passed)),
                 len(ORDINARY), refused)


def _allowed(tested: TestedRules, line: str) -> bool:
    asked = AgentRequest(json.dumps({"command": line}).encode(), WORKSPACE)
    return tested.policy.decide(_subject(tested, asked, facts(asked), "execute")).effect == "allow"


def _subject(
    tested: TestedRules, asked: AgentRequest, understood: request.RequestFacts, kind: str
) -> PolicySubject:
    known: dict[str, Any] = {
        "origin": "user", "permission": "asks", "at_ms": NOW_MS, "tenant_id": "default", "agent_id": tested.agent,
        "tool_name": tested.tool, "tool_kind": kind, "workspace": WORKSPACE, "facts": understood,
        "digest": hashlib.sha256(asked.input or b"").hexdigest(), **tested.known}
    return PolicySubject(door="tool", **known)


# --- sources of rules ---
def of_docs(root: Path = REPOSITORY) -> tuple[list[TestedRules], list[str]]:
    """Return every rule on every page that allows tool calls, by itself, and a sentence for each that cannot be
    tested."""
    shown, unread, _ = read_pages(root)
    found: list[TestedRules] = []
    for origin, rule, _ in shown:
        if rule.effect != "allow" or not concerns(rule, "tool") or rule.type is not None:
            continue
        one = _fitted(f"docs {origin}", [rule])
        if (missed := _misfit(one, rule)) is not None:
            unread.append(f"{origin}: its `{missed}` fits no subject of this proof")
        found.append(one)
    return found, unread


def _misfit(tested: TestedRules, rule: Rule) -> str | None:
    """Name the field, other than those about the input, that keeps a rule from every request of this proof."""
    known = dict.fromkeys(("words", "command", "command_line", "path", "url", "digest"))
    # A rule for a box allows what happens inside it (H-18); what is tested here is that it allows nothing outside.
    bare = msgspec.structs.replace(rule, shell=[], box=None, **known)
    harmless = AgentRequest(json.dumps({"command": "true"}).encode(), WORKSPACE, described=bool(rule.described))
    return bare.missed(_subject(tested, harmless, facts(harmless), tested.kinds[0]))


def of_presets() -> Iterator[TestedRules]:
    """Each preset as it is used."""
    for name, rules in PRESETS.items():
        yield _fitted(f"preset {name}", list(rules), kinds=KINDS)


def of_always() -> Iterator[TestedRules]:
    """The rules of a person who answers "always", in every offered width."""
    calls: list[dict[str, Any]] = [{"command": line} for line in ALWAYS_ALLOWED]
    calls += [{"command": line, "description": "x", "cwd": "src"} for line in ALWAYS_ALLOWED[:3]]
    calls += [{"file_path": path, "content": "x"} for path in EDITED]
    for call in calls:
        raw = json.dumps(call).encode()
        approval = Approval(
            id="apr_1", tenant_id="default", door="tool", state="pending", created_at=iso(NOW_MS),
            expires_at=iso(NOW_MS + 1), title="x", tool_name="shell", agent_id="goose", runner_id="here",
            workspace=WORKSPACE, session_id="s1", digest=hashlib.sha256(raw).hexdigest(), input=msgspec.Raw(raw),
            rule="ask", requested_by=Actor(type="user", id="ann"))
        known = {"runner_id": "here", "person": "user:ann", "session_id": "s1"}
        asked = AgentRequest(raw, WORKSPACE)
        subject = _subject(TestedRules("", RuleSet(), "goose", "shell", KINDS, known), asked, facts(asked), "execute")
        for offer in offers(approval, subject, "grant", Remembering(scope="rule")):
            yield TestedRules(f"always {offer.width} {json.dumps(call)[:60]}", RuleSet([], [offer.rule]), "goose",
                              "shell", ("execute",), known)


def _fitted(origin: str, rules: list[Rule], kinds: tuple[str, ...] | None = None) -> TestedRules:
    """A rule with the agent, tool, kind and place that it is for, so that only the input is left to decide."""
    rule = next(rule for rule in rules if rule.effect == "allow")
    known: dict[str, Any] = {name: listed(getattr(rule, field))[0] for name, field in FITTING.items()
                             if getattr(rule, field) is not None}
    if rule.cost_over is not None:
        known["cost_usd"] = rule.cost_over + 1
    if rule.hours is not None:
        first = datetime.fromisoformat(f"2027-01-15T{rule.hours[:5].replace('24:', '00:')}")
        known["at_ms"] = int(first.replace(tzinfo=ZoneInfo(rule.zone)).timestamp() * 1000)
    return TestedRules(origin, RuleSet(rules), (listed(rule.agent) or ("goose",))[0],
                       (listed(rule.tool) or ("shell",))[0], kinds or listed(rule.kind) or ("execute",), known)


# --- what the proof must notice ---
PARTS = ("reading", "naming", "paths", "doubt")
"""reading: lines are cut only at blanks · naming: a wildcard matches any argument · paths: only `path` is one ·
doubt: text that cannot be parsed is ignored."""


def out_of_action(part: str | None) -> AbstractContextManager[object]:
    """Put one part of policy out of action, and back."""
    match part:
        case "reading":
            return patch.object(shell, "read", _cut_at_blanks)
        case "naming":
            return patch.object(programs, "must_name", _program_alone)
        case "paths":
            return patch.object(request.FactCollector, "add_text", _path_alone)
        case "doubt":
            return patch.object(request.FactCollector, "mark_unclear", _no_doubt)
        case _:
            return nullcontext()


def _cut_at_blanks(text: str, depth: int = 0) -> shell.CommandLine:
    return shell.CommandLine(text, (shell.Simple(tuple(text.split())),))


def _program_alone(words: Sequence[str]) -> set[int]:
    return {0}


def _path_alone(collector: request.FactCollector, name: str, text: str) -> None:
    if name == "path":
        collector.path(text)


def _no_doubt(collector: request.FactCollector, why: str) -> None:
    pass
