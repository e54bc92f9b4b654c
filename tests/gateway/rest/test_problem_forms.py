"""Error codes of an operation (F-1, F-2): those of its form, and its own, each under its status."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.gateway.rest.problem_forms import codes_of, name_of, problem_responses, problem_schema
from interlock.protocol.api.access import LIST_LOGIN_ISSUERS
from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS, LIST_COMMANDS, SUBMIT_COMMAND
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.runners import PAIR_RUNNER
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.problems import PROBLEMS

pytestmark = pytest.mark.req("F-1", "F-2")


def codes(operation: Operation[Any]) -> set[str]:
    return {code for group in codes_of(operation).values() for code in group}


@pytest.mark.parametrize(("operation", "code", "can"), [
    (GET_COMMAND, "NotFound", True), (LIST_COMMANDS, "NotFound", False), (GET_STATUS, "CursorExpired", True),
    (GET_COMMAND, "CursorExpired", False), (SUBMIT_COMMAND, "IdempotencyKeyMissing", True),
    (GET_COMMAND, "IdempotencyKeyMissing", False), (PAIR_RUNNER, "IdempotencyKeyMissing", False),
    (PAIR_RUNNER, "PayloadTooLarge", True), (LIST_LOGIN_ISSUERS, "NotAcceptable", False), (LIST_LOGIN_ISSUERS,
    "RateLimited", True),
])
def test_a_form_includes_its_codes(operation: Operation[Any], code: str, can: bool) -> None:
    assert (code in codes(operation)) is can


@pytest.mark.parametrize("operation", OPERATIONS, ids=[one.name for one in OPERATIONS])
def test_each_code_is_listed_under_its_status_with_the_operations_own(operation: Operation[Any]) -> None:
    found = codes_of(operation)
    assert all(PROBLEMS[code].status == status for status, group in found.items() for code in group)
    assert list(found) == sorted(found)
    assert {"InternalError", "Unavailable", *operation.codes} <= codes(operation)


def test_codes_that_share_a_status_are_one_response_with_the_headers_that_help() -> None:
    groups = [("Conflict", "IdempotencyKeyInUse"), ("Unauthorized",), ("CursorExpired",), ("NotFound",)]
    made = problem_responses(groups)
    assert set(made) == {name_of(group) for group in groups} == {
        "Conflict-or-IdempotencyKeyInUse", "Unauthorized", "CursorExpired", "NotFound"}
    assert list(made["Conflict-or-IdempotencyKeyInUse"]["headers"]) == ["Retry-After"]
    assert (list(made["Unauthorized"]["headers"]), list(made["CursorExpired"]["headers"])) == (
        ["WWW-Authenticate"], ["Link"])
    assert "headers" not in made["NotFound"]


def test_the_form_of_a_refusal_knows_every_code() -> None:
    schema = problem_schema()
    assert schema["properties"]["code"]["enum"] == sorted(PROBLEMS)
    assert set(schema["required"]) <= set(schema["properties"])
