"""A form that an agent shows its user: each field becomes a question, answered in words (C-8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, cast

from interlock.agents.answers import picked, picked_several

MAX_FIELDS = 32
"""A form with more fields is declined."""
MAX_TRIES = 3
"""Attempts per field, if the answer does not fit it, before the form is declined."""
YES, NO = ("yes", "y", "true"), ("no", "n", "false")
CUSTOM = "_custom"
"""Name of the field for a person's own words beside the choices of another field (claude-agent-acp)."""
FieldType = Literal["text", "choice", "choices", "boolean", "integer", "number"]
_TYPES: dict[str, FieldType] = {"string": "text", "boolean": "boolean", "integer": "integer", "number": "number",
                                "array": "choices"}


class FormOption(NamedTuple):
    """One value of a field."""

    value: str
    label: str
    description: str = ""


class Field(NamedTuple):
    """One field of a form."""

    key: str
    question: str
    header: str
    type: FieldType
    choices: tuple[FormOption, ...] = ()
    required: bool = True
    custom: str = ""
    """The key of the field for words other than the choices; "" if there is none."""
    low: float | None = None
    high: float | None = None
    """Bounds of a number, or of the count of choices; None for no bound."""

    def input(self, refusal: str) -> dict[str, Any]:
        """Return the question's input; `refusal` is the reason why the last answer did not fit."""
        options = [{"label": one.label, **({"description": one.description} if one.description else {})}
                   for one in self.choices]
        return {
            "question": f"{refusal} {self.question}" if refusal else self.question,
            **({"header": self.header} if self.header else {}), **({"options": options} if options else {}),
            **({"multiSelect": True} if self.type == "choices" else {}),
        }


class Unfit(Exception):
    """The words do not answer the field; the text is one sentence for the person."""


Ask = Callable[[dict[str, Any]], Awaitable[str | None]]
"""Asks a question, and returns the words; None if there is no answer."""


async def fill(fields: list[Field], ask: Ask) -> dict[str, Any] | None:
    """Ask for every field. Return the form's content; None if a required field, or all of them, stay empty."""
    content: dict[str, Any] = {}
    for field in fields:
        filled = await _fill_one(field, ask)
        if filled is None and field.required:
            return None
        content.update(filled or {})
    return content or None


async def _fill_one(field: Field, ask: Ask) -> dict[str, Any] | None:
    refusal = ""
    for _ in range(MAX_TRIES):
        text = await ask(field.input(refusal))
        if text is None:
            return None
        try:
            return value_of(field, text)
        except Unfit as unfit:
            refusal = str(unfit)
    return None


def value_of(field: Field, text: str) -> dict[str, Any]:
    """Convert the words to content: that of the field, and that of its `custom` field. Raises Unfit."""
    labels = [one.label for one in field.choices]
    match field.type:
        case "choice":
            index = picked(text, labels)
            if index is not None:
                return {field.key: field.choices[index].value}
            return _own_words(field, text, text)
        case "choices":
            found, rest = picked_several(text, labels)
            values = {field.key: [field.choices[index].value for index in found]} if found else {}
            if field.low is not None and len(found) < field.low and not rest:
                raise Unfit(f"Choose at least {field.low:g}.")
            if field.high is not None and len(found) > field.high:
                raise Unfit(f"Choose at most {field.high:g}.")
            return {**values, **(_own_words(field, ", ".join(rest), rest[0]) if rest else {})}
        case "boolean":
            word = text.strip().casefold()
            if word not in (*YES, *NO):
                raise Unfit("Answer yes or no.")
            return {field.key: word in YES}
        case "integer" | "number":
            return {field.key: _number(field, text)}
        case "text":
            return {field.key: text}


def _own_words(field: Field, text: str, unknown: str) -> dict[str, Any]:
    if not field.custom:
        raise Unfit(f"{unknown.strip()[:100]!r} is not one of the choices.")
    return {field.custom: text}


def _number(field: Field, text: str) -> float:
    try:
        number = int(text) if field.type == "integer" else float(text)
    except ValueError:
        raise Unfit("Answer with a whole number." if field.type == "integer" else "Answer with a number.") from None
    low, high = field.low, field.high
    if not float("-inf") < number < float("inf") or (low is not None and number < low) or (
            high is not None and number > high):
        raise Unfit("The number is out of range"
                    f"{'' if low is None else f', from {low:g}'}{'' if high is None else f', up to {high:g}'}.")
    return number


def fields_of_schema(message: str, schema: Any) -> list[Field] | None:
    """Return the fields of an elicitation's `requestedSchema`; None if a member cannot be filled with words."""
    properties = _object(_object(schema).get("properties"))
    required = _object(schema).get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    names = [name for name in properties if not _is_custom(name, properties)]
    if not 0 < len(names) <= MAX_FIELDS:
        return None
    lines = message.splitlines()
    found: list[Field] = []
    for index, name in enumerate(names):
        about = lines[index] if len(lines) == len(names) else message
        field = _field(name, _object(properties[name]), about, alone=len(names) == 1)
        if field is None:
            return None
        custom = name + CUSTOM if name + CUSTOM in properties else ""
        found.append(field._replace(required=name in needed, custom=custom))
    return found


def _is_custom(name: str, properties: dict[str, Any]) -> bool:
    return name.endswith(CUSTOM) and name.removesuffix(CUSTOM) in properties


def _field(key: str, schema: dict[str, Any], about: str, *, alone: bool) -> Field | None:
    kind = _TYPES.get(str(schema.get("type")))
    values = schema.get("items") if kind == "choices" else schema
    choices = _choices(_object(values))
    if kind is None or (kind == "choices" and not choices):
        return None
    if kind == "text" and choices:
        kind = "choice"
    low, high = ("minItems", "maxItems") if kind == "choices" else ("minimum", "maximum")
    own = _text(schema.get("description"))
    return Field(
        key, question=about if alone and about else own or about or _text(schema.get("title")) or key,
        header=_text(schema.get("title")), type=kind, choices=choices, low=_bound(schema.get(low)),
        high=_bound(schema.get(high)),
    )


def _choices(schema: dict[str, Any]) -> tuple[FormOption, ...]:
    listed = schema.get("oneOf") or schema.get("anyOf") or schema.get("enum")
    names = schema.get("enumNames")
    labels = cast("list[Any]", names) if isinstance(names, list) else []
    found: list[FormOption] = []
    for index, one in enumerate(cast("list[Any]", listed) if isinstance(listed, list) else []):
        if isinstance(one, str):
            found.append(FormOption(one, str(labels[index]) if index < len(labels) else one))
        elif isinstance(value := _object(one).get("const"), str):
            found.append(FormOption(value, _text(_object(one).get("title")) or value,
                                    _text(_object(one).get("description"))))
    return tuple(found)


def fields_of_questions(questions: Any) -> list[Field] | None:
    """Return the fields of a list of questions, each with its options (qwen, kimi), keyed by number from 0. None for
    any other value."""
    listed = cast("list[Any]", questions) if isinstance(questions, list) else []
    found: list[Field] = []
    for index, one in enumerate(map(_object, listed)):
        options = one.get("options")
        choices = tuple(
            FormOption(label, label, _text(option.get("description")))
            for option in map(_object, cast("list[Any]", options) if isinstance(options, list) else [])
            if (label := _text(option.get("label")))
        )
        several = one.get("multiSelect") is True or one.get("multi_select") is True
        kind: FieldType = "text" if not choices else "choices" if several else "choice"
        found.append(Field(str(index), _text(one.get("question")), _text(one.get("header")), kind, choices,
                           required=False, custom=f"{index}{CUSTOM}"))
    return found if 0 < len(found) <= MAX_FIELDS and all(field.question for field in found) else None


def _bound(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
