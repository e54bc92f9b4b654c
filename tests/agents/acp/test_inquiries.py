"""Questions of ACP agents, as real ones send them: shown as text, and answered in each agent's own form."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import SESSION, opened, permission, play, update

pytestmark = pytest.mark.anyio
END = {"result": {"stopReason": "end_turn"}}
RED, BLUE = ({"const": "red", "title": "red", "description": "warm"},
             {"const": "blue", "title": "blue", "description": "cold"})
SMALL, LARGE = {"const": "S", "title": "S"}, {"const": "L", "title": "L"}
COLOUR: dict[str, Any] = {"type": "string", "title": "Colour", "oneOf": [RED, BLUE]}
SIZES: dict[str, Any] = {"type": "array", "title": "Sizes", "items": {"anyOf": [SMALL, LARGE]}}
QUESTIONS = [
    {"question": "Which colour?", "header": "Colour", "multiSelect": False,
     "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]},
    {"question": "Which sizes?", "header": "Sizes", "multiSelect": True,
     "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}]},
]


def elicitation(message: str, properties: dict[str, Any], required: list[str] | None = None, **fields: Any
                ) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return {"id": "e", "method": "elicitation/create", "params": {
        "sessionId": SESSION, "mode": "form", "message": message, "requestedSchema": schema, **fields}}


async def filled(request: dict[str, Any], *words: str | None) -> tuple[Any, list[dict[str, Any]]]:
    """What the agent is answered, and what a person was shown."""
    recorder, process, _ = await play([request, None, END], words=list(words))
    assert recorder.words == [], "each answer was asked for"
    return process.got[-1]["result"], recorder.asked


@pytest.mark.req("C-8")
async def test_the_capability_is_announced() -> None:
    async with opened({}) as acp:
        assert acp.process.got[0]["params"]["clientCapabilities"]["elicitation"] == {"form": {}}


CLAUDE = {"question_0": {**COLOUR, "description": "Which colour?"},
          "question_0_custom": {"type": "string", "title": "Other", "description": "Type your own answer."},
          "question_1": {**SIZES, "description": "Which sizes?"},
          "question_1_custom": {"type": "string", "title": "Other"}}


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("words", "content"), [
    (("blue", "S, L"), {"question_0": "blue", "question_1": ["S", "L"]}),
    (("2", "1,2"), {"question_0": "blue", "question_1": ["S", "L"]}),
    ((" RED ", '["L"]'), {"question_0": "red", "question_1": ["L"]}),
    (("a warm one", "S, huge"), {"question_0_custom": "a warm one", "question_1": ["S"], "question_1_custom": "huge"}),
    ((None, "L"), {"question_1": ["L"]}),
])  # fmt: skip
async def test_claude_agent_acp_gets_its_form_filled(words: tuple[str | None, ...], content: dict[str, Any]) -> None:
    result, asked = await filled(elicitation("Please answer the following questions.", CLAUDE), *words)
    assert result == {"action": "accept", "content": content}
    assert asked[0] == {"question": "Which colour?", "header": "Colour", "options": [
        {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}
    assert (asked[1]["question"], asked[1]["multiSelect"]) == ("Which sizes?", True)


@pytest.mark.req("C-8")
async def test_no_answer_declines() -> None:
    assert (await filled(elicitation("Which colour?", CLAUDE), None, None))[0] == {"action": "decline"}
    needed = elicitation("Which colour?\nWhich sizes?", {"q0": COLOUR, "q1": SIZES}, ["q0", "q1"])
    assert (await filled(needed, None))[0] == {"action": "decline"}


@pytest.mark.req("C-8")
async def test_kimi_gets_each_of_its_questions_answered() -> None:
    asks = elicitation("Which colour?\nWhich sizes?", {"q0": COLOUR, "q1": {**SIZES, "minItems": 1}}, ["q0", "q1"])
    result, asked = await filled(asks, "red", "L")
    assert result == {"action": "accept", "content": {"q0": "red", "q1": ["L"]}}
    assert [one["question"] for one in asked] == ["Which colour?", "Which sizes?"]


@pytest.mark.req("C-8")
async def test_text_that_does_not_fit_is_asked_for_again_a_bounded_number_of_times() -> None:
    asks = elicitation("Which colour?", {"q0": COLOUR}, ["q0"])
    result, asked = await filled(asks, "green", "red")
    assert result == {"action": "accept", "content": {"q0": "red"}}
    assert asked[1]["question"] == "'green' is not one of the choices. Which colour?"
    result, asked = await filled(asks, "green", "3", "0")
    assert (result, len(asked)) == ({"action": "decline"}, 3)


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("schema", "words", "value"), [
    ({"type": "boolean"}, ["maybe", "Yes"], True), ({"type": "boolean"}, ["n"], False),
    ({"type": "integer", "minimum": 1, "maximum": 9}, ["10", "2.5", "7"], 7),
    ({"type": "number"}, ["nan", "1.5"], 1.5), ({"type": "string"}, ["as you like"], "as you like"),
    ({"type": "string", "enum": ["a", "b"], "enumNames": ["first", "second"]}, ["second"], "b"),
    ({"type": "array", "maxItems": 1, "items": {"enum": ["a", "b"]}}, ["a,b", "b"], ["b"]),
    ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}}, ["a", "a b", "a\nb"], ["a", "b"]),
])  # fmt: skip
async def test_each_kind_of_field(schema: dict[str, Any], words: list[str], value: Any) -> None:
    result, asked = await filled(elicitation("How?", {"x": schema}), *words)
    assert result == {"action": "accept", "content": {"x": value}}
    assert asked[0]["question"] == "How?"


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("request_", "action"), [
    (elicitation("Log in", {}, mode="url", url="https://example.org"), "cancel"),
    (elicitation("What?", {}), "cancel"), (elicitation("What?", {"x": {"type": "object"}}), "cancel"),
    (elicitation("What?", {"x": 7}), "cancel"), (elicitation("What?", {f"x{n}": COLOUR for n in range(33)}), "cancel"),
    (elicitation("What?", {"x": {"type": "array", "items": {}}}), "cancel"),
    (elicitation("What?", {"x": COLOUR}) | {"params": {"requestedSchema": 7}}, "cancel"),
    (elicitation("What?", {"x": COLOUR}) | {"params": 7}, "cancel"),
    (elicitation("What?", {"x": COLOUR}, sessionId="another"), "cancel"),
])  # fmt: skip
async def test_a_form_that_text_cannot_fill_is_not_asked(request_: dict[str, Any], action: str) -> None:
    result, asked = await filled(request_)
    assert (result, asked) == ({"action": action}, [])


QWEN = permission([("proceed_once", "allow_once"), ("cancel", "reject_once")], toolCallId="c1", kind="think",
                  title="Ask user 2 questions", rawInput={"questions": QUESTIONS},
                  _meta={"toolName": "ask_user_question", "qwenInteractionKind": "user_question",
                         "qwenQuestions": QUESTIONS})


@pytest.mark.req("C-8", "A-9")
async def test_qwen_gets_the_answers_with_its_grant() -> None:
    result, asked = await filled(QWEN, "2", "S, huge")
    assert result == {"outcome": {"outcome": "selected", "optionId": "proceed_once"},
                      "answers": {"0": "blue", "1": "S, huge"}}
    assert [one["question"] for one in asked] == ["Which colour?", "Which sizes?"]
    assert (await filled(QWEN, None, None))[0] == {"outcome": {"outcome": "selected", "optionId": "cancel"}}


@pytest.mark.req("C-8", "A-9")
async def test_a_permission_whose_options_are_the_answers_is_a_question() -> None:
    asks = permission(
        [("q0_opt_0", "allow_once"), ("q0_opt_1", "allow_once"), ("q0_skip", "reject_once")], toolCallId="c1",
        title="AskUserQuestion", content=[{"type": "content", "content": {"type": "text", "text": "Which colour?"}}])
    asks["params"]["options"] = [{**one, "name": name} for one, name in
                                 zip(asks["params"]["options"], ("red", "blue", "Skip"), strict=True)]
    result, asked = await filled(asks, "blue")
    assert result == {"outcome": {"outcome": "selected", "optionId": "q0_opt_1"}}
    assert asked == [{"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}]
    assert (await filled(asks, None))[0] == {"outcome": {"outcome": "selected", "optionId": "q0_skip"}}


@pytest.mark.req("A-5", "A-9")
async def test_two_ways_to_allow_a_tool_are_still_a_permission() -> None:
    asks = permission([("once", "allow_once"), ("once-and-switch", "allow_once"), ("no", "reject_once")],
                      toolCallId="c1", title="make", kind="execute", rawInput={"command": "make"})
    recorder, process, _ = await play([asks, None, END])
    assert recorder.events == [("request", "execute", {"command": "make"}), ("ask", "execute")]
    assert process.got[-1]["result"]["outcome"]["optionId"] == "once"


@pytest.mark.req("C-8")
async def test_a_question_belongs_to_its_call() -> None:
    call = update(sessionUpdate="tool_call", toolCallId="c1", title="Asking", status="pending", rawInput={},
                  _meta={"claudeCode": {"toolName": "AskUserQuestion"}})
    recorder, _, _ = await play([call, elicitation("How?", {"x": {"type": "string"}}, toolCallId="c1"), None, END],
                                words=["so"])
    assert recorder.events == [("request", "AskUserQuestion", {})]
