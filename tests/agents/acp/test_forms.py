"""Forms that an agent has its user fill in (C-8): each field a question, each answer checked before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.acp.forms import (
    MAX_FIELDS,
    MAX_TRIES,
    Field,
    FormOption,
    Unfit,
    fields_of_questions,
    fields_of_schema,
    fill,
    value_of,
)

COLOURS = (FormOption("r", "Red"), FormOption("b", "Blue", "as the sky"))


def field(kind: Any = "text", **more: Any) -> Field:
    return Field("k", "Which?", "", kind, **more)


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def only(**property_: Any) -> Field:
    found = fields_of_schema("What?", schema("k", k=property_))
    assert found is not None
    [one] = found
    return one


@pytest.mark.parametrize(("asked", "words", "value"), [
    (field(), " free text ", {"k": " free text "}), (field("choice", choices=COLOURS), "red", {"k": "r"}),
    (field("choice", choices=COLOURS), "2", {"k": "b"}),
    (field("choice", choices=COLOURS, custom="own"), "green", {"own": "green"}),
    (field("choices", choices=COLOURS), "red, blue", {"k": ["r", "b"]}),
    (field("choices", choices=COLOURS, custom="own"), "red, green", {"k": ["r"], "own": "green"}),
    (field("boolean"), " Yes ", {"k": True}), (field("boolean"), "n", {"k": False}), (field("integer"), "42",
    {"k": 42}),
    (field("number"), "1.5", {"k": 1.5}), (field("integer", low=1, high=3), "3", {"k": 3}),
])
def test_typed_text_is_parsed_into_the_forms_value(asked: Field, words: str, value: dict[str, Any]) -> None:
    assert value_of(asked, words) == value


@pytest.mark.parametrize(("asked", "words", "sentence"), [
    (field("choice", choices=COLOURS), "green", "'green' is not one of the choices"),
    (field("choices", choices=COLOURS), "red, green", "'green' is not one of the choices"),
    (field("choices", choices=COLOURS, low=2), "red", "Choose at least 2"),
    (field("choices", choices=COLOURS, high=1), "red, blue", "Choose at most 1"),
    (field("boolean"), "perhaps", "yes or no"), (field("integer"), "1.5", "a whole number"), (field("number"), "x",
    "a number"),
    (field("number"), "nan", "out of range"), (field("number"), "inf", "out of range"),
    (field("integer", low=1, high=3), "4", "from 1, up to 3"), (field("integer"), "9" * 5_000, "a whole number"),
])
def test_text_that_does_not_fit_gives_one_sentence(asked: Field, words: str, sentence: str) -> None:
    with pytest.raises(Unfit, match=sentence):
        value_of(asked, words)


@pytest.mark.anyio
async def test_each_field_is_asked_and_an_invalid_answer_asked_again_with_its_reason() -> None:
    asked: list[str] = []
    words = iter(["green", "red", "7"])

    async def ask(shown: dict[str, Any]) -> str | None:
        asked.append(shown["question"])
        return next(words)

    form = [field("choice", choices=COLOURS), Field("n", "How many?", "Count", "integer")]
    assert await fill(form, ask) == {"k": "r", "n": 7}
    assert asked == ["Which?", "'green' is not one of the choices. Which?", "How many?"]


@pytest.mark.anyio
@pytest.mark.parametrize(("form", "content"), [
    ([field(), field()._replace(key="l")], None), ([field(required=False)], None),
    ([field(required=False), Field("b", "Sure?", "", "boolean", required=False)], None),
])
async def test_a_missing_answer_to_a_required_field_declines_the_form(form: list[Field], content: Any) -> None:
    async def decline(_: dict[str, Any]) -> str | None:
        return None

    assert await fill(form, decline) == content


@pytest.mark.anyio
async def test_the_number_of_questions_to_a_person_is_bounded() -> None:
    asked: list[Any] = []

    async def nonsense(shown: dict[str, Any]) -> str | None:
        asked.append(shown)
        return "nonsense"

    assert await fill([field("boolean")], nonsense) is None
    assert len(asked) == MAX_TRIES


def test_a_field_shows_its_choices_and_whether_several_are_allowed() -> None:
    assert field("choices", choices=COLOURS, custom="")._replace(header="Colour").input("") == {
        "question": "Which?", "header": "Colour", "multiSelect": True,
        "options": [{"label": "Red"}, {"label": "Blue", "description": "as the sky"}]}


@pytest.mark.parametrize(("property_", "kind", "choices"), [
    ({"type": "string"}, "text", ()), ({"type": "string", "enum": ["a", "b"]}, "choice", ("a", "b")),
    ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, "choice", ("A",)),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": 7}]}, "choice", ("A",)),
    ({"type": "array", "items": {"enum": ["a"]}}, "choices", ("a",)), ({"type": "boolean"}, "boolean", ()),
    ({"type": "integer", "minimum": 1}, "integer", ()),
])
def test_a_schemas_property_is_a_field(property_: dict[str, Any], kind: str, choices: tuple[str, ...]) -> None:
    one = only(**property_)
    assert (one.type, tuple(choice.label for choice in one.choices)) == (kind, choices)
    assert (one.question, one.required) == ("What?", True)


@pytest.mark.parametrize("odd", [None, {}, [], {"properties": {}}, schema(k={"type": "object"}), schema(k=7),
                                 schema(k={}),
                                 schema(k={"type": "array", "items": {"type": "string"}}),
                                 schema(k={"type": ["string"]}),
                                 schema(**{f"f{n}": {"type": "string"} for n in range(MAX_FIELDS + 1)})])
def test_a_schema_that_text_cannot_fill_is_none(odd: Any) -> None:
    assert fields_of_schema("What?", odd) is None


def test_each_line_of_the_message_describes_one_field_if_the_counts_match() -> None:
    found = fields_of_schema("One?\nTwo?", schema("a", a={"type": "string"}, b={"type": "string"}))
    assert found is not None
    assert [(one.question, one.required) for one in found] == [("One?", True), ("Two?", False)]


def test_a_free_text_field_is_asked_with_its_choices() -> None:
    found = fields_of_schema("Which?", schema("k", k={"type": "string", "enum": ["a"]}, k_custom={"type": "string"}))
    assert found is not None
    assert [(one.key, one.custom) for one in found] == [("k", "k_custom")]


def test_a_list_of_questions_becomes_numbered_fields() -> None:
    found = fields_of_questions([{"question": "A?", "header": "H"},
                                 {"question": "B?", "options": [{"label": "x"}, {"label": 7}], "multiSelect": True}])
    assert found is not None
    assert [(one.key, one.type, one.header, len(one.choices), one.required) for one in found] == [
        ("0", "text", "H", 0, False), ("1", "choices", "", 1, False)]
    for odd in (None, [], {}, [{"header": "no question"}], [{"question": "A?"}] * (MAX_FIELDS + 1)):
        assert fields_of_questions(odd) is None
