"""The OpenAPI document in the repository equals the program's, and is valid OpenAPI (F-2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.gateway.rest import openapi
from interlock.protocol.api.parameters import PARAMETERS
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.problems import PROBLEMS
from lazily import lazily

validator = lazily("openapi_spec_validator")

KEPT = Path(__file__).resolve().parents[2] / "spec/openapi.json"
COMMAND = "python -m interlock.gateway.rest.openapi > spec/openapi.json"
DOCUMENT: dict[str, Any] = json.loads(KEPT.read_bytes())


@pytest.mark.req("F-2")
def test_the_document_in_the_repository_equals_the_table() -> None:
    assert KEPT.read_bytes() == openapi.document(), f"run: {COMMAND}"


@pytest.mark.req("F-2")
def test_the_document_is_valid_openapi() -> None:
    assert [error.message for error in validator.OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


@pytest.mark.req("F-2")
def test_a_fault_in_the_document_is_detected() -> None:
    def faults(answer: dict[str, Any]) -> list[Any]:
        path = {"get": {"operationId": "listCommands", "responses": {"200": answer}}}
        small = {**DOCUMENT, "paths": {"/v1/commands": path}, "components": {}}
        return list(validator.OpenAPIV31SpecValidator(small).iter_errors())

    assert faults({"description": "Commands.", "content": {}}) == []
    assert faults({"content": {}}) != []


@pytest.mark.req("F-2")
def test_every_operation_is_listed_with_the_type_of_its_answer() -> None:
    there = {operation["operationId"] for path in DOCUMENT["paths"].values()
             for operation in path.values() if isinstance(operation, dict) and "operationId" in operation}
    assert there == {one.name for one in OPERATIONS} | {"isAlive", "isReady", "readMetrics", "describeApi",
                                                           "callHook"}
    assert [one.name for one in OPERATIONS if "application/json" in one.media and one.answers is None] == []


@pytest.mark.req("F-2")
def test_every_operation_has_declared_tags_and_a_description() -> None:
    declared = {tag["name"] for tag in DOCUMENT["tags"]}
    used = {tag for path in DOCUMENT["paths"].values() for operation in path.values()
            if isinstance(operation, dict) for tag in operation.get("tags", ())}
    assert used == declared
    assert [operation.name for operation in OPERATIONS if not operation.text.endswith(".")] == []


@pytest.mark.req("F-2")
def test_every_query_parameter_is_described_and_no_other() -> None:
    asked = {(one.name, name) for one in OPERATIONS for name in one.query}
    assert [(name, query) for name, query in sorted(asked)
            if f"{name}.{query}" not in PARAMETERS and query not in PARAMETERS] == []
    used = {f"{name}.{query}" for name, query in asked} | {query for _, query in asked}
    assert set(PARAMETERS) - used == set()


@pytest.mark.req("F-1", "F-2")
def test_every_code_that_an_operation_names_is_listed_in_f_1() -> None:
    assert {code for one in OPERATIONS for code in one.codes} <= set(PROBLEMS)


@pytest.mark.req("F-2")
def test_every_reference_has_a_target_and_every_schema_is_valid() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in references(DOCUMENT):
        at: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for inner in part.values() for found in references(inner)]
    return [found for inner in part for found in references(inner)] if isinstance(part, list) else []
