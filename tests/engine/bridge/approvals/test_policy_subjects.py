"""The subject of a permission request, as policy evaluates it: paths below the workspace, words of a list, and the same
facts when a stored approval is evaluated again (H-1, H-6, P-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bridge.steps import running
from engine.conversation import Table
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.approvals.policy_subjects import subject_of_approval
from interlock.protocol import payloads as p
from interlock.protocol.records import ApprovalRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-6", "P-1")]
RULES = [
    Rule(name="secrets", effect="ask", path="secret/**"),
    Rule(name="links", effect="ask", path="/etc/**"),
    Rule(name="deletes", effect="ask", kind="delete"),
    Rule(name="nightly", effect="ask", origin="cron"),
    Rule(name="of one", effect="ask", person="user:owner", tool="write"),
]
REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "its input": ({"tool_name": "shell", "input": {"command": "cat secret/a"}}, "secrets"),
    "its locations": ({"tool_name": "x", "input": {}, "locations": ["/w/secret/a"]}, "secrets"),
    "its diff": ({"tool_name": "x", "input": {}, "content": [{"type": "diff", "path": "/w/secret/a", "newText": ""}]},
                 "secrets"),
    "where its links lead": ({"tool_name": "x", "input": {"path": "a"}, "resolved_paths": {"a": "/etc/passwd"}},
                             "links"),
    "its kind": ({"tool_name": "x", "input": {"what": "it"}, "kind": "delete"}, "deletes"),
    "whose it is": ({"tool_name": "write", "input": {"text": "it"}}, "of one"),
    "nothing of the rules": ({"tool_name": "x", "input": {}, "described": True, "title": "Look"}, "ask before a tool"),
}


async def held(subject: dict[str, Any], policy: RuleSet) -> tuple[Table, ApprovalRecord]:
    """A call with this subject, as the gateway stores it while it waits."""
    table = Table(policy)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x1", interaction_type="PERMISSION", title="it", context=p.InteractionContext(
            tool_name=str(subject["tool_name"]), subject=msgspec.Raw(msgspec.json.encode(subject)))))
    record = await table.ledger.approval(table.wire.last("x-interlock.interaction.held").payload.approval_id, "default")
    assert record is not None
    return table, record


@pytest.mark.parametrize(("subject", "rule"), REQUESTS.values(), ids=REQUESTS)
async def test_a_stored_approval_is_explained_by_its_recorded_decision(
    subject: dict[str, Any], rule: str
) -> None:
    _, record = await held(subject, RuleSet(RULES))
    assert record.approval.rule == rule
    again = RuleSet(RULES).decide(subject_of_approval(record))
    assert (again.effect, again.rule) == ("ask", rule)


async def test_a_rule_on_hours_is_evaluated_at_the_time_of_the_call() -> None:
    table, record = await held({"tool_name": "x", "input": {}}, RuleSet())
    table.clock.advance(3_600_000)
    assert subject_of_approval(record).at_ms == table.clock.at_ms - 3_600_000
    assert subject_of_approval(record, table.clock.at_ms).at_ms == table.clock.at_ms


async def test_a_changed_input_is_decided_with_the_kind_of_the_request() -> None:
    """A rule about the kind denies the changed input, too: the kind is kept with the request."""
    table, record = await held({"tool_name": "x", "input": {"path": "a"}, "kind": "delete"}, RuleSet())
    denying = RuleSet([Rule(name="no deleting", effect="deny", kind="delete", reason="It stays.")])
    raw = msgspec.Raw(b'{"path":"b"}')
    changed = msgspec.structs.replace(record, approval=msgspec.structs.replace(record.approval, input=raw))
    assert denying.decide(subject_of_approval(changed, table.clock.at_ms)).rule == "no deleting"


@pytest.mark.parametrize(("tool_input", "allowed"), [
    ({"path": "/w/docs/a.md"}, True),
    ({"path": "docs/a.md"}, True),
    ({"path": "/w/docs/../src/a.md"}, False),
    ({"path": "../docs/a.md"}, False),
    ({"path": "docs/a.md", "destination": "/etc/passwd"}, False),
    ({"file_path": "docs/a.md", "paths": ["src/b.md"]}, False),
    ({"path": "/workspace/docs/a.md"}, False),
])
async def test_paths_are_matched_relative_to_the_workspace(tool_input: dict[str, Any], allowed: bool) -> None:
    table = Table(policy=RuleSet([Rule(name="docs", effect="allow", door="tool", path="docs/*.md")]))
    _, session_id = await running(table)
    await table.send(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="edit", input=msgspec.Raw(msgspec.json.encode(tool_input))))
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="edit",
        context=p.InteractionContext(tool_name="edit", invocation_id="i1")))
    assert ("control.interaction.response" in table.wire.types()) is allowed


async def test_a_command_given_as_a_list_is_matched_by_command_line_rules() -> None:
    rules = [Rule(name="no rm", effect="deny", door="tool", command="rm .*"),
             Rule(name="shell", effect="allow", door="tool", tool="shell")]
    table = Table(policy=RuleSet(rules))
    _, session_id = await running(table)
    await table.send(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="shell", input=msgspec.Raw(b'{"command":["rm","-rf","/"]}')))
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="rm",
        context=p.InteractionContext(tool_name="shell", invocation_id="i1")))
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
