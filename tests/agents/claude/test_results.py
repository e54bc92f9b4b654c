"""Inputs and results of Claude Code's tools, and the ends of its turns (A-7, T-2), without the program itself."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.agent import TurnUsage
from interlock.protocol.codes import Code
from lazily import lazily

sdk, results = lazily("claude_agent_sdk"), lazily("interlock.agents.claude.results")

pytestmark = pytest.mark.needs("claude-sdk")
NONE = TurnUsage()


def result(**fields: Any) -> Any:
    return sdk.ResultMessage(**{
        "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1,
        "session_id": "s",
        **fields})


@pytest.mark.parametrize(("tool_input", "title"), [
    ({"command": "ls", "description": "list"}, "Bash: list"), ({"command": "ls"}, "Bash: ls"), ({"file_path": "a"},
    "Bash: a"),
    ({"command": 7}, "Bash"), ({}, "Bash"),
])
def test_a_title_is_the_tool_and_its_target(tool_input: dict[str, Any], title: str) -> None:
    assert results.title_of("Bash", tool_input) == title


@pytest.mark.req("A-7")
@pytest.mark.parametrize(("name", "content", "structured", "output"), [
    ("Bash", "out", {"stdout": "out", "stderr": ""}, ("text", "out")), ("Bash", "(no output)", {"stdout": "",
    "stderr": ""},
                                                                       ("empty", "")),
    ("Read", "1 a", None, ("file_content", "1 a")), ("Grep", "a\nb", {"filenames": ["a", "b"]}, ("file_list", ["a",
    "b"])),
    ("Grep", "a:1:x", {"filenames": ["a"], "mode": "content"}, ("text", "a:1:x")), ("Task", "done", {},
    ("agent_result", "done")),
    ("WebFetch", "page", {}, ("web_content", "page")), ("mcp__x", [{"type": "text", "text": "a"}], None, ("text", "a")),
    ("mcp__x", [{"type": "resource"}], None, ("structured", [{"type": "resource"}])), ("mcp__x", None, None, ("empty",
    "")),
    ("Edit", "ok", {"filePath": "a", "oldString": "x", "newString": "y"},
     ("diff", [{"path": "a", "old_text": "x", "new_text": "y"}])),
    ("Write", "ok", {"filePath": "a", "content": "new"}, ("diff", [{"path": "a", "old_text": None,
    "new_text": "new"}])),
    ("Write", "ok", {"filePath": "a"}, ("diff", [{"path": "a", "old_text": None, "new_text": "from the call"}])),
    ("Edit", "failed", {"error": "x"}, ("text", "failed")),
])
def test_a_result_has_its_type_and_its_output(name: str, content: Any, structured: Any, output: Any) -> None:
    assert results.output_of(results.Called(name, {"content": "from the call"}), content, structured) == output


@pytest.mark.parametrize(("content", "text"), [
    ("a", "a"), ([{"text": "a"}, {"text": 7}, "odd", {"text": "b"}], "a\nb"), (7, "")])
def test_the_text_of_a_content_is_read(content: Any, text: str) -> None:
    assert results.text_of(content) == text


@pytest.mark.req("A-2", "T-3")
@pytest.mark.parametrize(("fields", "stop", "code"), [
    ({}, "end_turn", None), ({"stop_reason": "max_tokens"}, "max_tokens", None),
    ({"subtype": "error_max_turns", "is_error": True}, "max_tokens", None),
    ({"subtype": "error_during_execution"}, "error", Code.UPSTREAM_ERROR), ({"is_error": True}, "error",
    Code.UPSTREAM_ERROR),
])
def test_the_result_gives_the_reason_of_the_turns_end(fields: dict[str, Any], stop: str, code: Code | None) -> None:
    outcome = results.answered(result(**fields), NONE)
    assert outcome.stop_reason == stop
    assert (outcome.error and outcome.error[0]) == code


def test_a_refusal_is_reported_and_an_error_keeps_its_message() -> None:
    refused = results.answered(result(stop_reason="refusal"), NONE)
    assert refused.notice == ("AgentRefused", "The agent refused to continue with this prompt.")
    failed = results.answered(result(is_error=True, result="x" * 10_000), NONE)
    assert failed.error == (Code.UPSTREAM_ERROR, "x" * results.MAX_ERROR_CHARS)


@pytest.mark.req("T-2")
def test_tokens_are_the_turns_own_and_the_cost_is_the_growth_of_the_total() -> None:
    ended = result(total_cost_usd=1.5, usage={"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5,
                                              "output_tokens_details": {"thinking_tokens": 2}},
                   model_usage={"m": {"contextWindow": 200_000}})
    usage = results.usage_of(ended, 1.0, 77, "m")
    assert (usage.input_tokens, usage.output_tokens) == (3, 4)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (5, None)
    assert (usage.thinking_tokens, usage.cost_usd, usage.context_capacity, usage.context_used) == (2, 0.5, 200_000, 77)


def test_missing_figures_are_unknown_and_no_cost_is_negative() -> None:
    assert results.usage_of(result(), 1.0, None, None).cost_usd is None
    assert results.usage_of(result(total_cost_usd=0.5), 1.0, None, "m").cost_usd == 0.0
    assert results.usage_of(result(usage={"output_tokens_details": "odd"}), 0.0, None, None).thinking_tokens is None
