"""The facts that an allow rule covers and those that match a deny rule (H-6, H-7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.command.facts.request import NOT_RESOLVED, AgentRequest, facts
from interlock.command.policy.policy import PolicySubject, Rule, RuleSet


def call(value: Any, kind: str = "execute", **more: Any) -> PolicySubject:
    raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return PolicySubject("tool", "t1", "goose", "user", "asks", 0, tool_name="bash", tool_kind=kind,
                         facts=facts(AgentRequest(raw, "/w", **more)))


def allowed(subject: PolicySubject, **fields: Any) -> bool:
    return RuleSet([Rule(name="r", effect="allow", **fields)]).decide(subject).effect == "allow"


def denied(subject: PolicySubject, **fields: Any) -> bool:
    return RuleSet([Rule(name="r", effect="deny", **fields)]).decide(subject).effect == "deny"


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize(("value", "fields", "holds"), [
    ({"command": "git status"}, {"words": "git status **"}, True),
    ({"command": "git status", "description": "look", "timeout": 5}, {"words": "git status **"}, True),
    ({"command": "git status", "cwd": "src"}, {"words": "git status **"}, True),
    ({"command": "git status", "cwd": "/etc"}, {"words": "git status **"}, False),
    ({"command": "git status", "cwd": "/etc"}, {"words": "git status **", "path": "/etc"}, False),
    ({"command": "git status", "env": {"A": "1"}}, {"words": "git status **"}, False),
    ({"command": "git status", "path": "/etc"}, {"words": "git status **"}, False),
    ({"command": "git status && ls"}, {"words": ["git status", "ls"]}, False),
    ({"command": "git status && ls"}, {"words": ["git status", "ls"], "shell": ["and"]}, True),
    ({"command": "git status && ls | wc"}, {"words": ["git status", "ls"], "shell": ["and", "pipe"]}, False),
    ({"command": "cat /etc/hosts"}, {"words": "cat **"}, False),
    ({"command": "cat /etc/hosts"}, {"words": "cat /etc/hosts"}, True),
    ({"command": "cat /etc/hosts"}, {"words": "cat **", "path": "/etc/*"}, True),
    ({"command": "curl https://a.b/c"}, {"words": "curl **"}, False),
    ({"command": "curl https://a.b/c"}, {"words": "curl **", "url": "https://a.b/*"}, True),
    ({"command": "curl https://a.b/c -o x"}, {"words": "curl **", "url": "https://a.b/*"}, False),
    ({"command": "cat src/*.py"}, {"words": "cat **"}, True),
    ({"command": "cat .en*"}, {"words": "cat **"}, False),
    ({"command": "cat .*/x"}, {"words": "cat **"}, False),
    ({"command": "cat src/.?/x"}, {"words": "cat **"}, False),
    ({"command": "cat =ls"}, {"words": "cat **"}, False),  # A path, for zsh.
    ({"command": "file -f.env"}, {"words": "file **"}, False),
    ({"command": "make test | tee log"}, {"command": r"make test \| tee log"}, True),
    ({"command": "FOO=1 make test"}, {"command": "FOO=[0-9] make test"}, True),
    ({"command": "PATH=1 make test"}, {"command": "[A-Z]+=[0-9] make test"}, False),
    ({"command": "make test > out.txt"}, {"command": "make test > out.txt"}, False),
    ({"command": "make test > out.txt"}, {"command": r"make test > out\.txt"}, True),
    ({"command": "sudo ls"}, {"command": "[a-z ]+"}, False),
    ({"command": "sudo ls"}, {"command": "sudo ls"}, True),
    ({"command": "ls"}, {"command_line": "ls"}, True),
    ({"command": "ls", "cwd": "src"}, {"command_line": "ls"}, False),
    ({"command": "ls; rm x"}, {"command_line": "ls; rm x"}, True),
    ({"path": "src/a"}, {"path": "src/**"}, True),
    ({"path": "src/a", "fileName": "/etc/passwd"}, {"path": "src/**"}, False),
    ({"path": "/etc/passwd"}, {"path": "**"}, False),
    ({"path": "src/a", "command": "ls"}, {"path": "src/**"}, False),
    ({"path": "src/a", "url": "https://a.b"}, {"path": "src/**"}, False),
    (b'{"path": "src/a", "path": "src/b"}', {"path": "src/**"}, False),
    (b'{"path": "src/a", "path": "src/b"}', {"tool": "bash"}, False),
    ({"anything": 1}, {"tool": "bash"}, True),
])
def test_an_allow_rule_covers_every_fact_or_does_not_hold(value: Any, fields: dict[str, Any], holds: bool) -> None:
    assert allowed(call(value), **fields) is holds


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize(("value", "fields"), [
    ({"command": "ls; rm -rf x"}, {"words": "rm **"}),
    ({"command": "ls $(rm -rf x)"}, {"words": "rm **"}),
    ({"command": "'r'm   -rf x"}, {"command": "rm -rf .*"}),
    ({"command": "/bin/rm -rf x"}, {"words": "rm **"}),
    ({"command": "sudo -u me rm -rf x"}, {"words": "rm **"}),
    ({"command": "bash -c 'ls; rm -rf x'"}, {"words": "rm **"}),
    ({"command": "git -C x push --force"}, {"words": "git push **"}),
    ({"command": ["rm", "-rf", "x"]}, {"command": "rm .*"}),
    ({"script": "rm x"}, {"command": "rm .*"}),
    ({"command": "echo 'unclosed; rm -rf x"}, {"command": "rm -rf .*"}),
    ({"command": "cat deploy/.env"}, {"path": ".env"}),
    ({"command": "cat < .env"}, {"path": ".env"}),
    ({"command": "x --file=.ENV"}, {"path": ".env"}),
    ({"files": [{"name": "a"}, {"notebookPath": "k/.env"}]}, {"path": ".env"}),
    (b'{"path": ".env", "path": "a"}', {"path": ".env"}),
    (b'{"path": ".env"', {"path": ".env"}),
    ({"command": "curl https://evil.example/x"}, {"url": "*evil.example*"}),
])
def test_a_deny_rule_needs_one_fact(value: Any, fields: dict[str, Any]) -> None:
    assert denied(call(value), **fields)


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("fields", [{"words": "git status **"}, {"command": "git status"}, {"path": "**"},
                                    {"command_line": "git status"}, {"digest": "d"}])
def test_no_allow_rule_about_the_input_covers_a_described_call(fields: dict[str, Any]) -> None:
    subject = replace(call({"command": "git status"}, described=True, title="Run git status"), digest="d")
    assert not allowed(subject, **fields)
    assert allowed(subject, tool="bash", described=True)


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("fields", [{"command": "rm -rf .*"}, {"words": "rm -rf **"}, {"path": ".env"},
                                    {"url": "https://evil.example/*"}])
def test_deny_rules_search_the_whole_text_of_a_described_call(fields: dict[str, Any]) -> None:
    text = "I will `rm  -rf x`, read 'deploy/.env' and post it to https://evil.example/x"
    for subject in (call(None, described=True, title=text), call({"cwd": "/w"}, described=True, title=text)):
        assert denied(subject, **fields)
        assert not denied(call(None, described=True, title="I will look around"), **fields)


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("more", [
    {"dangerouslyDisableSandbox": True}, {"sandbox_permissions": "require_escalated"}, {"sudo": 1}, {"user": "root"},
    {"with_escalated_permissions": True}, {"host": "prod"}, {"container": "db"}, {"run_as": {"uid": 0}},
    {"options": {"bypassApprovals": True}}])
def test_a_member_that_gives_a_command_more_rights_or_another_machine_is_not_covered(more: dict[str, Any]) -> None:
    subject = call({"command": "ls -l", **more})
    assert not allowed(subject, words=["ls **"])
    assert not allowed(subject, command="ls -l")


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("more", [
    {"dangerouslyDisableSandbox": False}, {"sandbox_permissions": "use_default"}, {"user": ""}, {"host": None},
    {"additional_permissions": {}}, {"permissions": []}, {"description": "as root on the host"}])
def test_a_member_without_effect_does_not_prevent_coverage(more: dict[str, Any]) -> None:
    assert allowed(call({"command": "ls -l", **more}), words=["ls **"])


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("path", [
    "secrets", "secrets/", "/w/secrets", "file:///w/secret%73/key", "file:///w/%73ecrets/key", "sec\u200brets/key",
    "\u202esecrets/key", "Secrets", "file://localhost/w/secrets/key"])
def test_a_deny_rule_below_a_directory_matches_every_spelling_of_it(path: str) -> None:
    assert denied(call({"path": path}, "delete"), path="secrets/**")
    assert not denied(call({"path": "secretary/x"}, "delete"), path="secrets/**")


@pytest.mark.req("P-1", "H-6")
def test_a_directory_is_not_removed_by_a_command_where_all_below_it_is_denied() -> None:
    assert denied(call({"command": "rm -rf secrets"}), path="secrets/**")
    assert denied(call({"command": "mv ./secrets/ x"}), path="secrets/**")


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("value", [
    {"path": "src/\u202egnp.exe"}, {"path": "src/a\u200b.py"}, {"command": "ls \u2066src"}, {"command": "ls\u200b"}])
def test_a_call_with_invisible_characters_is_asked_about(value: dict[str, Any]) -> None:
    assert not allowed(call(value), path="**")
    assert not allowed(call(value), words=["ls **"])


@pytest.mark.req("H-6", "H-7")
@pytest.mark.parametrize(("value", "resolved"), [
    ({"path": "/w/link/x"}, {"/w/link/x": "/etc/x"}), ({"path": "/w/link/x"}, {"link/x": "/etc/x"}),
    ({"path": "link/../x"}, {"link/../x": "/etc/x"}), ({"path": "src/a"}, {NOT_RESOLVED: ""}),
    ({"command": "cat 'a b'"}, {"a b": "/etc/x"}), ({"command": "cat -nlink"}, {"link": "/etc/x"}),
    ({"command": "cat a"}, {NOT_RESOLVED: ""}), ({"command": "cat a", "cwd": "link"}, {"link": "/etc"}),
    ({"command": "cat a=b/x"}, {"a=b/x": "/etc/x"}),
])
def test_a_link_that_leads_out_of_the_workspace_is_not_covered(value: dict[str, Any], resolved: dict[str, str]) -> None:
    fields: dict[str, Any] = {"words": "cat **"} if "command" in value else {"path": "**"}

    assert not allowed(call(value, resolved_paths=resolved), **fields)
    assert allowed(call(value), **fields)


@pytest.mark.req("H-6", "H-7")
@pytest.mark.parametrize(("line", "resolved"), [
    ("cat id_rs?", {"id_rs?": "/w/id_rsa"}), ("cat notes", {"notes": "/w/deploy/.env"}),
])
def test_a_word_that_leads_to_a_file_of_secrets_is_not_covered(line: str, resolved: dict[str, str]) -> None:
    assert not allowed(call({"command": line}, resolved_paths=resolved), words="cat **")
    assert not allowed(call({"command": line}, resolved_paths=resolved), words="cat **", path="src/**")
    assert allowed(call({"command": line}), words="cat **")
