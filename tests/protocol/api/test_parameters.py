"""Query parameters as JSON Schema (F-2): found by operation first, and with bounds that can be met."""

from __future__ import annotations

import pytest

from interlock.protocol.api.parameters import PARAMETERS, Parameter, parameter
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.limits import CURSOR_MAX_CHARS, PAGE_DEFAULT, PAGE_MAX

pytestmark = pytest.mark.req("F-2")


def test_an_operations_own_description_overrides_the_common_one() -> None:
    assert parameter("listSessions", "limit") is PARAMETERS["limit"]
    assert parameter("getUsage", "limit") is PARAMETERS["getUsage.limit"]
    assert parameter("getTranscript", "last") != parameter("readFrames", "last")


def test_an_undescribed_parameter_is_any_text() -> None:
    assert parameter("anything", "unheard_of") == Parameter({"type": "string"}, "")


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_description_is_a_sentence_with_satisfiable_bounds(name: str) -> None:
    found = PARAMETERS[name]
    assert found.description[0].isupper() or found.description[0] == "`"
    assert found.description.endswith(".")
    if found.schema["type"] == "integer":
        low, high = found.schema["minimum"], found.schema["maximum"]
        assert low < high
        assert low <= found.schema.get("default", high) <= high
    words = found.schema.get("enum", [])
    assert len(set(words)) == len(words)
    assert found.schema.get("default") is None or not found.required


def test_pages_and_cursors_have_the_limits_of_the_gateway() -> None:
    assert PARAMETERS["limit"].schema == {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT}
    assert parameter("listCommands", "cursor").schema["maxLength"] == CURSOR_MAX_CHARS


def test_required_parameters_are_those_without_which_a_request_fails() -> None:
    required = {(one.name, name) for one in OPERATIONS for name in one.query if parameter(one.name, name).required}
    assert required == {("decide", "agent"), ("proveInclusion", "seq"), ("proveConsistency", "first")}
