"""The tool that the model stand-in calls for an action, for agents that offer it in different ways."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.model_stand_in.conversation import OfferedTool
from interlock.model_stand_in.tool_choice import action_call, delegate_call

DEFERRED = OfferedTool("tool_call", {"properties": {"name": {"type": "string"}, "arguments": {"type": "object"}}})
FETCH = OfferedTool("web_fetch", {"properties": {"url": {"type": "string"}}, "required": ["url"]})


def sub_agent(name: str, *required: str, **properties: Any) -> OfferedTool:
    return OfferedTool(name, {"properties": {"prompt": {"type": "string"}, **properties}, "required": list(required)})


def test_a_deferred_tool_is_called_through_the_one_that_loads_it() -> None:
    assert action_call("fetch", [DEFERRED], {"url": "http://a/"}) == (
        "tool_call", {"name": "web_fetch", "arguments": {"url": "http://a/", "prompt": "say it"}})
    assert action_call("mark", [DEFERRED], {"name": "a.txt"}) == (
        "tool_call", {"name": "mcp__interlock_check__leave_mark", "arguments": {"name": "a.txt"}})
    assert action_call("fetch", [DEFERRED, FETCH], {"url": "http://a/"}) == ("web_fetch", {"url": "http://a/"})
    assert action_call("write", [DEFERRED], {"path": "a", "content": "b"}) is None
    assert action_call("fetch", [], {"url": "http://a/"}) is None


def test_codex_writes_and_edits_with_a_patch_in_a_command() -> None:
    codex = OfferedTool("exec_command", {"properties": {"cmd": {"type": "string"}, "sandbox_permissions": {}}})
    for action, given, lines in (("write", {"path": "/w/a", "content": "one\ntwo\n"},
                                ["*** Add File: /w/a", "+one", "+two"]),
                               ("edit", {"path": "/w/a", "old": "one", "new": "1"},
                                ["*** Update File: /w/a", "@@", "-one", "+1"])):
        patch = ["apply_patch <<'EOF'", "*** Begin Patch", *lines, "*** End Patch", "EOF", ""]
        assert action_call(action, [codex], given) == ("exec_command", {"cmd": "\n".join(patch)})
    assert action_call("write", [OfferedTool("bash", {"properties": {"command": {}}})], {"path": "a"}) is None


@pytest.mark.parametrize(("tool", "named"), [
    (sub_agent("Agent", "prompt", subagent_type={"type": "string"}), {}),
    (sub_agent("Agent", "subagent_type", subagent_type={"type": "string"}), {"subagent_type": "general-purpose"}),
    (sub_agent("task", subagent_type={"type": "string"}), {"subagent_type": "general"}),
    (sub_agent("invoke_agent", "agent_name", agent_name={"type": "string"}), {"agent_name": "generalist"}),
])  # fmt: skip
def test_a_sub_agent_has_a_type_that_its_agent_offers(tool: OfferedTool, named: dict[str, Any]) -> None:
    assert delegate_call([tool], "do it") == (tool.name, {"prompt": "do it", **named})
