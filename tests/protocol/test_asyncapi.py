"""The AsyncAPI document by the official schema of AsyncAPI itself, as `.ci/install-agents` installs it (W-1)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.protocol import schema

REPOSITORY = Path(__file__).resolve().parents[2]
VARIABLE = "INTERLOCK_TEST_ASYNCAPI"
"""A directory that holds the schemas of the npm package `@asyncapi/specs`; it is not looked for elsewhere then."""


def find_schema(version: str) -> Path | None:
    """The official schema of a version of AsyncAPI."""
    named = os.environ.get(VARIABLE)
    directory = Path(named) if named else REPOSITORY / ".ci/node_modules/@asyncapi/specs/schemas"
    path = directory / f"{version}.json"
    return path if path.is_file() else None


@pytest.fixture
def official() -> jsonschema.Draft7Validator:
    """AsyncAPI's schema of the version that the document names, in the dialect that it is written in."""
    path = find_schema(schema.asyncapi()["asyncapi"])
    if path is None:
        reason = f"AsyncAPI's schema is not installed: run .ci/install-agents, or name its directory in {VARIABLE}"
        if os.environ.get("INTERLOCK_CI") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def faults(official: jsonschema.Draft7Validator, document: dict[str, Any]) -> list[str]:
    """Every fault with its place, the deepest reason of those that have several."""

    def deepest(error: jsonschema.ValidationError) -> Iterator[jsonschema.ValidationError]:
        yield error
        for inner in error.context or ():
            yield from deepest(inner)

    told = [max(deepest(error), key=lambda one: len(one.absolute_path)) for error in official.iter_errors(document)]
    return [f"{error.json_path}: {error.message[:200]}" for error in told]


@pytest.mark.req("W-1")
def test_the_document_is_asyncapi_by_its_own_schema(official: jsonschema.Draft7Validator) -> None:
    assert faults(official, schema.asyncapi()) == []


@pytest.mark.req("W-1")
def test_a_word_that_asyncapi_does_not_have_is_noticed(official: jsonschema.Draft7Validator) -> None:
    document = schema.asyncapi()
    document["info"]["license"]["identifier"] = "Apache-2.0"
    document["operations"]["toRunner"]["action"] = "shout"
    found = faults(official, document)
    assert [fault.partition(":")[0] for fault in found] == ["$.info.license", "$.operations.toRunner.action"]


@pytest.mark.req("W-1")
def test_an_absent_schema_fails_where_it_must_be_there(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("INTERLOCK_CI", "1")
    with pytest.raises(pytest.fail.Exception, match="AsyncAPI's schema is not installed"):
        request.getfixturevalue("official")
