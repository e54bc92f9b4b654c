"""Policy: decisions as one table of calls, each with the effect of the first matching rule."""

import msgspec
import pytest
from msgspec.structs import replace

from interlock.command.facts.request import RequestFacts
from interlock.command.policy.policy import PolicySubject, PolicyVerdict, Rule, RuleSet, duration_ms

NOON = 1_800_000_000_000  # a Friday, 08:00 UTC

TOOL = PolicySubject("tool", "t1", "shell", "user", "asks", NOON, tool_name="bash", tool_kind="execute",
                     facts=RequestFacts(lines=("ls -l",)))
READ = replace(TOOL, tool_name="read_file", tool_kind="read", facts=RequestFacts(paths=("src/a.py",)))
EXECUTE = PolicySubject("command", "t1", "shell", "user", "asks", NOON, command_type="execute")
FLUSH = replace(READ, origin="flush", tool_kind="edit", facts=RequestFacts(paths=("memory/2026-11-21.md",)))


def touching(subject: PolicySubject, *paths: str) -> PolicySubject:
    return replace(subject, facts=RequestFacts(paths=paths))


def running(line: str) -> PolicySubject:
    return replace(TOOL, facts=RequestFacts(lines=(line,)))



@pytest.mark.req("P-1")
@pytest.mark.parametrize(
    ("subject", "effect"),
    [
        (TOOL, "ask"),
        (replace(TOOL, allowed_tools=("bash",)), "ask"),
        (replace(TOOL, allowed_tools=("bas",)), "deny"),
        (READ, "ask"),
        (replace(READ, trusted_kinds=True), "allow"),
        (replace(READ, trusted_kinds=True, tool_kind="edit"), "ask"),
        (EXECUTE, "allow"),
        (replace(EXECUTE, permission="never"), "ask"),
        (replace(EXECUTE, origin="agent"), "ask"),
        (replace(EXECUTE, origin="cron"), "ask"),
        (replace(EXECUTE, origin="hook"), "ask"),
        (replace(EXECUTE, command_type="cancel"), "allow"),
        (replace(EXECUTE, command_type="cancel", origin="agent"), "allow"),
        (FLUSH, "allow"),
        (touching(FLUSH, "memory/../src/a.md"), "deny"),
        (touching(FLUSH, "memory/a.md", "src/a.py"), "deny"),
        (touching(FLUSH, "memory/deep/a.md"), "deny"),
        (touching(FLUSH, "memory/a.txt"), "deny"),
        (touching(FLUSH, "/memory/a.md"), "deny"),
        (touching(FLUSH, "src/memory/a.md"), "deny"),
        (touching(FLUSH), "deny"),
        (replace(FLUSH, tool_kind="execute"), "deny"),
        (touching(replace(FLUSH, allowed_tools=("read_file",)), "x"), "deny"),
    ],
)
def test_the_shipped_default_policy_decides_as_documented(subject: PolicySubject, effect: str) -> None:
    assert RuleSet().decide(subject).effect == effect


@pytest.mark.req("P-1")
@pytest.mark.parametrize(
    ("fields", "subject", "holds"),
    [
        ({"tool": "ba*"}, TOOL, True),
        ({"tool": ["edit", "bash"]}, TOOL, True),
        ({"tool": "bash"}, EXECUTE, False),
        ({"door": "command"}, TOOL, False),
        ({"agent": "sh*"}, TOOL, True),
        ({"agent": "claude"}, TOOL, False),
        ({"tenant": "t2"}, TOOL, False),
        ({"kind": "execute"}, TOOL, True),
        ({"type": ["execute", "pause"]}, EXECUTE, True),
        ({"origin": ["cron", "hook"]}, TOOL, False),
        ({"permission": "never"}, TOOL, False),
        ({"command": "ls( -[a-z]+)?"}, TOOL, True),
        ({"command": "ls"}, TOOL, False),
        ({"command": "ls"}, READ, False),
        ({"command": "ls( [a-z -]+)*"}, running("ls\nrm -rf /"), False),
        ({"command": "echo x+"}, running("echo " + "x" * 4_091), True),
        ({"command": "echo x+"}, running("echo " + "x" * 4_092), False),
        ({"words": "ls **"}, TOOL, True),
        ({"words": ["pwd", "ls -l"]}, TOOL, True),
        ({"words": "ls"}, TOOL, False),
        ({"words": "ls *"}, running("ls -l src"), False),
        ({"runner": "here"}, replace(TOOL, runner_id="here"), True),
        ({"runner": "here"}, TOOL, False),
        ({"workspace": ["/a", "/b"]}, replace(TOOL, workspace="/b"), True),
        ({"workspace": "/a"}, replace(TOOL, workspace="/a/b"), False),
        ({"person": "user:ann"}, replace(TOOL, person="user:ben"), False),
        ({"until": "2027-01-15T08:00:00.001Z"}, TOOL, True),
        ({"until": "2027-01-15T08:00:00Z"}, TOOL, False),
        ({"box": True}, TOOL, False),
        ({"box": True}, replace(TOOL, box=("walls",)), False),
        ({"box": True}, replace(TOOL, box=("walls", "writes", "network")), True),
        ({"box": ["walls", "staged"]}, replace(TOOL, box=("walls", "writes", "network")), False),
        ({"box": ["staged"]}, replace(TOOL, box=("walls", "staged")), True),
        ({"box": []}, TOOL, False),
        ({"box": False}, replace(TOOL, box=("walls",)), True),
        ({"path": "src/*.py"}, READ, True),
        ({"path": "src/*.py"}, touching(READ, "src/deep/a.py"), False),
        ({"path": "src/**/*.py"}, touching(READ, "src/deep/a.py"), True),
        ({"path": "src/**"}, touching(READ, "src/a.py", "etc/b"), False),
        ({"path": "a.py"}, READ, False),
        ({"path": "src/*"}, TOOL, False),
        ({"cost_over": 1.5}, replace(TOOL, cost_usd=1.5), False),
        ({"cost_over": 1.5}, replace(TOOL, cost_usd=1.6), True),
        ({"hours": "08:00-09:00"}, TOOL, True),
        ({"hours": "08:00-09:00", "zone": "Asia/Seoul"}, TOOL, False),
        ({"hours": "22:00-06:00", "zone": "Asia/Seoul"}, TOOL, False),
        ({"hours": "16:30-06:00", "zone": "Asia/Seoul"}, TOOL, True),
    ],
)
def test_every_match_field_of_an_allow_rule_is_compared(
    fields: dict[str, object], subject: PolicySubject, holds: bool
) -> None:
    rule = msgspec.convert({"name": "r", "effect": "allow", **fields}, Rule)
    assert (rule.missed(subject) is None) is holds
    assert (RuleSet([rule]).decide(subject).rule == rule.name) is holds


@pytest.mark.req("P-1")
@pytest.mark.parametrize(
    ("fields", "subject", "holds"),
    [
        ({"path": "*.py"}, READ, True),
        ({"path": "etc/*"}, touching(READ, "src/a.py", "/home/me/etc/b"), True),
        ({"path": "/etc/*"}, touching(READ, "/x/etc/b"), False),
        ({"command": "rm .*"}, running("x" * 70_000), True),
    ],
)
def test_an_unclear_fact_matches_a_deny_rule(fields: dict[str, object], subject: PolicySubject, holds: bool) -> None:
    rule = msgspec.convert({"name": "r", "effect": "deny", **fields}, Rule)
    assert (rule.missed(subject) is None) is holds
    assert (RuleSet([rule]).decide(subject).rule == rule.name) is holds


@pytest.mark.req("P-1")
def test_denials_and_quorums_precede_remembered_rules_and_those_the_rest() -> None:
    allow = Rule(name="allow", effect="allow", tool="bash")
    deny = Rule(name="deny", effect="deny", tool="bash", command="rm .*", reason="no")
    quorum = Rule(name="quorum", effect="ask", tool="bash", command="git push.*", required=2)
    remembered = Rule(name="remembered", effect="allow", tool="bash")
    policy = RuleSet([Rule(name="ask", effect="ask", tool="bash", ttl="15m"), allow, deny, quorum], [remembered])
    assert policy.decide(running("rm x")).rule == "deny"
    assert policy.decide(running("git push")) == PolicyVerdict("ask", "quorum", 2)
    assert policy.decide(TOOL).rule == "remembered"
    assert RuleSet(policy.rules).decide(READ).rule == "ask before a tool"


def test_an_explanation_names_an_expression_that_looks_like_a_glob() -> None:
    echo = Rule(name="echo", effect="allow", tool="bash", command=["echo [a-z]+", "echo *"])
    steps = RuleSet([echo, replace(echo, name="plain", command="echo [a-z]+")]).explain(running("echo 'a b'"))
    assert {(step.rule, step.missed, step.glob) for step in steps if step.source == "config"} == {
        ("echo", "command", "echo *"), ("plain", "command", None)}


@pytest.mark.req("Z-5", "H-8")
def test_no_user_rule_allows_a_flush_to_write_elsewhere() -> None:
    broad = Rule(name="anything", effect="allow")
    for policy in (RuleSet([broad]), RuleSet((), [broad])):
        assert policy.decide(FLUSH).effect == "allow"
        assert policy.decide(touching(FLUSH, "src/a.py")).rule == "memory flush does nothing else"
        assert policy.decide(touching(FLUSH, "memory/a.md", "src/a.py")).effect == "deny"
        assert policy.decide(replace(EXECUTE, origin="flush")).rule == "no command during a flush"
        assert policy.explain(touching(FLUSH, "src/a.py"))[-1].rule == "memory flush does nothing else"
        assert policy.explain(FLUSH)[-1].rule == "anything"
    assert RuleSet([Rule(name="no", effect="deny", tool="read_file")]).decide(FLUSH).rule == "no"


@pytest.mark.req("Z-5")
def test_a_flush_never_asks_a_person() -> None:
    policy = RuleSet([Rule(name="ask all", effect="ask")])
    assert policy.decide(FLUSH).effect == "deny"


@pytest.mark.req("P-1")
@pytest.mark.parametrize(
    ("fields", "word"),
    [({"command": "("}, "regular expression"), ({"hours": "9-18"}, "09:00-18:00"), ({"ttl": "soon"}, "duration"),
     ({"ttl": "31d"}, "30 days"), ({"zone": "Mars/Base"}, "time zone"),
     ({"required": 0}, "vote"), ({"name": ""}, "name")],
)
def test_a_meaningless_rule_is_refused_in_one_sentence(fields: dict[str, object], word: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=word):
        msgspec.convert({"name": "r", "effect": "ask", **fields}, Rule)


def test_durations_are_read() -> None:
    assert [duration_ms(text) for text in ("90s", "15m", "24h", "2d")] == [90_000, 900_000, 86_400_000, 172_800_000]


@pytest.mark.req("P-1")
def test_a_decision_does_not_depend_on_earlier_ones() -> None:
    rules = [Rule(name="ann at night", effect="deny", door="command", person="user:ann"),
             Rule(name="walls", effect="allow", door="command", agent="boxed", box=True),
             Rule(name="cheap", effect="ask", door="command", agent="dear", cost_over=1.0)]
    subjects = [replace(EXECUTE, agent_id=agent, permission=permission, person=person, cost_usd=cost, box=box,
                        origin=origin)
                for agent in ("shell", "boxed", "dear") for permission in ("asks", "never")
                for person in ("user:bob", "user:ann") for cost in (0.0, 2.0) for box in ((), ("read", "write"))
                for origin in ("user", "cron", "flush")]
    together = RuleSet(rules)
    for subject in [*subjects, *reversed(subjects)]:
        assert together.judge(subject) == RuleSet(rules).judge(subject)
    alone = RuleSet()
    assert alone.judge(EXECUTE) is alone.judge(replace(EXECUTE, person="user:ann", cost_usd=2.0))
