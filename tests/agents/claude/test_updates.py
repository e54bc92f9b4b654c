"""Messages of Claude Code, one by one, and what the turn writer receives of them, without the program itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from interlock.agents.call_ids import invocation_id
from interlock.ports.agent import AgentFile, AgentQuestion, InteractionAnswer, TurnUsage
from interlock.protocol.payloads import PlanStep
from lazily import lazily

sdk = lazily("claude_agent_sdk")
results, hearing = lazily("interlock.agents.claude.results"), lazily("interlock.agents.claude.updates")


pytestmark = [pytest.mark.anyio, pytest.mark.needs("claude-sdk")]


class Ear:
    """A turn writer that records its calls as tuples."""

    def __init__(self) -> None:
        self.reports: list[tuple[Any, ...]] = []

    async def text(self, text: str) -> None:
        self.reports.append(("text", text))

    async def end_block(self) -> None:
        return

    async def thinking(self, text: str) -> None:
        self.reports.append(("thinking", text))

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        self.reports.append(("request", invocation_id, tool_name, msgspec.json.decode(input_json), title,
                             parent_invocation_id, kind))

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        pass

    async def tool_output(self, invocation_id: str, channel: str, text: str) -> None:
        self.reports.append(("output", invocation_id, channel, text))

    async def tool_result(self, invocation_id: str, status: str, output_type: str, output: Any) -> None:
        self.reports.append(("result", invocation_id, status, output_type, output))

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        raise AssertionError(question)

    async def usage(self, usage: TurnUsage) -> None:
        self.reports.append(("usage", usage.input_tokens, usage.output_tokens))

    async def progress(self, percent: float) -> None:
        self.reports.append(("progress", percent))

    async def plan(self, steps: Sequence[PlanStep]) -> None:
        self.reports.append(("plan", [(step.content, step.status) for step in steps]))

    async def file(self, file: AgentFile, invocation_id: str | None = None) -> None:
        self.reports.append(("file", *file, invocation_id))

    async def warn(self, code: str, message: str) -> None:
        raise AssertionError((code, message))


def piece(event: dict[str, Any], parent: str | None = None) -> sdk.StreamEvent:
    return sdk.StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def start(message_id: str, parent: str | None = None) -> sdk.StreamEvent:
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}
    return piece({"type": "message_start", "message": {"id": message_id, "model": "m", "usage": usage}}, parent)


def delta(parent: str | None = None, **fields: str) -> sdk.StreamEvent:
    return piece({"type": "content_block_delta", "index": 0, "delta": fields}, parent)


def assistant(*blocks: Any, message_id: str = "m1", parent: str | None = None, error: Any = None) -> Any:
    return sdk.AssistantMessage(content=list(blocks), model="m", message_id=message_id, parent_tool_use_id=parent,
                                error=error)


async def reports_of(*messages: Any) -> list[tuple[Any, ...]]:
    updates, ear = hearing.ClaudeUpdates(None), Ear()
    updates.begin(ear)
    for message in messages:
        await updates.take(message)
    return ear.reports


@pytest.mark.req("A-7", "E-4")
async def test_streamed_text_is_not_repeated_and_missing_text_is_added() -> None:
    reported = await reports_of(
        start("m1"), delta(type="thinking_delta", thinking="hm"), delta(type="text_delta", text="one "),
        delta(type="text_delta", text="two"),
        assistant(sdk.ThinkingBlock(thinking="hm", signature=""), sdk.TextBlock(text="one two")),
        assistant(sdk.ThinkingBlock(thinking="so", signature=""), sdk.TextBlock(text="three"), message_id="m2"),
        assistant(sdk.TextBlock(text="API Error: 500"), message_id="m3", error="server_error"),
    )
    assert reported == [("thinking", "hm"), ("text", "one "), ("text", "two"), ("thinking", "so"), ("text", "three")]


@pytest.mark.req("T-2", "P-7")
async def test_figures_of_each_message_add_up_to_the_turn() -> None:
    reported = await reports_of(
        start("m1"), piece({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 40}}),
        start("m2", "t1"), piece({"type": "message_delta", "usage": {"output_tokens": "many"}}, "t1"),
        start("m3"), piece({"type": "message_delta", "usage": {"input_tokens": 9, "output_tokens": 60}}),
    )
    assert reported == [("usage", 7, 40), ("usage", 14, 41), ("usage", 23, 101)]


@pytest.mark.req("S-5")
async def test_the_todo_list_reports_progress() -> None:
    def todos(given: Any, parent: str | None = None) -> sdk.AssistantMessage:
        return assistant(sdk.ToolUseBlock(id=f"t{id(given)}", name="TodoWrite", input={"todos": given}), parent=parent)

    done, open_ = {"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}
    reports = await reports_of(todos([open_, open_]), todos([done, open_, open_, 7]), todos([done, done]),
                               todos("none"), todos([]), todos([done, open_], parent="t1"))
    assert [reported[1] for reported in reports if reported[0] == "progress"] == [0, 100 / 3, 100]


@pytest.mark.req("A-7")
async def test_a_subagents_calls_name_their_parent_and_its_text_is_the_parents_output() -> None:
    task = {"description": "look", "prompt": "look around", "subagent_type": "Explore"}
    reported = await reports_of(
        assistant(sdk.ToolUseBlock(id="t1", name="Task", input=task)),
        start("m2", "t1"), delta("t1", type="text_delta", text="I look."),
        assistant(sdk.TextBlock(text="I look."), sdk.ToolUseBlock(id="t2", name="Grep", input={"pattern": "x"}),
                  message_id="m2", parent="t1"),
        sdk.UserMessage(content=[sdk.ToolResultBlock(tool_use_id="t2", content="a.py")], parent_tool_use_id="t1",
                        tool_use_result={"mode": "files_with_matches", "filenames": ["a.py"]}),
        sdk.UserMessage(content=[sdk.ToolResultBlock(tool_use_id="t1", content=[{"type": "text", "text": "found"}])]),
    )
    assert reported == [
        ("request", "t1", "Task", task, "Task: look", None, None),
        ("output", "t1", "agent", "I look."),
        ("request", "t2", "Grep", {"pattern": "x"}, "Grep: x", "t1", "search"),
        ("result", "t2", "ok", "file_list", ["a.py"]),
        ("result", "t1", "ok", "agent_result", "found"),
    ]


@pytest.mark.req("L-2")
async def test_calls_with_ids_too_long_for_frames_are_reported_under_their_digests() -> None:
    parent, child = "call_1__thought__" + "s" * 3_000, "call_2__thought__" + "s" * 3_000
    reported = await reports_of(
        assistant(sdk.ToolUseBlock(id=parent, name="Task", input={"description": "look"})),
        start("m2", parent), delta(parent, type="text_delta", text="I look."),
        assistant(sdk.ToolUseBlock(id=child, name="Grep", input={"pattern": "x"}), message_id="m2", parent=parent),
        sdk.UserMessage(content=[sdk.ToolResultBlock(tool_use_id=child, content="a.py")], parent_tool_use_id=parent),
    )
    named = invocation_id(parent), invocation_id(child)
    assert [len(one) for one in named] == [64, 64]
    assert [(one[0], one[1], *one[5:6]) for one in reported] == [
        ("request", named[0], None), ("output", named[0]), ("request", named[1], named[0]), ("result", named[1])]


@pytest.mark.req("A-5")
async def test_a_denial_is_reported_with_the_text_of_the_denier() -> None:
    reported = await reports_of(
        assistant(sdk.ToolUseBlock(id="t1", name="Bash", input={"command": "ls"})),
        sdk.UserMessage(content=[sdk.ToolResultBlock("t1", "PreToolUse:Bash hook error: Not today.", is_error=True)],
                        tool_use_result="Error: Not today."),
    )
    assert reported[-1] == ("result", "t1", "error", "text", "Not today.")


@pytest.mark.req("A-7")
def test_outputs_depend_on_the_tool() -> None:
    edit = {"filePath": "/w/a", "oldString": "x", "newString": "y", "originalFile": "axb", "structuredPatch": []}
    write = {"filePath": "/w/b", "content": "new", "originalFile": None, "structuredPatch": []}
    for name, content, structured, expected in [
        ("Edit", "done", edit, ("diff", [{"path": "/w/a", "old_text": "x", "new_text": "y"}])),
        ("Write", "done", write, ("diff", [{"path": "/w/b", "old_text": None, "new_text": "new"}])),
        ("Edit", "no such text", None, ("text", "no such text")),
        ("Read", "1 line", {"type": "text"}, ("file_content", "1 line")),
        ("Grep", "a:1", {"mode": "content", "filenames": []}, ("text", "a:1")),
        ("Glob", "a", {"filenames": ["a"]}, ("file_list", ["a"])),
        ("WebFetch", "page", None, ("web_content", "page")),
        ("Bash", "(Bash completed with no output)", {"stdout": "", "stderr": ""}, ("empty", "")),
        ("Bash", "hi", {"stdout": "hi", "stderr": ""}, ("text", "hi")),
        ("Read", [{"type": "image"}], None, ("structured", [{"type": "image"}])),
        ("mcp__x__y", None, None, ("empty", "")),
    ]:
        assert results.output_of(results.Called(name, {}), content, structured) == expected


@pytest.mark.req("A-7")
def test_titles_name_the_target_of_a_tool() -> None:
    assert results.title_of("Read", {"file_path": "/w/a"}) == "Read: /w/a"
    assert results.title_of("mcp__x__y", {"n": 1}) == "mcp__x__y"


@pytest.mark.req("T-6")
@pytest.mark.parametrize(("summary", "requested", "trigger"), [
    ("auto", False, "auto"), ("manual", False, "manual"), ("manual", True, "requested"),
])  # fmt: skip
async def test_a_compaction_is_reported_with_its_summary(summary: str, requested: bool, trigger: str) -> None:
    relayed: list[Any] = []

    async def relay(kind: str, payload: Any, metadata: dict[str, Any]) -> None:
        relayed.append((kind, payload))

    updates = hearing.ClaudeUpdates(relay)
    if requested:
        updates.request_compaction()
    metadata = {"trigger": summary, "pre_tokens": 171, "post_tokens": 20}
    await updates.take(sdk.SystemMessage(subtype="compact_boundary", data={"compact_metadata": metadata}))
    await updates.take(sdk.UserMessage(content="In short: nothing."))
    await updates.take(sdk.UserMessage(content="<local-command-stdout>Compacted</local-command-stdout>"))
    report = updates.compaction()
    assert report is not None
    assert (report.summary, report.previous_token_count, report.current_token_count, report.trigger) == (
        "In short: nothing.", 171, 20, trigger)  # fmt: skip
    assert relayed == ([] if requested else [("session.compacted", report)])


def result(**fields: Any) -> sdk.ResultMessage:
    summary: dict[str, Any] = {"subtype": "success", "is_error": False, "stop_reason": "end_turn", **fields}
    return sdk.ResultMessage(duration_ms=1, duration_api_ms=1, num_turns=1, session_id="s", **summary)


@pytest.mark.req("A-7")
@pytest.mark.parametrize(("fields", "stop", "error"), [
    ({}, "end_turn", None),
    ({"stop_reason": "max_tokens"}, "max_tokens", None),
    ({"subtype": "error_max_turns", "is_error": True}, "max_tokens", None),
    ({"is_error": True, "result": "API Error: 500 x"}, "error", "API Error: 500 x"),
    ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "error", "a; b"),
])  # fmt: skip
def test_a_turns_end_has_its_reason(fields: dict[str, Any], stop: str, error: str | None) -> None:
    outcome = results.answered(result(**fields), TurnUsage())
    assert outcome.stop_reason == stop
    assert outcome.error == (None if error is None else ("UPSTREAM_ERROR", error))


@pytest.mark.req("A-7")
def test_a_refusal_is_reported() -> None:
    assert results.answered(result(stop_reason="refusal"), TurnUsage()).notice is not None


@pytest.mark.req("A-7", "T-2")
def test_the_cost_of_a_turn_is_the_increase_of_the_conversations_cost() -> None:
    summary = results.usage_of(
        result(total_cost_usd=0.5, model_usage={"m": {"contextWindow": 1000}}, usage={
            "input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 5}}),
        0.2, 10, "m",
    )  # fmt: skip
    assert summary == TurnUsage(1, 2, 3, 4, 5, pytest.approx(0.3), 1000, 10)
