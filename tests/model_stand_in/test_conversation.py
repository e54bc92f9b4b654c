"""One conversation out of four wire forms: the person's last prompt, and how many tool results came since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.model_stand_in.conversation import (
    ModelPrompt,
    OfferedTool,
    read_anthropic,
    read_chat,
    read_gemini,
    read_responses,
)

SCHEMA = {"type": "object"}
FORMS: dict[str, tuple[Callable[[Any], ModelPrompt], Callable[[str], Any], Any, Callable[..., Any]]] = {
    "anthropic": (
        read_anthropic, lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "user", "content": [{"type": "tool_result"}]},
        lambda messages: {"system": "be brief", "messages": messages, "tools": [{"name": "t",
        "input_schema": SCHEMA}]}),
    "chat": (
        read_chat, lambda text: {"role": "user", "content": text}, {"role": "tool", "content": "x"},
        lambda messages: {"messages": [{"role": "system", "content": "be brief"}, *messages],
                          "tools": [{"type": "function", "function": {"name": "t", "parameters": SCHEMA}}]}),
    "responses": (
        read_responses, lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "function_call_output", "output": "x"},
        lambda messages: {"instructions": "be brief", "input": messages,
                          "tools": [{"type": "function", "name": "t", "parameters": SCHEMA}]}),
    "gemini": (
        read_gemini, lambda text: {"role": "user", "parts": [{"text": text}]},
        {"role": "user", "parts": [{"functionResponse": {}}]},
        lambda messages: {"systemInstruction": {"parts": [{"text": "be brief"}]}, "contents": messages,
                          "tools": [{"functionDeclarations": [{"name": "t", "parametersJsonSchema": SCHEMA}]}]}),
}
every_form = pytest.mark.parametrize("form", FORMS)


def read(form: str, *texts: str | None, **fields: Any) -> ModelPrompt:
    """Read a conversation of these prompts; None is a tool's result."""
    reader, prompt, result, body = FORMS[form]
    return reader({**body([result if text is None else prompt(text) for text in texts]), **fields})


@every_form
def test_the_last_prompt_counts_with_the_results_after_it(form: str) -> None:
    found = read(form, "first", None, "second", None, None)
    assert (found.prompt, found.results, found.earlier, found.system) == ("second", 2, 1, "be brief")
    assert found.tools == (OfferedTool("t", SCHEMA),)


@every_form
def test_notes_of_the_agent_are_not_text_of_the_user(form: str) -> None:
    noted = "<system-reminder>do\nnot</system-reminder> hello <info-msg a='b'>x</info-msg>"
    assert read(form, noted).prompt == "hello"
    assert (read(form, "hello", None, "<system-reminder>x</system-reminder>").prompt) == "hello"


@every_form
def test_a_title_request_is_recognised_by_its_text_unless_tools_are_offered(form: str) -> None:
    assert read(form, "Generate a short title for this.").side
    assert not read(form, "hello").side


@every_form
def test_the_last_token_count_in_the_conversation_is_reported(form: str) -> None:
    assert read(form, "[[tokens:5]]", None, "[[tokens:9]]").tokens == 9
    assert read(form, "hello").tokens is None


@every_form
def test_an_empty_conversation_is_an_empty_prompt(form: str) -> None:
    reader = FORMS[form][0]
    assert (reader({}).prompt, reader({}).results, reader({}).stream, reader({}).model) == ("", 0, False, "fake-model")


def test_plain_text_is_a_responses_input_and_a_namespace_has_tools() -> None:
    found = read_responses({"input": "hi", "tools": [{"type": "namespace", "name": "web", "tools": [{"name": "get"}]}]})
    assert (found.prompt, found.tools) == ("hi", (OfferedTool("web::get", {}),))


@pytest.mark.parametrize(("fields", "effort"), [
    ({"reasoning": {"effort": "high"}}, "high"), ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "5"),
    ({"thinking": {"type": "disabled"}}, "disabled"), ({"reasoning_effort": "low"}, "low"), ({}, None)])
def test_the_thinking_effort_is_read(fields: dict[str, Any], effort: str | None) -> None:
    assert read("chat", "hi", **fields).effort == effort
