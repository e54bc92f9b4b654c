"""Recordings of real agents: the adapter makes the same calls out of every agent's dialect."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import content, permission, play, update

pytestmark = pytest.mark.anyio
COMMAND = {"command": "echo hi > f; cat f"}
CLAUDE_NAME = {"claudeCode": {"toolName": "Bash"}}
CLAUDE = [
    update(sessionUpdate="tool_call", toolCallId="c1", rawInput={}, status="pending", title="Terminal",
           kind="execute", content=[], _meta=CLAUDE_NAME),
    update(sessionUpdate="tool_call_update", toolCallId="c1", rawInput=COMMAND, title="echo", kind="execute",
           content=[], _meta=CLAUDE_NAME),
    permission([("allow_always", "allow_always"), ("allow", "allow_once"), ("reject", "reject_once")], 0,
               toolCallId="c1", rawInput=COMMAND, title="echo", kind="execute", content=[]),
    None,
    update(sessionUpdate="usage_update", used=120, size=1_000_000),
    update(sessionUpdate="plan", entries=[{"content": "a", "priority": "high", "status": "completed"},
                                          {"content": "b", "priority": "low", "status": "pending"}]),
    update(sessionUpdate="tool_call_update", toolCallId="c1",
           _meta={"claudeCode": {"toolResponse": {"stdout": "hi"}, "toolName": "Bash"}}),
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", rawOutput="hi",
           content=content("```console\nhi\n```"), _meta=CLAUDE_NAME),
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", rawOutput="again"),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": ""}),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "done"}),
    update(sessionUpdate="usage_update", used=105, size=1_000_000, cost={"amount": 0.5, "currency": "USD"}),
    {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 200, "outputTokens": 25, "totalTokens": 225}}},
]
GOOSE = [
    update(sessionUpdate="session_info_update", _meta={"goose": {"activeRunId": "run"}}),
    {"method": "_goose/whatever", "params": {}},
    update(sessionUpdate="tool_call", toolCallId="g1", title="shell · echo", rawInput=COMMAND,
           _meta={"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}}),
    permission([("allow_always", "allow_always"), ("allow_once", "allow_once"), ("reject_once", "reject_once"),
                ("reject_always", "reject_always")], toolCallId="g1", kind="other", status="pending",
               title="shell · echo", rawInput=COMMAND),
    None,
    update(sessionUpdate="tool_call_update", toolCallId="g1", status="in_progress", _meta={"toolNotification": {
        "type": "live_output",
        "params": {"sequence": 1, "chunks": [{"stream": "stdout", "output": "hi\n"}], "truncated": False}}}),
    update(sessionUpdate="tool_call_update", toolCallId="g1", status="completed", content=content("hi"),
           rawOutput={"stdout": "hi", "stderr": "", "exit_code": 0}),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "done"}),
    {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 100, "outputTokens": 20}}},
]


@pytest.mark.req("A-7", "A-9")
async def test_claude_code() -> None:
    recorder, process, outcome = await play(CLAUDE)
    assert recorder.events == [("request", "Bash", COMMAND), ("ask", "Bash"),
                               ("plan", [("a", "completed", "high"), ("b", "pending", "low")]), ("progress", 50),
                               ("result", "ok", "text", "hi"),
                               ("text", "done")]
    assert process.got[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "allow"}}
    assert outcome.usage.input_tokens == 200
    assert (recorder.usage_sum.context_used, recorder.usage_sum.cost_usd) == (105, 0.5)


@pytest.mark.req("A-7", "A-9")
async def test_goose() -> None:
    recorder, process, outcome = await play(GOOSE, allow=False)
    assert recorder.events == [("request", "shell", COMMAND), ("ask", "shell"), ("output", "stdout", "hi\n"),
                               ("result", "ok", "text", None), ("text", "done")]
    assert process.got[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
    assert outcome.stop_reason == "end_turn"


@pytest.mark.req("Y-5")
@pytest.mark.parametrize(("allow", "more"), [
    (False, {"_meta": {"interlock": {"denied": "denied by user:ann: not today"}}}), (True, {})])
async def test_a_denial_names_the_decider_and_the_reason(allow: bool, more: dict[str, Any]) -> None:
    _, process, _ = await play(CLAUDE, allow=allow, why="denied by user:ann: not today")
    chosen = "allow" if allow else "reject"
    assert process.got[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": chosen}, **more}


@pytest.mark.req("A-7")
async def test_differences_between_agents_are_known() -> None:
    diff = [{"type": "diff", "path": "/w/n.txt", "oldText": "a", "newText": "b"}]
    recorder, process, outcome = await play([
        update(sessionUpdate="user_message_chunk", content={"type": "text", "text": "go"}),
        update(sessionUpdate="agent_message_chunk", content="not an object"),
        {"id": 9, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}},
        {"id": 10, "method": "_vendor/ask"},
        update(sessionUpdate="tool_call_update", toolCallId="d1", kind="edit", status="completed", content=diff),
        update(sessionUpdate="tool_call", toolCallId="e1", kind="execute", status="in_progress", content=content("a")),
        update(sessionUpdate="tool_call_update", toolCallId="e1", content=content("ab")),
        update(sessionUpdate="tool_call_update", toolCallId="e1", status="completed", content=content("ab")),
        {"result": {"stopReason": "refusal"}},
    ])
    assert recorder.events == [
        ("request", "edit", {}),
        ("result", "ok", "diff", [{"path": "/w/n.txt", "old_text": "a", "new_text": "b"}]),
        ("request", "execute", {}), ("output", "stdout", "a"), ("output", "stdout", "b"),
        ("result", "ok", "text", None),
        ("warn", "INVALID_FRAME"),
    ]
    refused = [m["error"]["code"] for m in process.got if "error" in m]
    assert refused == [-32601, -32601]
    assert (outcome.stop_reason, outcome.notice[0]) == ("end_turn", "AgentRefused")


@pytest.mark.req("A-7", "G-7")
async def test_the_outcome_of_a_command_without_output_is_not_its_output() -> None:
    nothing = {"interlock": {"stream": {"channel": "stdout", "text": ""}}}
    recorder, _, _ = await play([
        update(sessionUpdate="tool_call", toolCallId="s1", kind="execute", status="in_progress", rawInput=COMMAND),
        update(sessionUpdate="tool_call_update", toolCallId="s1", status="completed", content=content("succeeded"),
               rawOutput={"exit_code": 0}, _meta=nothing),
        {"result": {"stopReason": "end_turn"}},
    ])
    assert recorder.events == [("request", "execute", COMMAND), ("result", "ok", "text", None)]


@pytest.mark.req("A-5")
async def test_a_permission_that_the_agent_withdraws_is_no_longer_asked() -> None:
    recorder, process, outcome = await play([
        permission([("allow", "allow_once")], 7, toolCallId="c1", rawInput=COMMAND, title="echo"),
        {"method": "$/cancel_request", "params": {"requestId": 7}},
        None,
        {"result": {"stopReason": "end_turn"}},
    ], forever=True)
    assert recorder.events[0] == ("request", "unknown", COMMAND)
    assert (process.got[-1]["id"], process.got[-1]["error"]["code"]) == (7, -32800)
    assert outcome.stop_reason == "end_turn"


@pytest.mark.req("A-5", "P-2")
@pytest.mark.parametrize("other_id", [7, 7.0, "7"])
async def test_requests_with_a_repeated_id_are_all_denied(other_id: Any) -> None:
    once = [("allow", "allow_once")]
    recorder, process, outcome = await play([
        permission(once, 7, toolCallId="c1", rawInput={"command": "ls"}, title="ls"),
        permission(once, other_id, toolCallId="c2", rawInput={"command": "rm -r ."}, title="rm"),
        None, None,
        permission(once, 7, toolCallId="c3", rawInput={"command": "id"}, title="id"),
        None,
        permission(once, 8, toolCallId="c4", rawInput={"command": "pwd"}, title="pwd"),
        None,
        {"result": {"stopReason": "end_turn"}},
    ])
    replies = [(m["id"], m.get("error", m.get("result", {}))) for m in process.got if "method" not in m]
    assert [(i, reply["code"]) for i, reply in replies[:3]] == [(7, -32600), (other_id, -32600), (7, -32600)]
    assert replies[3] == (8, {"outcome": {"outcome": "selected", "optionId": "allow"}})
    assert ("warn", "INVALID_FRAME") in recorder.events
    assert outcome.stop_reason == "end_turn"


@pytest.mark.req("A-5", "P-2")
async def test_another_request_with_the_id_of_an_open_question_denies_the_question() -> None:
    _, process, _ = await play([
        permission([("allow", "allow_once")], 7, toolCallId="c1", rawInput=COMMAND, title="echo"),
        {"id": 7, "method": "fs/write_text_file", "params": {"path": "x"}},
        None, None,
        {"result": {"stopReason": "end_turn"}},
    ], forever=True)
    assert [(m["id"], m["error"]["code"]) for m in process.got if "error" in m] == [(7, -32600), (7, -32600)]


@pytest.mark.req("A-5")
async def test_an_id_that_was_answered_may_be_used_again() -> None:
    once = [("allow", "allow_once")]
    recorder, process, _ = await play([
        permission(once, 0, toolCallId="c1", rawInput=COMMAND, title="echo"), None,
        permission(once, 0, toolCallId="c2", rawInput=COMMAND, title="echo"), None,
        {"result": {"stopReason": "end_turn"}},
    ])
    assert [event for event in recorder.events if event[0] == "ask"] == [("ask", "unknown"), ("ask", "unknown")]
    assert sum("result" in m for m in process.got) == 2
