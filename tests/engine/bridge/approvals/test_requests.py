"""The subject of a permission request, as policy evaluates it: paths below the workspace, and words of a list (H-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol import payloads as p

pytestmark = pytest.mark.anyio


async def running(table: Table, **fields: Any) -> tuple[str, str]:
    """A command whose turn has started: its id and its session's."""
    command = await table.execute(**fields)
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command.id, command.target.session_id


@pytest.mark.req("P-1")
@pytest.mark.parametrize(("tool_input", "allowed"), [
    ({"path": "/w/docs/a.md"}, True),
    ({"path": "docs/a.md"}, True),
    ({"path": "/w/docs/../src/a.md"}, False),
    ({"path": "../docs/a.md"}, False),
    ({"path": "docs/a.md", "destination": "/etc/passwd"}, False),
    ({"file_path": "docs/a.md", "paths": ["src/b.md"]}, False),
    ({"path": "/workspace/docs/a.md"}, False),
])
async def test_paths_are_judged_below_the_workspace(tool_input: dict[str, Any], allowed: bool) -> None:
    table = Table(policy=RuleSet([Rule(name="docs", effect="allow", door="tool", path="docs/*.md")]))
    _, session_id = await running(table)
    await table.say(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="edit", input=msgspec.Raw(msgspec.json.encode(tool_input))))
    await table.say(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="edit",
        context=p.InteractionContext(tool_name="edit", invocation_id="i1")))
    assert ("control.interaction.response" in table.wire.types()) is allowed


@pytest.mark.req("P-1")
async def test_a_command_given_as_a_list_meets_the_rules_for_command_lines() -> None:
    rules = [Rule(name="no rm", effect="deny", door="tool", command="rm .*"),
             Rule(name="shell", effect="allow", door="tool", tool="shell")]
    table = Table(policy=RuleSet(rules))
    _, session_id = await running(table)
    await table.say(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="shell", input=msgspec.Raw(b'{"command":["rm","-rf","/"]}')))
    await table.say(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="rm",
        context=p.InteractionContext(tool_name="shell", invocation_id="i1")))
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
