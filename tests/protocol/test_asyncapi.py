"""The AsyncAPI document by the official schema of AsyncAPI itself, as `.ci/install-agents` installs it (W-1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from installed import require
from interlock.protocol import schema


@pytest.fixture
def official() -> jsonschema.Draft7Validator:
    """AsyncAPI's schema of the version that the document names, in the dialect that it is written in."""
    path = require("asyncapi") / f"{schema.asyncapi()['asyncapi']}.json"
    return jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def faults(official: jsonschema.Draft7Validator, document: dict[str, Any]) -> list[str]:
    """Every fault with its place, the deepest reason of those that have several."""

    def deepest(error: jsonschema.ValidationError) -> Iterator[jsonschema.ValidationError]:
        yield error
        for inner in error.context or ():
            yield from deepest(inner)

    problems = [max(deepest(error), key=lambda one: len(one.absolute_path)) for error in official.iter_errors(document)]
    return [f"{error.json_path}: {error.message[:200]}" for error in problems]


@pytest.mark.req("W-1")
def test_the_document_is_asyncapi_by_its_own_schema(official: jsonschema.Draft7Validator) -> None:
    assert faults(official, schema.asyncapi()) == []


@pytest.mark.req("W-1")
def test_an_unknown_asyncapi_keyword_is_noticed(official: jsonschema.Draft7Validator) -> None:
    document = schema.asyncapi()
    document["info"]["license"]["identifier"] = "Apache-2.0"
    document["operations"]["toRunner"]["action"] = "shout"
    found = faults(official, document)
    assert [fault.partition(":")[0] for fault in found] == ["$.info.license", "$.operations.toRunner.action"]
