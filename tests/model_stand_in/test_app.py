"""The model stand-in, in each provider's form: the answers that the words of a prompt select."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import pytest

from interlock.agents.acp.denied_calls import DeniedCalls
from interlock.model_stand_in import AFTER_TOOL, ModelServer, RequestKind, chunk_texts, running_model_server

TESTS = Path(__file__).resolve().parents[1]
Json = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """One provider's API, from the view of a client."""

    path: str
    body: Callable[[list[Json]], Json]
    tool: Json
    result: Json
    text_of: Callable[[Json], str]
    called: Callable[[Json], tuple[str, Json]]
    streamed: Callable[[list[Json]], list[str]]
    last: str


def anthropic_tool(block: Json) -> tuple[str, Json]:
    return block["name"], block["input"]


def openai_tool(function: Json) -> tuple[str, Json]:
    return function["name"], json.loads(function["arguments"])


SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

ANTHROPIC = Form(
    path="/v1/messages",
    body=lambda messages: {"messages": messages, "max_tokens": 100},
    tool={"name": "Bash", "input_schema": SCHEMA},
    result={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "hi"}]},
    text_of=lambda answer: "".join(block.get("text", "") for block in answer["content"]),
    called=lambda answer: anthropic_tool(answer["content"][-1]),
    streamed=lambda events: [e["delta"]["text"] for e in events if e.get("delta", {}).get("type") == "text_delta"],
    last="message_stop",
)
CHAT = Form(
    path="/v1/chat/completions",
    body=lambda messages: {"messages": messages},
    tool={"type": "function", "function": {"name": "developer__shell", "parameters": SCHEMA}},
    result={"role": "tool", "tool_call_id": "call_1", "content": "hi"},
    text_of=lambda answer: answer["choices"][0]["message"]["content"] or "",
    called=lambda answer: openai_tool(answer["choices"][0]["message"]["tool_calls"][0]["function"]),
    streamed=lambda events: [c["delta"]["content"] for e in events for c in e["choices"] if c["delta"].get("content")],
    last="[DONE]",
)
RESPONSES = Form(
    path="/v1/responses",
    body=lambda messages: {"input": messages},
    tool={"type": "function", "name": "shell", "parameters": SCHEMA},
    result={"type": "function_call_output", "call_id": "call_1", "output": "hi"},
    text_of=lambda answer: "".join(part["text"] for item in answer["output"] for part in item.get("content", [])),
    called=lambda answer: openai_tool(answer["output"][-1]),
    streamed=lambda events: [e["delta"] for e in events if e["type"] == "response.output_text.delta"],
    last="response.completed",
)
every_form = pytest.mark.parametrize("form", [ANTHROPIC, CHAT, RESPONSES], ids=["anthropic", "chat", "responses"])


def ask(server: ModelServer, form: Form, prompt: str, *more: Json, **fields: object) -> httpx2.Response:
    """Ask with the person's prompt, and what came after it."""
    messages = [{"role": "user", "content": prompt}, *more]
    body = {"model": "fake-model", **form.body(messages), "tools": [form.tool], **fields}
    return httpx2.post(server.url + form.path, json=body)


def events_of(text: str) -> tuple[list[Json], str]:
    """The JSON events of a stream, and how the last one is named."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    events = [json.loads(one) for one in data if one != "[DONE]"]
    return events, data[-1] if data[-1] == "[DONE]" else events[-1]["type"]


@every_form
def test_chunks_are_counted(model_server: ModelServer, form: Form) -> None:
    assert form.text_of(ask(model_server, form, "go [[chunks:4]]").json()) == "".join(chunk_texts(4))


@every_form
def test_a_stream_sends_each_chunk_separately_and_ends_in_the_providers_form(
    model_server: ModelServer, form: Form
) -> None:
    events, last = events_of(ask(model_server, form, "go [[chunks:4]]", stream=True).text)

    assert form.streamed(events) == list(chunk_texts(4))
    assert last == form.last


def test_chunks_can_be_made_wide() -> None:
    assert chunk_texts(2, 20) == ("chunk 1 of 2.......\n", "chunk 2 of 2.......\n")
    assert chunk_texts(1, 3) == chunk_texts(1)


@every_form
def test_a_delay_separates_chunks(model_server: ModelServer, form: Form) -> None:
    began = monotonic()
    ask(model_server, form, "[[chunks:3]] [[delay:40]]", stream=True)

    assert monotonic() - began >= 0.08


@every_form
def test_the_offered_shell_tool_is_called_and_its_result_ends_the_turn(model_server: ModelServer, form: Form) -> None:
    prompt = "[[tool:ls -l]]"
    name, arguments = form.called(ask(model_server, form, prompt).json())

    assert name.lower() in {"bash", "developer__shell", "shell"}
    assert arguments == {"command": "ls -l"}
    assert form.text_of(ask(model_server, form, prompt, form.result).json()) == AFTER_TOOL


@every_form
def test_two_tools_are_called_one_after_the_other(model_server: ModelServer, form: Form) -> None:
    prompt = "[[tool:one]] [[tool:two]]"

    assert form.called(ask(model_server, form, prompt, form.result).json())[1] == {"command": "two"}
    assert form.text_of(ask(model_server, form, prompt, form.result, form.result).json()) == AFTER_TOOL


@every_form
def test_only_the_last_prompt_is_a_script(model_server: ModelServer, form: Form) -> None:
    later = {"role": "user", "content": "<system-reminder>[[fail:500]]</system-reminder>now [[chunks:2]]"}

    answer = ask(model_server, form, "[[tool:ls]]", form.result, later)

    assert form.text_of(answer.json()) == "".join(chunk_texts(2))


@every_form
def test_only_the_last_paragraph_is_a_script_and_a_command_may_have_several(
    model_server: ModelServer, form: Form
) -> None:
    answer = ask(model_server, form, "[[fail:500]]\n\nnow [[tool:echo one\n\necho two]]")

    assert form.called(answer.json())[1] == {"command": "echo one\n\necho two"}


@every_form
def test_the_note_of_denied_calls_after_a_prompt_changes_no_word_of_it(model_server: ModelServer, form: Form) -> None:
    denied = DeniedCalls()
    denied.add("Writing a.txt", "denied by ann")
    blocks = denied.appended([{"type": "text", "text": "[[fail:500]]\n\nnow [[tool:echo one]]"}])
    answer = ask(model_server, form, "\n\n".join(block["text"] for block in blocks))  # As vibe puts them.

    assert form.called(answer.json())[1] == {"command": "echo one"}


@every_form
def test_a_failure_has_the_requested_status(model_server: ModelServer, form: Form) -> None:
    answer = ask(model_server, form, "[[fail:429]]", stream=True)

    assert answer.status_code == 429
    assert "failure 429" in answer.json()["error"]["message"]


@every_form
def test_an_overflow_has_the_providers_message(model_server: ModelServer, form: Form) -> None:
    answer = ask(model_server, form, "[[overflow]]")

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error.get("code") == "context_length_exceeded" or "prompt is too long" in error["message"]


def test_a_title_request_is_answered_whatever_its_text(model_server: ModelServer) -> None:
    system = {"role": "system", "content": "Generate a short title for this session."}
    body = {"messages": [system, {"role": "user", "content": "[[fail:500]] [[tool:ls]]"}]}

    answer = httpx2.post(model_server.url + "/v1/chat/completions", json=body)

    assert answer.json()["choices"][0]["message"]["content"]
    assert [one.kind for one in model_server.recording.all()] == [RequestKind.SIDE]
    assert model_server.recording.turns() == []


def test_other_required_arguments_of_a_shell_tool_are_filled(model_server: ModelServer) -> None:
    properties = {"cmd": {"type": "array"}, "description": {"type": "string"}, "seconds": {"type": "integer"}}
    schema = {"properties": properties, "required": ["cmd", "description", "seconds"]}

    answer = ask(model_server, ANTHROPIC, "[[tool:ls]]", tools=[{"name": "exec_command", "input_schema": schema}])

    expected = {"cmd": ["bash", "-c", "ls"], "description": "run", "seconds": 0}
    assert ANTHROPIC.called(answer.json()) == ("exec_command", expected)


def test_a_missing_shell_tool_is_reported_in_the_answer(model_server: ModelServer) -> None:
    answer = ask(model_server, ANTHROPIC, "[[tool:ls]]", tools=[{"name": "Read", "input_schema": {}}])

    assert "No shell tool" in ANTHROPIC.text_of(answer.json())


def test_tokens_are_counted_and_models_are_listed(model_server: ModelServer) -> None:
    counted = httpx2.post(model_server.url + "/v1/messages/count_tokens", json={"messages": []})
    models = httpx2.get(model_server.url + "/v1/models")

    assert counted.json() == {"input_tokens": 100}
    assert "fake-model" in [model["id"] for model in models.json()["data"]]


def test_requests_are_recorded(model_server: ModelServer) -> None:
    ask(model_server, CHAT, "remember me")

    kept = model_server.recording.wait_for(lambda one: one.asked.prompt == "remember me")

    assert (kept.provider, kept.asked.results, [tool.name for tool in kept.asked.tools]) == (
        "chat",
        0,
        ["developer__shell"],
    )
    with pytest.raises(TimeoutError):
        model_server.recording.wait_for(lambda one: one.asked.prompt == "never", timeout_seconds=0.01)


def test_a_stop_does_not_wait_for_a_slow_answer() -> None:
    body = {"messages": [{"role": "user", "content": "[[chunks:3]] [[delay:60000]]"}], "stream": True}
    with ExitStack() as after_the_stop:
        with running_model_server() as server:
            streaming = httpx2.stream("POST", server.url + "/v1/chat/completions", json=body)
            texts = after_the_stop.enter_context(streaming).iter_text()
            next(text for text in texts if "chunk 1 of 3" in text)
            began = monotonic()

        assert monotonic() - began < 5


def test_the_server_runs_as_a_separate_process() -> None:
    argv = [sys.executable, "-m", "interlock.model_stand_in", "--port", "0"]
    with subprocess.Popen(argv, cwd=TESTS.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            httpx2.post(url + "/v1/responses", json={"input": "hello"})
            recorded = httpx2.get(url + "/recorded").json()
        finally:
            process.terminate()

    assert [one["asked"]["prompt"] for one in recorded] == ["hello"]
