"""The answer to a request, before its conversion to a provider's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.model_stand_in.answers import SIDE_ANSWER, HttpFailure, ModelAnswer, answer
from interlock.model_stand_in.conversation import ModelPrompt, OfferedTool
from interlock.model_stand_in.script import AFTER_TOOL, GREETING, NO_TOOL, SILENT

SHELL = OfferedTool("bash", {"properties": {"command": {"type": "string"}}})
WRITE = OfferedTool("write", {})


def asked(prompt: str, results: int = 0, tools: tuple[OfferedTool, ...] = (SHELL,), **fields: Any) -> ModelPrompt:
    return ModelPrompt(prompt, results, tools, False, "m", fields.pop("side", False), **fields)


def answer_to(prompt: str, results: int = 0, before: int = 0, **fields: Any) -> ModelAnswer:
    found = answer(asked(prompt, results, **fields), before)
    assert isinstance(found, ModelAnswer)
    return found


@pytest.mark.parametrize(("prompt", "text"), [
    ("hello", GREETING), ("[[say:a]][[chunks:2]]", "achunk 1 of 2\nchunk 2 of 2\n"), ("[[empty]]", ""), ("[[hang]]",
    ""), ("[[cut]]", ""),
])
def test_words_of_the_script_make_the_text(prompt: str, text: str) -> None:
    assert answer_to(prompt).text == text


def test_tools_are_called_one_after_the_other_before_the_final_answer() -> None:
    prompt = "[[say:x]][[tool:one]] [[call:write {\"p\":1}]]"
    first, second, last = (answer_to(prompt, results) for results in range(3))
    assert (first.text, json.loads(first.calls[0].arguments)) == ("x", {"command": "one"})
    assert (second.text, second.calls[0].name, second.calls[0].arguments) == ("", "write", '{"p":1}')
    assert (last.text, last.calls) == (AFTER_TOOL, ())


def test_many_calls_are_sent_in_one_answer_and_wait_for_all_results() -> None:
    assert len(answer_to("[[tool:ls]][[many:3]]").calls) == 3
    assert answer_to("[[tool:ls]][[many:3]]", 3).text == AFTER_TOOL


@pytest.mark.parametrize("prompt", ["[[tool:ls]]", "[[agent:ls]]", "[[ask:which?]]", '[[do:write {"path":"a"}]]'])
def test_a_missing_tool_is_reported_in_the_answer(prompt: str) -> None:
    assert answer_to(prompt, tools=()).text == NO_TOOL


def test_a_question_is_asked_through_its_tool() -> None:
    [call] = answer_to("[[ask:which?]]", tools=(OfferedTool("AskUserQuestion", {}),)).calls
    assert json.loads(call.arguments)["questions"][0]["question"] == "which?"


@pytest.mark.parametrize(("prompt", "before", "failure"), [
    ("[[fail:500]]", 0, HttpFailure(500)), ("[[overflow]]", 0, HttpFailure(400, overflow=True)),
    ("[[flaky:503:2]]", 1, HttpFailure(503, again=True)),
])
def test_a_failure_is_the_requested_one(prompt: str, before: int, failure: HttpFailure) -> None:
    assert answer(asked(prompt), before) == failure


def test_a_flaky_server_answers_after_its_failures_and_a_request_fits_its_window() -> None:
    assert answer_to("[[flaky:503:2]]", before=2).text == GREETING
    assert answer(asked("[[room:10]]", size=11)) == HttpFailure(400, overflow=True)
    assert answer_to("[[room:10]]", size=10).text == GREETING


def test_a_side_request_is_never_scripted_by_the_users_text() -> None:
    assert answer_to("[[fail:500]] [[tool:ls]]", side=True).text == SIDE_ANSWER
    assert answer_to("[[summary:ends]]", side=True).ends


def test_a_memory_flush_writes_its_file_once_if_it_can() -> None:
    prompt = "This is a memory flush: write `memory/2026-01-01.md`."
    [call] = answer_to(prompt, tools=(WRITE,)).calls
    assert json.loads(call.arguments)["path"] == "memory/2026-01-01.md"
    assert answer_to(prompt, 1, tools=(WRITE,)).text == SILENT
    assert answer_to(prompt).text == SILENT


def test_conversation_tokens_are_reported_and_a_delay_adds_up() -> None:
    assert answer_to("hello", tokens=9).tokens == 9
    assert answer_to("[[chunks:3]][[delay:500]]").whole_delay == 1.0
