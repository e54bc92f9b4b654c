"""The schemas match the codec: current, valid by their dialect, and consistent with `decode` (W-1, E-1)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.protocol import schema
from interlock.protocol.frames import FRAMES, Class, Direction, InvalidFrame, Origin, decode

SPEC = Path(__file__).resolve().parents[2] / "spec"
FILES = {"json": "rawp.schema.json", "asyncapi": "asyncapi.json"}
VALIDATOR = jsonschema.Draft202012Validator(schema.json_schema())


def made(name: str, **changes: Any) -> dict[str, Any]:
    """A frame of this type with the least that its schema asks for."""
    row = FRAMES[name]
    frame: dict[str, Any] = {"type": name, "message_id": "m", "payload": least(row.payload.__name__)}
    if row.frame_class is Class.DURABLE:
        frame["seq"] = 1
    if row.frame_class is not Class.LINK or name == "session.history":
        frame["session_id"] = "s"
    return {**frame, **changes}


def least(name: str) -> dict[str, Any]:
    """The required fields of a payload, with any value that fits."""
    form = schema.json_schema()["$defs"][name]
    return {field: value(form["properties"][field]) for field in form.get("required", ())}


def value(form: dict[str, Any]) -> Any:
    if "$ref" in form:
        return least(form["$ref"].removeprefix(schema.DEFINITIONS))
    if "enum" in form:
        return form["enum"][0]
    if "pattern" in form:
        return "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"  # The only pattern is that of a UUID v4.
    return {"string": "x", "integer": 1, "number": 0.5, "boolean": True, "array": [], "object": {}, None: None}[
        form.get("type")]


def taken(frame: dict[str, Any]) -> bool:
    """Whether the codec accepts it from any of its senders."""
    row = FRAMES.get(frame["type"])
    sender = Direction.C if row is None or row.direction is Direction.BOTH else row.direction
    try:
        decode(json.dumps(frame).encode(), sender)
    except InvalidFrame:
        return False
    return True


@pytest.mark.req("W-1")
@pytest.mark.parametrize("name", FILES)
def test_the_document_in_the_repository_matches_the_table(name: str) -> None:
    command = f"python -m interlock.protocol.schema {name} > spec/{FILES[name]}"
    assert (SPEC / FILES[name]).read_bytes() == schema.document(name), f"run: {command}"


@pytest.mark.req("W-1")
def test_a_schema_is_printed_by_name_and_an_unknown_name_is_a_usage_error() -> None:
    command = [sys.executable, "-m", "interlock.protocol.schema"]
    printed = subprocess.run([*command, "asyncapi"], capture_output=True, check=True)
    assert printed.stdout == schema.document("asyncapi")
    assert subprocess.run([*command, "xml"], capture_output=True, check=False).returncode == 2


@pytest.mark.req("W-1")
def test_the_schema_is_valid_in_its_own_dialect() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())


@pytest.mark.req("W-1", "E-4")
@pytest.mark.parametrize("name", FRAMES)
def test_codec_and_schema_agree_on_minimal_incomplete_and_wrong_frames(name: str) -> None:
    frame = made(name)
    assert taken(frame)
    VALIDATOR.validate(frame)
    VALIDATOR.validate({**frame, "colour": "red", "payload": {**frame["payload"], "unheard": [1]}})
    changed = [{field: kept for field, kept in frame.items() if field != gone} for gone in frame]
    changed += [{**frame, "payload": {field: kept for field, kept in frame["payload"].items() if field != gone}}
                for gone in frame["payload"]]
    changed += [{**frame, "payload": {**frame["payload"], field: wrong}}
                for field in frame["payload"] for wrong in (None, 7, "seven", [], {}, True)]
    changed += [{**frame, "seq": seq} for seq in (0, -1, "1", 2)] + [{**frame, "message_id": ""}]
    for variant in changed:
        if "type" in variant:
            assert VALIDATOR.is_valid(variant) == taken(variant), variant


@pytest.mark.req("E-1", "E-2")
def test_an_unknown_type_is_valid_as_a_durable_frame() -> None:
    frame = {"type": "x-acme.weather", "payload": [1, None], "message_id": "m", "session_id": "s", "seq": 3}
    VALIDATOR.validate(frame)
    assert not VALIDATOR.is_valid({**frame, "seq": 0})


@pytest.mark.req("D-2", "W-1")
def test_frames_inside_a_history_are_validated_too() -> None:
    history = made("session.history")
    history["payload"]["frames"] = [made("session.turn.end")]
    VALIDATOR.validate(history)
    history["payload"]["frames"] = [made("session.turn.end", payload={})]
    assert not VALIDATOR.is_valid(history)


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for inner in part.values() for found in references(inner)]
    return [found for inner in part for found in references(inner)] if isinstance(part, list) else []


@pytest.mark.req("W-1")
def test_the_asyncapi_document_has_every_frame_and_no_dangling_reference() -> None:
    document = schema.asyncapi()
    for reference in references(document):
        at: Any = document
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
    for operation, direction in (("fromRunner", Direction.C), ("toRunner", Direction.M)):
        listed = {one["$ref"].rpartition("/")[2] for one in document["operations"][operation]["messages"]}
        assert listed == {row.name for row in FRAMES.values() if row.direction in (direction, Direction.BOTH)}
    marked = document["components"]["messages"]["control.mode.switch"]["payload"]["allOf"][1]
    assert marked["x-features"] == ["plan_mode"]


@pytest.mark.req("W-1", "E-2")
def test_the_tables_marks_name_existing_fields_and_only_our_types_are_ours() -> None:
    for row in FRAMES.values():
        assert (row.origin is Origin.P) or not row.name.startswith("x-interlock.")
        fields = {field.partition(".")[0] for field in row.published}
        assert fields <= set(row.payload.__struct_fields__), row.name
