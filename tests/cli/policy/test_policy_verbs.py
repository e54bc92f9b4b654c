"""Policy at the terminal: always, with the rule shown first; recorded sessions evaluated by other rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.scripted import Script, answer, link_to, problem
from cli.tasks.test_follower import AT, TURN, approval
from interlock.cli.approvals.approval_prompt import ApprovalPrompt
from interlock.cli.policy import policy_verbs
from interlock.cli.policy.rule_replay import replay_sessions, rules_in_force
from interlock.cli.verb_error import Trouble
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol.answers import PolicyRules
from interlock.protocol.policy_replay import ReplayedCall
from interlock.protocol.resources import Approval, Session

pytestmark = pytest.mark.anyio
GRANTS, RULE = "/v1/approvals/apr_a/grants", "/v1/approvals/apr_a/rule"
KEPT = {"name": "Bash of claude in one session", "effect": "allow", "tool": "Bash", "command_line": "rm -rf build"}


class TypedLines:
    """A user who types these lines and then nothing."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def line(self, question: str = "") -> str | None:
        sys.stderr.write(question)
        return self._lines.pop(0) if self._lines else None


def shown(**more: Any) -> Approval:
    return msgspec.json.decode(msgspec.json.encode(approval(**more)), type=Approval)


@pytest.mark.req("A-9", "G-7")
@pytest.mark.parametrize(("key", "scope"), [("s", "session"), ("a", "rule")])
async def test_always_shows_the_rule_before_it_is_saved_and_how_to_remove_it(
    key: str, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({
        f"GET {RULE}": [answer({"rule": KEPT})],
        f"POST {GRANTS}": [answer(approval("granted", remembered="rul_1", decided_by="user:me"))],
        "GET /v1/policy/rules": [answer({"rules": [{
            "id": "rul_1", "tenant_id": "t", "created_at": AT, "created_by": "user:me", "approval_id": "apr_a",
            "rule": KEPT}]})],
    })
    async with link_to(script, tmp_path) as link:
        assert await ApprovalPrompt(link, "ask", TypedLines(key, "y")).answer(shown())
    assert [(one.method, one.url.path) for one in script.asked] == [
        ("GET", RULE), ("POST", GRANTS), ("GET", "/v1/policy/rules")]
    assert json.loads(script.asked[1].content)["remember"] == {"scope": scope}
    printed = capsys.readouterr().err
    assert 'this rule would be kept: allow where tool = "Bash", command_line = "rm -rf build"' in printed
    assert "interlock policy forget rul_1" in printed


@pytest.mark.req("H-13", "A-9")
async def test_always_is_not_offered_for_files_that_configure_an_agent(tmp_path: Path) -> None:
    files = {"agent_id": "qwen", "directory": "/w", "files": []}
    script = Script({f"POST {GRANTS}": [answer(approval("granted", decided_by="user:me"))]})
    async with link_to(script, tmp_path) as link:
        assert await ApprovalPrompt(link, "ask", TypedLines("a", "y")).answer(
            shown(door="command", workspace_files=True, input=files))
    assert [one.url.path for one in script.asked] == [GRANTS]


@pytest.mark.req("A-9", "Y-4")
async def test_always_offers_the_widths_that_fit_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wider = {**KEPT, "words": "rm -rf **"}
    offered = {"rule": KEPT, "widths": [{"width": "exact", "rule": KEPT}, {"width": "program", "rule": wider}]}
    for chosen, remember in (("1", {"scope": "session"}), ("2", {"scope": "session", "match": {"width": "program"}}),
                             ("3", None)):
        script = Script({f"GET {RULE}": [answer(offered)], f"POST {GRANTS}": [answer(approval("granted"))]})
        async with link_to(script, tmp_path) as link:
            await ApprovalPrompt(link, "ask", TypedLines("s", chosen, "y")).answer(shown())
        assert json.loads(script.asked[-1].content).get("remember") == remember
    assert '2 = this program and first word: allow where tool = "Bash"' in capsys.readouterr().err


@pytest.mark.req("A-9")
async def test_always_describes_its_scope_for_described_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = {"name": "x", "effect": "allow", "kind": "execute", "described": True, "session": "s"}
    offered = {"rule": kind, "widths": [{"width": "described", "rule": kind}]}
    script = Script({f"GET {RULE}": [answer(offered)], f"POST {GRANTS}": [answer(approval("granted"))]})
    async with link_to(script, tmp_path) as link:
        await ApprovalPrompt(link, "ask", TypedLines("s", "y")).answer(shown())
    assert json.loads(script.asked[-1].content)["remember"] == {"scope": "session", "match": {"width": "described"}}
    assert "every call of this kind in this session, although the agent does not send" in capsys.readouterr().err


@pytest.mark.req("A-9")
async def test_a_call_that_cannot_be_remembered_is_reported_and_the_question_stays_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({f"GET {RULE}": [problem(400, "InvalidPayload", "/remember: it is asked each time")],
                     f"POST {GRANTS}": [answer(approval("granted"))]})
    async with link_to(script, tmp_path) as link:
        await ApprovalPrompt(link, "ask", TypedLines("s", "y")).answer(shown())
    assert "remember" not in json.loads(script.asked[-1].content)
    assert "it is asked each time" in capsys.readouterr().err


@pytest.mark.req("A-9")
async def test_a_rejected_rule_is_not_saved_and_the_question_stays_open(tmp_path: Path) -> None:
    script = Script({f"GET {RULE}": [answer({"rule": KEPT})], f"POST {GRANTS}": [answer(approval("denied"))]})
    async with link_to(script, tmp_path) as link:
        await ApprovalPrompt(link, "ask", TypedLines("a", "hm", "n", "")).answer(shown())
    assert "remember" not in json.loads(script.asked[-1].content)


@pytest.mark.req("A-9", "P-3")
@pytest.mark.parametrize("more", [{"required": 2}, {"signed": True}, {"self_approval": False}])
async def test_always_is_not_offered_if_a_plain_grant_does_not_suffice(
    more: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with link_to(Script({}), tmp_path) as link:
        await ApprovalPrompt(link, "ask", TypedLines("s")).answer(shown(**more))
    printed = capsys.readouterr().err
    assert "always" not in printed
    assert "Please answer" in printed


def frame(name: str, **payload: Any) -> dict[str, Any]:
    return {"n": 1, "kind": "C", "frame": {"type": name, "timestamp": AT, "payload": payload}}


def called(name: str, line: str, *decided: dict[str, Any]) -> list[dict[str, Any]]:
    return [frame("tool.invoke.request", invocation_id=f"i{name}", turn_id="t1", tool_name="shell",
                  input={"command": line}),
            frame("agent.interaction.request", interaction_id=name, interaction_type="PERMISSION", title=line,
                  context={"tool_name": "shell", "invocation_id": f"i{name}"}, options=[]), *decided]


@pytest.mark.req("P-1")
async def test_recorded_calls_are_checked_against_trial_rules(tmp_path: Path) -> None:
    events = [
        *called("x1", "git log", frame("x-interlock.interaction.held", interaction_id="x1", approval_id="a")),
        *called("x2", "rm -r /", frame("control.interaction.response", interaction_id="x2", decision="allow",
                                       by="policy:all")),
    ]
    pages = [answer({"events": events[:3], "next_cursor": "c1", "has_more": True}),
             answer({"events": events[3:], "next_cursor": "c2", "has_more": False})]
    session = Session(session_id="s", session_key="k", tenant_id="t", agent_id="goose", state="idle", created_at=AT,
                      updated_at=AT)
    policy = RuleSet([Rule(name="git", effect="allow", words="git log **"),
                      Rule(name="no", effect="deny", command="rm .*")])
    script = Script({"GET /v1/sessions/s/frames": pages, "GET /v1/edge/nodes": [answer({"nodes": []})],
                     "GET /v1/commands": [answer({"commands": [], "next_cursor": None, "has_more": False})]})
    async with link_to(script, tmp_path) as link:
        calls = [call async for call in replay_sessions(link, [session], policy)]
    assert [(call.what, call.was, call.was_rule, call.now, call.now_rule) for call in calls] == [
        ("$ git log", "ask", "a person was asked", "allow", "git"), ("$ rm -r /", "allow", "all", "deny", "no")]


@pytest.mark.req("H-6", "P-1")
async def test_recorded_calls_are_decided_by_the_whole_request_and_the_turns_owner(tmp_path: Path) -> None:
    subject = {"tool_name": "edit", "input": {}, "kind": "edit", "locations": ["/w/secret/a"],
               "resolved_paths": {"/w/link": "/etc/passwd"}}
    events = [
        frame("session.turn.start", turn_id=TURN, turn_index=0),
        frame("agent.interaction.request", interaction_id="x1", interaction_type="PERMISSION", title="it", options=[],
              context={"tool_name": "edit", "subject": subject}),
        frame("x-interlock.interaction.held", interaction_id="x1", approval_id="a", expires_in_ms=1)]
    session = Session(session_id="s", session_key="k", tenant_id="t", agent_id="goose", state="idle", created_at=AT,
                      updated_at=AT, workspace="/w")
    command = {"id": "cmd_a", "created_at": AT, "updated_at": AT, "tenant_id": "t", "type": "execute", "timeout_ms": 1,
               "actor": {"type": "agent", "id": "cron:nightly"}, "target": {"session_id": "s"}, "state": "succeeded",
               "turn_id": TURN, "payload": {"messages": [], "tools": ["edit"]}}
    offer = {"agent_id": "goose", "trusted_kinds": True}
    node = {"node_id": "local", "device_name": "host", "status": "online", "last_seen": AT, "capabilities": [],
            "active_sessions_count": 0, "config_versions": {}, "agents": [offer]}
    for rule in (Rule(name="one", effect="deny", path="secret/**"), Rule(name="one", effect="deny", kind="edit"),
                 Rule(name="one", effect="deny", origin="cron"),
                 Rule(name="one", effect="deny", person="agent:cron:nightly")):
        script = Script({
            "GET /v1/sessions/s/frames": [answer({"events": events, "next_cursor": "c", "has_more": False})],
            "GET /v1/edge/nodes": [answer({"nodes": [node]})],
            "GET /v1/commands": [answer({"commands": [command], "next_cursor": None, "has_more": False})]})
        async with link_to(script, tmp_path) as link:
            one, = [call async for call in replay_sessions(link, [session], RuleSet([rule]))]
        assert (one.now, one.now_rule, one.was) == ("deny", "one", "ask"), rule


@pytest.mark.req("P-1")
async def test_the_rules_in_force_include_the_remembered_ones(tmp_path: Path) -> None:
    script = Script({"GET /v1/policy": [answer({"rules": [
        {"source": "remembered", "name": "kept", "effect": "allow", "words": "ls **"},
        {"source": "config", "name": "mine", "effect": "deny", "path": "x"},
        {"source": "shipped", "name": "ask before an execute", "effect": "ask"}]})]})
    async with link_to(script, tmp_path) as link:
        policy = await rules_in_force(link)
    assert [rule.name for rule in policy.rules] == ["mine", "kept"]


def usage(used: float, **metadata: Any) -> dict[str, Any]:
    event = frame("session.usage", token_usage={"input_tokens": 1, "output_tokens": 1},
                  cost_usage={"limit": -1, "used": used, "unit": "USD"}, time_to_reset=AT,
                  message_usage={"limit": -1, "used": 1, "unit": "COUNT"})
    event["frame"]["metadata"] = metadata
    return event


def opened(message_id: str = "m1", answers: str = "m1", permission: str = "asks", **box: Any) -> list[dict[str, Any]]:
    request = frame("control.session.open", session_id="s")
    request["frame"]["message_id"] = message_id
    capabilities = frame("session.capabilities", dps_version="1.0.0", features={"permission": permission}, **box)
    capabilities["frame"]["metadata"] = {"in_reply_to": answers}
    return [request, capabilities]


def allowed(name: str) -> list[dict[str, Any]]:
    return called(name, "ls", frame("control.interaction.response", interaction_id=name, decision="allow",
                                    by="policy:all"))


async def replayed(tmp_path: Path, events: list[dict[str, Any]], rules: list[Rule], *commands: dict[str, Any]
                   ) -> list[ReplayedCall]:
    """Replay one session of these frames."""
    session = Session(session_id="s", session_key="k", tenant_id="t", agent_id="goose", state="idle", created_at=AT,
                      updated_at=AT, workspace="/w")
    script = Script({
        "GET /v1/sessions/s/frames": [answer({"events": events, "next_cursor": "c", "has_more": False})],
        "GET /v1/edge/nodes": [answer({"nodes": []})],
        "GET /v1/commands": [answer({"commands": list(commands), "next_cursor": None, "has_more": False})]})
    async with link_to(script, tmp_path) as link:
        return [call async for call in replay_sessions(link, [session], RuleSet(rules))]


@pytest.mark.req("P-1")
async def test_a_call_is_decided_by_the_sessions_cost_at_that_time(tmp_path: Path) -> None:
    totals = frame("session.usage", token_usage={"input_tokens": 1, "output_tokens": 1}, time_to_reset=AT,
                   cost_usage={"limit": 9, "used": 8, "unit": "USD"},
                   message_usage={"limit": -1, "used": 1, "unit": "COUNT"})
    totals["kind"] = "M"  # What the gateway sends of its budgets is not the agent's.
    events = [*allowed("x1"), usage(0.6), totals, *allowed("x2"), usage(0.0, estimated=True), usage(0.5),
              *allowed("x3")]
    calls = await replayed(tmp_path, events, [Rule(name="dear", effect="deny", cost_over=1.0)])
    assert [call.now_rule == "dear" for call in calls] == [False, False, True], "0.6, and 0.5 of a total begun again"


@pytest.mark.req("P-1", "H-11", "H-12")
async def test_a_call_is_decided_by_whether_its_agent_asked_at_that_time(tmp_path: Path) -> None:
    stops, asks = (frame("x-interlock.asking.changed", asks=on, message="It was switched.") for on in (False, True))
    ran = frame("agent.error", severity="error", error_code="RAN_UNASKED", message="It ran.", recoverable=True)
    events = [*opened(), *allowed("x1"), stops, *allowed("x2"), asks, *allowed("x3"), ran, asks, *opened("m2", "m2"),
              *allowed("x4")]
    calls = await replayed(tmp_path, events, [Rule(name="never", effect="deny", permission="never"),
                                              Rule(name="all", effect="allow")])
    assert [call.now_rule for call in calls] == ["all", "never", "all", "never"]
    calls = await replayed(tmp_path, events, [Rule(name="all", effect="allow")])
    assert [(call.now, call.changed) for call in calls] == [("allow", False)] * 3 + [("ask", True)]


@pytest.mark.req("P-1", "H-18")
async def test_a_call_is_decided_by_the_box_that_was_reported_at_its_open(tmp_path: Path) -> None:
    box = {"box": {"walls": "landlock", "network": "none", "limited": True}}
    closed = frame("session.closed", reason="idle")
    events = [*opened(**box), *allowed("x1"), closed, *opened("m2", "m1", **box), *allowed("x2")]
    calls = await replayed(tmp_path, events, [Rule(name="boxed", effect="deny", box=True)])
    assert [call.now_rule == "boxed" for call in calls] == [True, False]


@pytest.mark.req("P-1", "P-3")
async def test_a_call_is_decided_by_its_agents_driver_and_unknown_facts_are_reported(tmp_path: Path) -> None:
    command = {"id": "cmd_a", "created_at": AT, "updated_at": AT, "tenant_id": "t", "type": "execute", "timeout_ms": 1,
               "actor": {"type": "agent", "id": "ci"}, "target": {"session_id": "s"}, "state": "succeeded",
               "turn_id": TURN, "payload": {"messages": []}}
    rules = [Rule(name="kim's", effect="deny", person="user:kim")]
    events = [frame("session.turn.start", turn_id=TURN, turn_index=0), *allowed("x1")]
    driven = {**command, "driver": {"type": "user", "id": "kim"}}
    [known] = await replayed(tmp_path, events, rules, driven)
    [unknown] = await replayed(tmp_path, events, rules, command)
    [lost] = await replayed(tmp_path, events, rules)
    assert (known.now_rule, known.unknown) == ("kim's", [])
    assert (unknown.now_rule == "kim's", unknown.unknown) == (False, ["driver"])
    assert lost.unknown == ["command"]


@pytest.mark.req("P-1")
async def test_a_flush_is_decided_as_a_flush(tmp_path: Path) -> None:
    command = {"id": "cmd_a", "created_at": AT, "updated_at": AT, "tenant_id": "t", "type": "execute", "timeout_ms": 1,
               "actor": {"type": "agent", "id": "gateway"}, "target": {"session_id": "s"}, "state": "succeeded",
               "turn_id": TURN, "payload": {"messages": []}}
    events = [frame("session.turn.start", turn_id=TURN, turn_index=0), *allowed("x1")]
    [call] = await replayed(tmp_path, events, [Rule(name="all", effect="allow")], command)
    assert (call.now, call.now_rule, call.unknown) == ("deny", "memory flush does nothing else", [])


@pytest.mark.req("P-1")
def test_the_rule_of_an_approval_is_named_only_with_an_explanation(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = answer({"items": [approval()], "next_cursor": None, "has_more": False})
    explained = {"effect": "ask", "rule": "ask first", "required": 1, "reason": None, "steps": [
        {"rule": "echo", "source": "config", "effect": "allow", "missed": "command", "glob": "echo *"}],
                 "unclear": "the command can be read in two ways"}
    _, where = scripted({
        "GET /v1/approvals": [listed, listed],
        "GET /v1/approvals/apr_a/explain": [problem(409, "Conflict", "The facts are gone."), answer(explained)]})
    with pytest.raises(Trouble, match="The facts are gone"):
        policy_verbs.explain("apr_a", where=where)
    assert capsys.readouterr() == ("", "")
    assert policy_verbs.explain("apr_a", where=where) == 0
    out, err = capsys.readouterr()
    assert (out, "apr_a was opened by the rule" in err) == ("ask · by the rule ask first\n", True)
    assert "no allow rule about its input covers this call: the command can be read in two ways" in err
    assert "command = 'echo *' is a regular expression" in err


@pytest.mark.req("Y-4")
@pytest.mark.parametrize(("flushes", "numbers", "sentence"), [
    (False, ["2"], "Not shown: 1 rule for memory flushes (--all)."), (True, ["1", "2"], "")])
async def test_the_list_of_rules_states_what_it_leaves_out(
    flushes: bool, numbers: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [{"source": "shipped", "name": "no command during a flush", "effect": "deny", "origin": "flush"},
             {"source": "yours", "name": "no force", "effect": "deny", "command": "rm"}]
    policy_verbs.print_rules(PolicyRules(rules), flushes=flushes)
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()[1:]] == numbers
    assert sentence in printed.err
    assert ("Not shown" in printed.err) is not flushes
