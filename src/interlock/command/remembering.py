"""A person's "always" as a rule of policy, made from the approval that it was said on (A-9, P-1)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.policy import Effect, Rule, Subject
from interlock.protocol.problems import Place, Problem, malformed
from interlock.protocol.resources import Approval, Decision, RememberedRule, Remembering, RuleMatch

GLOB_CHARS = frozenset("*?")
"""A path that has one of these in its name cannot be written as a glob that means it alone."""


def rule_of(approval: Approval, subject: Subject, decision: Decision, wish: Remembering) -> Rule:
    """The rule that a vote with `remember` leaves behind, shown before it is saved.

    Without `match` it covers the input that was asked for, and no other: its command line, its paths, else its digest.
    Raises Problem where the wish does not fit the approval.
    """
    if approval.required > 1 or approval.groups or approval.signed or not approval.self_approval:
        raise Problem("Conflict", f"the rule {approval.rule} wants more than one person's plain yes each time; "
                      "one person's always cannot stand for it", hint="Vote without remember.")
    if approval.kind == "question":
        raise malformed("/remember", "a question is answered each time")
    match = wish.match or RuleMatch()
    wide = match.any_input or match.command is not None or match.path is not None
    effect: Effect = "allow" if decision == "grant" else "deny"
    fields: dict[str, Any] = {
        "tenant": approval.tenant_id, "door": approval.door, "agent": approval.agent_id,
        "tool": match.tool or approval.tool_name, "command": match.command, "path": match.path,
        "session": approval.session_id if wish.scope == "session" else None,
        "type": subject.command_type, "origin": subject.origin if approval.door == "command" else None,
        **({} if wide else _this_input(subject)),
    }
    try:
        rule = Rule(name=_name(approval, wish), effect=effect, **fields)
    except ValueError as error:
        field, _, sentence = str(error).partition(": ")
        raise Problem("InvalidPayload", f"/remember/match/{field}: {sentence}",
                      errors=(Place(f"/remember/match/{field}", sentence),)) from None
    missed = rule.missed(subject)
    if missed is not None:
        raise Problem("InvalidPayload", f"/remember/match: its {missed} does not fit the call that is voted on",
                      errors=(Place("/remember/match", f"{missed} does not fit"),))
    return rule


def plain(rule: Rule) -> dict[str, Any]:
    """A rule as the config would say it: only what is set."""
    members = msgspec.to_builtins(rule)
    defaults = msgspec.to_builtins(Rule(name="-", effect=rule.effect))
    return {name: value for name, value in members.items() if name in ("name", "effect") or value != defaults[name]}


def read(remembered: RememberedRule) -> Rule:
    """The rule of a row, by the name that decisions show. Raises ValueError where it cannot be read any more."""
    try:
        rule = msgspec.convert(remembered.rule, Rule)
    except msgspec.ValidationError as error:
        raise ValueError(f"remembered rule {remembered.id}: {error}") from None
    return msgspec.structs.replace(rule, name=f"{remembered.id}: {rule.name}")


def _this_input(subject: Subject) -> dict[str, Any]:
    """What names this very input. Shown as what a person can read, where that says it all."""
    if subject.command_line is not None and subject.command_only:
        return {"command_line": subject.command_line}
    return {"digest": subject.digest}


def _name(approval: Approval, wish: Remembering) -> str:
    where = "in one session" if wish.scope == "session" else "always"
    return f"{approval.tool_name or 'run'} of {approval.agent_id} {where}"
