"""The table of operations: each has what answers it, a method, a verb or the reason for none, and its row in a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli import verbs
from interlock.gateway.rest.app import HANDLERS
from interlock.protocol.api.parameters import PARAMETERS
from interlock.protocol.api.table import OPERATIONS

REST_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rest.md"


def verb_names() -> set[str]:
    """Every verb as it is typed behind `interlock`."""
    return {words for name in verbs.names() for words in (name, *(f"{name} {verb}" for verb in verbs.below(name)))}


@pytest.mark.req("F-2")
def test_names_and_paths_are_unique() -> None:
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.req("F-2")
def test_each_operation_has_one_handler() -> None:
    assert {name: handler.operation for name, handler in HANDLERS.items()} == {one.name: one for one in OPERATIONS}


def test_each_operation_has_a_verb_or_a_reason_for_none() -> None:
    known = verb_names()
    assert [one.name for one in OPERATIONS if bool(one.verb) == bool(one.no_verb)] == []
    assert [one.name for one in OPERATIONS if one.verb and one.verb not in known] == []


def test_each_operation_has_its_row_in_the_reference() -> None:
    page = REST_PAGE.read_text()
    assert [one.name for one in OPERATIONS if f"`{one.method} /v1{one.path}`" not in page] == []


def test_each_described_parameter_is_used_by_an_operation() -> None:
    asked = {name for one in OPERATIONS for name in one.query} | {
        f"{one.name}.{name}" for one in OPERATIONS for name in one.query}
    assert set(PARAMETERS) - asked == set()
