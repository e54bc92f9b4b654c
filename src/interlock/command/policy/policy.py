"""First-match policy (P-1): an ordered list of rules decides allow, ask or deny for a command or a tool call.

A doubtful call is never allowed: an `allow` rule must cover every fact of it, an `ask` or `deny` rule needs one
(H-6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, get_args

import msgspec

from interlock.command.policy.globs import any_glob
from interlock.command.policy.rule import (
    MATCHES,
    Effect,
    PolicySubject,
    PolicyVerdict,
    QuorumGroup,
    Rule,
    RuleStep,
    Source,
    concerns,
    duration_ms,
    says_input,
)
from interlock.protocol.policy_terms import COMMAND_TYPES, VERBS, Door, Origin, Permission

__all__ = [
    "COMMAND_TYPES",
    "VERBS",
    "Door",
    "Effect",
    "Origin",
    "Permission",
    "PolicySubject",
    "PolicyVerdict",
    "QuorumGroup",
    "Rule",
    "RuleSet",
    "RuleStep",
    "Source",
    "duration_ms",
]

MEMORY_WRITE = Rule(name="memory flush writes memory", effect="allow", door="tool", origin="flush", kind="edit",
                    path="memory/*.md")
SHIPPED_FIRST: tuple[Rule, ...] = (
    Rule(name="memory flush does nothing else", effect="deny", origin="flush", door="tool",
         reason="A memory flush may only write memory/*.md."),
    Rule(name="no command during a flush", effect="deny", origin="flush", door="command", type="execute",
         reason="A memory flush starts no command."),
)
"""Shipped denials: no rule of a user precedes them (H-8). The first leaves MEMORY_WRITE to the later rules."""
SHIPPED: tuple[Rule, ...] = (
    MEMORY_WRITE,
    Rule(name="people may start agents that ask", effect="allow", door="command", type="execute", origin="user",
         permission="asks"),
    Rule(name="ask before an execute", effect="ask", door="command", type="execute"),
    Rule(name="ask about files that configure an agent", effect="ask", door="workspace"),
    Rule(name="steering needs no approval", effect="allow", door="command", type=list(VERBS)),
)
"""The rest of the shipped default that can be written as rules; what needs code is in `_judged` (P-1)."""

NOT_NAMED = PolicyVerdict("deny", "the command names its tools", reason="The command names the tools that it may use.")
"""A command's `tools` restrict what it may use; they allow nothing to run without a question (H-9)."""
TRUSTED_READ = PolicyVerdict("allow", "reads of an agent whose kinds are trusted")
ASK_BEFORE_TOOL = PolicyVerdict("ask", "ask before a tool")
READ_KINDS = frozenset({"read", "search"})


_Fits = Callable[[PolicySubject], bool]
_Place = tuple[str, str, str, str | None, str, str]
"""Door, tenant, permission, type, origin and agent of a subject: a few of them occur repeatedly."""
STEADY = frozenset({"tenant", "permission", "type", "origin", "agent"})
"""The match fields that a place alone decides."""
MAX_PLACES = 1_024
"""Places whose rules are cached; beyond it the cache is cleared."""


class _Ready(NamedTuple):
    """A rule prepared for decisions: its match fields that are set, but for `door`, and its verdict."""

    steady: tuple[_Fits, ...]
    others: tuple[_Fits, ...]
    verdict: PolicyVerdict


def _ready(rules: Iterable[Rule], door: Door) -> list[_Ready]:
    always = ("type",) if door == "command" else ()  # It has a meaning also if it is omitted.

    def fields(rule: Rule, *, steady: bool) -> tuple[_Fits, ...]:
        return tuple(_field(rule, name, fits) for name, fits in MATCHES if (name in STEADY) is steady
                     and (name in always or (name != "door" and getattr(rule, name) is not None)))

    return [_Ready(fields(rule, steady=True),
                   (*fields(rule, steady=False), *(_input_field(rule) if door == "tool" else ())), rule.verdict())
            for rule in rules if concerns(rule, door) and (door == "tool" or not says_input(rule))]


def _input_field(rule: Rule) -> tuple[_Fits, ...]:
    """Return the match of the input, the most expensive one; for a broad allow rule, whether the input could be
    parsed."""
    if rule.effect != "allow" and not says_input(rule):
        return ()
    return (lambda subject: rule.missed_input(subject.facts) is None,)


def _field(rule: Rule, name: str, fits: Callable[[Rule, PolicySubject], bool]) -> _Fits:
    value_of = _GLOBS.get(name)
    if value_of is None:
        return partial(fits, rule)
    pattern = any_glob(getattr(rule, name))

    def matches(subject: PolicySubject) -> bool:
        value = value_of(subject)
        return value is not None and pattern.match(value) is not None

    return matches


_GLOBS: dict[str, Callable[[PolicySubject], str | None]] = {
    "agent": lambda subject: subject.agent_id, "tool": lambda subject: subject.tool_name,
    "kind": lambda subject: subject.tool_kind,
}


class CommandVerdict(NamedTuple):
    """Policy's verdict on a command, and what it depends on."""

    verdict: PolicyVerdict
    by_asking: bool
    """It is allowed because its agent asks before its tools: otherwise it would not be."""
    by_box: bool
    """It would not be allowed without its agent's box."""


class RuleSet:
    """The rules in force. Order: shipped denials, the config's denials and quorums, remembered rules, the rest of the
    config, and then the shipped default (P-1, H-8)."""

    def __init__(self, rules: Iterable[Rule] = (), remembered: Iterable[Rule] = (), *,
                 remember_described: bool = False) -> None:
        """Create a rule set. With `remember_described` a yes may be remembered for calls that an agent only describes
        (H-2); without it such earlier rules decide nothing."""
        self.remember_described = remember_described
        self._config = tuple(rules)
        remembered = [rule for rule in remembered
                      if remember_described or rule.effect != "allow" or rule.described is not True]
        self._ordered: Sequence[tuple[Source, Rule]] = (
            *(("config", rule) for rule in self._config if _goes_first(rule)),
            *(("remembered", rule) for rule in remembered),
            *(("config", rule) for rule in self._config if not _goes_first(rule)),
        )
        self._by_door = {door: (*_ready(self.rules, door), *_ready(SHIPPED, door)) for door in get_args(Door)}
        self._places: dict[_Place, list[_Ready]] = {}
        self._commands: dict[_Place, CommandVerdict] = {}
        """Verdicts on commands at places that alone decide them."""

    @property
    def configured(self) -> Sequence[Rule]:
        """Return the config's rules, in its order."""
        return self._config

    @property
    def remembered(self) -> Sequence[Rule]:
        """Return the remembered rules, in the order of evaluation."""
        return tuple(rule for source, rule in self._ordered if source == "remembered")

    @property
    def rules(self) -> Sequence[Rule]:
        """Return the config's and the remembered rules, in the order of evaluation."""
        return tuple(rule for _, rule in self._ordered)

    def listed(self) -> Sequence[tuple[Source, Rule]]:
        """Return all rules that can be written as rules, in order, each with its source."""
        return (*(("shipped", rule) for rule in SHIPPED_FIRST), *self._ordered,
                *(("shipped", rule) for rule in SHIPPED))

    def remembering(self, rules: Iterable[Rule]) -> RuleSet:
        """Return the same config with other remembered rules."""
        return RuleSet(self._config, rules, remember_described=self.remember_described)

    def decide(self, subject: PolicySubject) -> PolicyVerdict:
        """Return the verdict of the first matching rule. A flush never asks a person: what would be asked is denied
        (Z-5)."""
        verdict = _before_rules(subject)
        if verdict is None:
            verdict = next((rule.verdict for rule in self._rules_at(subject) if _holds(rule.others, subject)),
                           None) or _judged(subject)
        if subject.origin == "flush" and verdict.effect == "ask":
            return verdict._replace(effect="deny", reason="A memory flush never asks a person.")
        return verdict

    def judge(self, subject: PolicySubject) -> CommandVerdict:
        """Decide about a command, and return what the verdict depends on."""
        if subject.box:
            verdict = self.decide(subject)
            by_box = self.decide(msgspec.structs.replace(subject, box=())).effect != "allow"
            return CommandVerdict(verdict, self._is_by_asking(subject, verdict), by_box)
        found = self._commands.get(_place(subject))
        if found is not None:
            return found
        verdict = self.decide(subject)
        found = CommandVerdict(verdict, self._is_by_asking(subject, verdict), by_box=False)
        if self._is_steady(subject) and self._is_steady(msgspec.structs.replace(subject, permission="never")):
            if len(self._commands) >= MAX_PLACES:
                self._commands.clear()
            self._commands[_place(subject)] = found
        return found

    def _is_by_asking(self, subject: PolicySubject, verdict: PolicyVerdict) -> bool:
        return (verdict.effect == "allow" and subject.permission == "asks"
                and self.decide(msgspec.structs.replace(subject, permission="never")).effect != "allow")

    def _is_steady(self, subject: PolicySubject) -> bool:
        """Return whether the place alone decides about a command: the first rule that can match there matches each
        subject."""
        rules = self._rules_at(subject)
        return subject.origin != "flush" and bool(rules) and not rules[0].others

    def _rules_at(self, subject: PolicySubject) -> list[_Ready]:
        """Return the rules that can match the subject's place, in order; computed once per place."""
        place = _place(subject)
        found = self._places.get(place)
        if found is None:
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            found = self._places[place] = [rule for rule in self._by_door[subject.door]
                                           if _holds(rule.steady, subject)]
        return found

    def explain(self, subject: PolicySubject) -> list[RuleStep]:
        """Evaluate the rules as `decide` does, up to the one that decides. Rules of other tenants, which cannot decide,
        are left out: their names are those tenants' words (K-1)."""
        if _before_rules(subject) is NOT_NAMED:
            return [RuleStep(NOT_NAMED.rule, "shipped", NOT_NAMED.effect, None)]
        steps: list[RuleStep] = []
        for source, rule in self.listed():
            if rule.tenant not in (None, subject.tenant_id):
                continue
            excepted = rule is SHIPPED_FIRST[0] and MEMORY_WRITE.missed(subject) is None
            missed = "path" if excepted else rule.missed(subject)
            steps.append(RuleStep(rule.name, source, rule.effect, missed,
                                  rule.command_like_glob() if missed == "command" else None))
            if missed is None:
                return steps
        verdict = _judged(subject)
        return [*steps, RuleStep(verdict.rule, "shipped", verdict.effect, None)]


def _place(subject: PolicySubject) -> _Place:
    return (subject.door, subject.tenant_id, subject.permission, subject.command_type, subject.origin, subject.agent_id)


def _before_rules(subject: PolicySubject) -> PolicyVerdict | None:
    """Return the verdict that precedes a user's rules: of the command's own tools, and the shipped denials (H-8,
    H-9)."""
    if subject.door == "tool" and subject.allowed_tools and subject.tool_name not in subject.allowed_tools:
        return NOT_NAMED
    if subject.origin != "flush":
        return None
    if subject.door == "tool":
        return None if MEMORY_WRITE.missed(subject) is None else SHIPPED_FIRST[0].verdict()
    return SHIPPED_FIRST[1].verdict() if SHIPPED_FIRST[1].missed(subject) is None else None


def _goes_first(rule: Rule) -> bool:
    """Return whether a rule precedes remembered ones: denials, quorums and rules marked dangerous, which a person's
    "always" never bypasses."""
    return rule.effect == "deny" or (
        rule.effect == "ask" and (rule.required > 1 or bool(rule.groups) or bool(rule.signed)
                                   or rule.require_independent or rule.dangerous or not rule.self_approval)
    )


def _holds(fields: tuple[_Fits, ...], subject: PolicySubject) -> bool:
    return not fields or all(fits(subject) for fits in fields)


def _judged(subject: PolicySubject) -> PolicyVerdict:
    """Return the end of the shipped default, which cannot be written as a rule."""
    facts = subject.facts
    reads = subject.trusted_kinds and subject.tool_kind in READ_KINDS
    if reads and facts.unclear is None and not (facts.described or facts.lines or facts.urls or facts.beside):
        return TRUSTED_READ
    return ASK_BEFORE_TOOL
