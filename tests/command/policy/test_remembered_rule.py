"""The rule that an "always" creates: this call, this directory, this runner, this person, 30 days (H-8, A-9)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.command.facts.request import AgentRequest, facts
from interlock.command.policy.policy import PolicySubject, Rule, RuleSet
from interlock.command.policy.remembered_rule import REMEMBERED_MS, Unsafe, offers, plain, read, rule_of
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, Approval, Decision, RememberedRule, Remembering, RuleMatch

NOW = 1_800_000_000_000


def asked(value: Any, **more: Any) -> tuple[Approval, PolicySubject]:
    raw = json.dumps(value).encode()
    approval = Approval(
        id="apr_1", tenant_id="t1", door="tool", state="pending", created_at="", expires_at="", title="x",
        tool_name="bash", agent_id="goose", runner_id="here", workspace="/w", session_id="s1", digest="d",
        input=msgspec.Raw(raw), rule="ask", requested_by=Actor(type="user", id="ann"))
    return approval, PolicySubject("tool", "t1", "goose", "user", "asks", NOW, tool_name="bash", session_id="s1",
                                   digest="d",
                                   runner_id="here", workspace="/w", person="user:ann",
                                   facts=facts(AgentRequest(raw, "/w", **more)))


def widths(value: Any, decision: Decision = "grant") -> dict[str, Rule]:
    approval, subject = asked(value)
    return {offer.width: offer.rule for offer in offers(approval, subject, decision, Remembering(scope="rule"))}


@pytest.mark.req("A-9", "H-8", "Y-4")
@pytest.mark.parametrize(("value", "fields"), [
    ({"command": "git status -s"}, {"exact": ("command_line", "git status -s"), "program": ("words", "git status **")}),
    ({"command": "python -m pytest -q"}, {"exact": ("command_line", "python -m pytest -q"),
                                          "program": ("words", "python -m pytest **")}),
    ({"command": "npm run test"}, {"exact": ("command_line", "npm run test"), "program": ("words", "npm run test **")}),
    ({"command": "ls", "cwd": "src"}, {"exact": ("digest", "d"), "program": ("words", "ls **")}),
    ({"command": "git status; rm x"}, {"exact": ("command_line", "git status; rm x")}),
    ({"command": "sudo ls"}, {"exact": ("command_line", "sudo ls")}),
    ({"command": "sort a -o b"}, {"exact": ("command_line", "sort a -o b")}),
    ({"command": "cat /etc/hosts /etc/passwd"}, {"exact": ("command_line", "cat /etc/hosts /etc/passwd")}),
    ({"path": "src/deep/a", "content": "x"}, {"exact": ("digest", "d"), "below": ("path", "src/deep/**")}),
    ({"path": "a"}, {"exact": ("digest", "d"), "below": ("path", "*")}),
    ({"path": "../x/a"}, {"exact": ("digest", "d"), "below": ("path", "/x/**")}),
    ({"path": "src/[a]"}, {"exact": ("digest", "d")}),
])
def test_the_widths_that_are_offered_are_safe_by_construction(value: Any, fields: dict[str, tuple[str, str]]) -> None:
    found = widths(value)
    assert {width: next((name, data[name]) for name in ("words", "path", "command_line", "digest") if name in data)
            for width, data in ((width, plain(rule)) for width, rule in found.items())} == fields


@pytest.mark.req("A-9", "H-8")
@pytest.mark.parametrize("changed", [
    {"runner_id": "there"}, {"workspace": "/w2"}, {"person": "user:ben"}, {"agent_id": "other"}, {"tool_name": "edit"},
    {"tenant_id": "t2"}, {"at_ms": NOW + REMEMBERED_MS}])
def test_a_grant_holds_for_the_same_workspace_person_and_tool_for_thirty_days(changed: dict[str, Any]) -> None:
    _, subject = asked({"command": "git status"})
    for rule in widths({"command": "git status"}).values():
        policy = RuleSet((), [rule])
        assert policy.decide(subject).effect == "allow"
        assert policy.decide(replace(subject, at_ms=NOW + REMEMBERED_MS - 1)).effect == "allow"
        assert policy.decide(replace(subject, **changed)).effect == "ask"


@pytest.mark.req("A-9", "H-8")
def test_a_denial_holds_everywhere_until_it_is_revoked() -> None:
    _, subject = asked({"command": "git push"})
    rule = widths({"command": "git push"}, "deny")["exact"]
    assert {"runner", "workspace", "person", "until"}.isdisjoint(plain(rule))
    elsewhere = replace(subject, runner_id="there", person="user:ben", at_ms=NOW + 10 * REMEMBERED_MS)
    assert RuleSet((), [rule]).decide(elsewhere).effect == "deny"


@pytest.mark.req("A-9", "H-8", "Y-4")
@pytest.mark.parametrize(("value", "more", "match", "sentence"), [
    ({"command": "ls"}, {}, RuleMatch(any_input=True), "inputs that no person has seen"),
    ({"command": "ls"}, {}, RuleMatch(command="ls.*"), "also matches `; x`"),
    ({"command": "ls"}, {}, RuleMatch(words="rm **"), "does not fit the call"),
    ({"command": "ls"}, {}, RuleMatch(width="below"), "below does not fit this call"),
    ({"command": "ls"}, {"described": True}, None, "does not send its input"),
    ([], {}, None, "not a JSON object"),
])
def test_a_too_wide_grant_is_refused(value: Any, more: Any, match: RuleMatch | None, sentence: str) -> None:
    approval, subject = asked(value, **more)
    with pytest.raises(Problem, match=sentence):
        rule_of(approval, subject, "grant", Remembering(scope="rule", match=match))


def kept(**rule: Any) -> RememberedRule:
    return RememberedRule(id="rul_1", tenant_id="t1", created_at="", created_by="user:ann", approval_id="apr_1",
                          rule={"name": "r", **rule})


@pytest.mark.req("A-9")
def test_a_grant_of_an_earlier_version_is_requested_again_and_a_denial_stays() -> None:
    for rule in ({"tool": "bash"}, {"command": "git .*", "until": "2999-01-01T00:00:00Z"}):
        with pytest.raises(Unsafe):
            read(kept(effect="allow", **rule))
    _, subject = asked({"command": "anything"})
    deny_rule = read(kept(effect="deny", tool="bash", command="(?=rm).*"))
    assert RuleSet((), [deny_rule]).decide(subject).effect == "deny", "an unreadable rule denies the whole tool"


# --- calls that an agent only describes (H-2) ---
KIND = Remembering(scope="session", match=RuleMatch(width="described"))


def described(kind: str | None = "execute", session: str = "s1") -> tuple[Approval, PolicySubject]:
    approval, subject = asked({}, title="Run the unit tests", described=True)
    return approval, replace(subject, tool_kind=kind, session_id=session)


def kind_rule() -> Rule:
    approval, subject = described()
    return rule_of(approval, subject, "grant", KIND, described=True)


@pytest.mark.req("A-9")
def test_every_described_call_of_a_kind_is_offered_only_if_the_config_says_so() -> None:
    approval, subject = described()
    one, = offers(approval, subject, "grant", Remembering(scope="session"), described=True)
    assert (one.width, one.rule) == ("described", kind_rule())
    with pytest.raises(Problem, match="remember_described = true"):
        offers(approval, subject, "grant", Remembering(scope="session"))
    with pytest.raises(Problem, match="remember_described = true"):
        rule_of(approval, subject, "grant", KIND)


@pytest.mark.req("A-9")
@pytest.mark.parametrize("changed", [
    {"session_id": "s2"}, {"tool_kind": "edit"}, {"tool_kind": None}, {"agent_id": "other"}, {"tenant_id": "t2"},
    {"runner_id": "there"}, {"workspace": "/w2"}, {"person": "user:ben"}, {"at_ms": NOW + REMEMBERED_MS},
    {"facts": facts(AgentRequest(b'{"command":"ls"}', "/w"))}])
def test_it_covers_no_other_session_kind_agent_nor_a_call_with_an_input(changed: dict[str, Any]) -> None:
    _, subject = described()
    policy = RuleSet((), [kind_rule()], remember_described=True)
    assert policy.decide(subject).effect == "allow"
    assert policy.decide(replace(subject, **changed)).effect == "ask"


@pytest.mark.req("A-9")
def test_it_has_no_effect_without_the_config_setting_or_against_a_denial() -> None:
    _, subject = described()
    assert RuleSet((), [kind_rule()]).decide(subject).effect == "ask"
    denial = Rule(name="no tests", effect="deny", command=".*unit tests.*")
    assert RuleSet([denial], [kind_rule()], remember_described=True).decide(subject).effect == "deny"


@pytest.mark.req("A-9")
@pytest.mark.parametrize(("kind", "wish", "sentence"), [
    ("execute", Remembering(scope="rule", match=RuleMatch(width="described")), "in this session"),
    ("execute", Remembering(scope="session"), "only every described call of this kind"),
    ("execute", Remembering(scope="session", match=RuleMatch(width="described", tool="*")), "only every described"),
    (None, KIND, "does not say of what kind"),
    ("*", KIND, "does not say of what kind"),
])
def test_a_wider_grant_for_a_described_call_is_refused(kind: str | None, wish: Remembering, sentence: str) -> None:
    approval, subject = described(kind)
    with pytest.raises(Problem, match=sentence):
        rule_of(approval, subject, "grant", wish, described=True)


@pytest.mark.req("A-9")
def test_a_call_with_an_input_cannot_be_remembered_as_described() -> None:
    approval, subject = asked({"command": "ls"})
    with pytest.raises(Problem, match="whose input the agent does not send"):
        rule_of(approval, subject, "grant", KIND, described=True)
