"""A person's "always" as a rule of policy, derived from its approval and no wider than it (A-9, H-8)."""

from __future__ import annotations

import posixpath
from typing import Any, NamedTuple

import msgspec

from interlock.command.facts import programs
from interlock.command.facts.shell import quoted
from interlock.command.policy.coverage import REST
from interlock.command.policy.policy import Effect, PolicySubject, Rule
from interlock.protocol.clock import iso
from interlock.protocol.policy_terms import Width
from interlock.protocol.problems import Place, Problem, malformed
from interlock.protocol.resources import Approval, Decision, RememberedRule, Remembering, RuleMatch

GLOB_CHARS = frozenset("*?[")
"""A path or word with one of these cannot be written as a glob that matches only itself."""
REMEMBERED_MS = 30 * 86_400_000
"""How long an "always" is valid; it is asked again afterwards (H-8)."""


class Unsafe(ValueError):
    """Raised for an allow rule of an earlier version that is not in force any more: such a call is asked again."""


class Offer(NamedTuple):
    """A width in which an approval may be remembered, with the resulting rule."""

    width: Width
    rule: Rule


def offers(
    approval: Approval, subject: PolicySubject, decision: Decision, remembering: Remembering, *, described: bool = False
) -> list[Offer]:
    """List the widths that match this call, the narrowest first. `described`: the config permits a yes to a described
    call to be remembered. Raises Problem if it cannot be remembered at all."""
    if subject.facts.described and decision == "grant":
        match = RuleMatch(width="described")
        widened = msgspec.structs.replace(remembering, match=match)
        return [Offer("described", rule_of(approval, subject, decision, widened, described=described))]
    found = [Offer("exact", rule_of(approval, subject, decision, remembering))]
    for width in ("program", "below"):
        if _fields_of(width, subject) is not None:
            match = RuleMatch(width=width)
            try:
                found.append(Offer(width, rule_of(approval, subject, decision, msgspec.structs.replace(
                    remembering, match=match))))
            except Problem:
                continue  # The call itself exceeds what this width covers.
    return found


def rule_of(approval: Approval, subject: PolicySubject, decision: Decision, remembering: Remembering, *,
            described: bool = False
            ) -> Rule:
    """Return the rule of a vote with `remember`, shown before it is saved.

    Without `match` it covers only the requested input. A yes is valid for this directory, this runner and the sessions
    of the person whose work it is, for 30 days (H-8); a no is valid everywhere until it is revoked. Raises Problem if
    the request does not fit the approval.
    """
    if approval.required > 1 or approval.groups or approval.signed or approval.require_independent or (
            not approval.self_approval):
        raise Problem("Conflict", f"The rule {approval.rule} requires more than one person's plain yes each time; "
                      "one person's always cannot replace it", hint="Vote without remember.")
    if approval.dangerous:
        raise Problem("Conflict", f"The rule {approval.rule} is marked dangerous, so each time is decided by itself",
                      hint="Vote without remember.")
    if approval.workspace_files:
        raise malformed("/remember", "a yes to these files is remembered by itself until they change")
    if approval.kind == "question":
        raise malformed("/remember", "a question is answered each time")
    effect: Effect = "allow" if decision == "grant" else "deny"
    match = remembering.match or RuleMatch()
    if effect == "allow":
        _check_grant(subject, match, remembering.scope, described=described)
    fields: dict[str, Any] = {
        "tenant": approval.tenant_id, "door": approval.door, "agent": approval.agent_id,
        "tool": match.tool or (None if match.width == "described" else approval.tool_name),
        "session": approval.session_id if remembering.scope == "session" else None,
        "type": subject.command_type, "origin": subject.origin if approval.door == "command" else None,
        **(_narrow(subject) if effect == "allow" else {}), **_input_fields(match, subject),
    }
    try:
        rule = Rule(name=_name(approval, remembering), effect=effect, **fields)
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
    """Return a rule as in a config: only the fields that are set."""
    members = msgspec.to_builtins(rule)
    defaults = msgspec.to_builtins(Rule(name="-", effect=rule.effect))
    return {name: value for name, value in members.items() if name in ("name", "effect") or value != defaults[name]}


def read(remembered: RememberedRule) -> Rule:
    """Parse the rule of a row, with the name that decisions show.

    Raises Unsafe for a yes of an earlier version, which did not state where and how long it is valid. A no that cannot
    be parsed any more denies the whole tool: without it, calls that a person has denied would be allowed. Raises
    ValueError if not even the tool is in it.
    """
    fields = remembered.rule
    if fields.get("effect") == "allow" and "until" not in fields:
        raise Unsafe(f"remembered rule {remembered.id} does not say where and how long it holds")
    try:
        rule = msgspec.convert(fields, Rule)
    except msgspec.ValidationError as error:
        if fields.get("effect") == "allow":
            raise Unsafe(f"remembered rule {remembered.id}: {error}") from None
        kept = {name: fields[name] for name in _WHOM if name in fields}
        try:
            rule = msgspec.convert(kept, Rule)
        except msgspec.ValidationError:
            raise ValueError(f"remembered rule {remembered.id}: {error}") from None
    return msgspec.structs.replace(rule, name=f"{remembered.id}: {rule.name}")


_WHOM = ("name", "effect", "tenant", "door", "type", "agent", "tool", "session")


def _check_grant(subject: PolicySubject, match: RuleMatch, scope: str, *, described: bool) -> None:
    if match.any_input:
        raise malformed("/remember/match/any_input", "this would allow inputs that no person has seen; name `words`, "
                        "`path` or a `width`")
    if subject.facts.described:
        _check_described(subject, match, scope, allowed=described)
    elif match.width == "described":
        raise malformed("/remember/match/width", "described is for calls whose input the agent does not send")
    if subject.facts.unclear is not None:
        raise malformed("/remember", f"{subject.facts.unclear}, so it is asked each time")


def _check_described(subject: PolicySubject, match: RuleMatch, scope: str, *, allowed: bool) -> None:
    """Raise Problem unless every described call of this kind may be allowed, in this session only (H-2)."""
    if not allowed:
        raise malformed("/remember", "the agent does not send its input, so the same call cannot be known again; it is "
                        "asked each time, unless the config has policy.remember_described = true")
    if match != RuleMatch(width="described") or scope != "session":
        raise malformed("/remember", "the agent does not send its input, so only every described call of this kind can "
                        'be remembered, in this session: {"scope": "session", "match": {"width": "described"}}')
    if not subject.tool_kind or GLOB_CHARS & set(subject.tool_kind):
        raise malformed("/remember", "the agent does not say of what kind the call is, so it is asked each time")


def _narrow(subject: PolicySubject) -> dict[str, Any]:
    return {"runner": subject.runner_id, "workspace": subject.workspace, "person": subject.person,
            "until": iso(subject.at_ms + REMEMBERED_MS)}


def _input_fields(match: RuleMatch, subject: PolicySubject) -> dict[str, Any]:
    if match.width == "described" and subject.facts.described:
        return {"kind": subject.tool_kind, "described": True}
    if match.width is not None and match.width != "exact":
        fields = _fields_of(match.width, subject)
        if fields is None:
            raise malformed("/remember/match/width", f"{match.width} does not fit this call; exact does")
        return fields
    fields = {"command": match.command, "words": match.words, "path": match.path}
    if match.any_input or any(value is not None for value in fields.values()):
        return fields
    return _this_input(subject)


def _this_input(subject: PolicySubject) -> dict[str, Any]:
    """Return the fields that match exactly this input, in readable form if that is complete."""
    if len(subject.facts.lines) == 1 and subject.facts.command_only:
        return {"command_line": subject.facts.lines[0].strip(" \t\n")}
    return {"digest": subject.digest}


def _fields_of(width: Width, subject: PolicySubject) -> dict[str, Any] | None:
    """Return the fields of a wider rule that is safe by construction; None if there is none for this call."""
    return _program(subject) if width == "program" else _below(subject) if width == "below" else None


def _program(subject: PolicySubject) -> dict[str, Any] | None:
    lines = subject.facts.read
    if len(lines) != 1 or lines[0].unclear is not None or len(lines[0].commands) != 1:
        return None
    words = lines[0].commands[0].words
    name = programs.program(words)
    if not words or name in programs.RUNNERS or any(GLOB_CHARS & set(word) for word in words[:2]):
        return None
    first = min(max(2, programs.fixed_words(words)), len(words))
    if any(at >= first for at in programs.must_name(words)):
        return None  # It contains an option that runs or writes: the words after it are not left open.
    return {"words": " ".join([*map(quoted, words[:first]), REST])}


def _below(subject: PolicySubject) -> dict[str, Any] | None:
    paths = subject.facts.paths
    if not paths or subject.facts.lines or any(GLOB_CHARS & set(path) for path in paths):
        return None
    directories = {posixpath.dirname(path) for path in paths}
    top = posixpath.commonpath(directories) if len({one.startswith("/") for one in directories}) == 1 else ""
    if top in ("", "/", "~", "..") or top.startswith("../"):
        return {"path": "*"} if directories == {""} else None
    return {"path": f"{top}/**"}


def _name(approval: Approval, remembering: Remembering) -> str:
    where = "in one session" if remembering.scope == "session" else "always"
    return f"{approval.tool_name or 'run'} of {approval.agent_id} {where}"
