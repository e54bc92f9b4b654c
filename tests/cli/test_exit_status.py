"""The exit statuses are a contract: this is its table."""

from __future__ import annotations

import pytest

from interlock.cli.exit_status import BY_HTTP, ExitStatus, of_command
from interlock.cli.link.gateway_reply import refusal
from interlock.cli.verb_error import Trouble
from interlock.protocol.problems import PROBLEMS

STATES = [
    ("succeeded", None, 0), ("failed", "PROCESS_EXIT", 1), ("rejected", "Forbidden", 3),
    ("expired", "ApprovalRequired", 3), ("expired", "Timeout", 5), ("canceled", None, 4), ("timed_out", "Timeout", 5),
]
CODES = {
    "Unauthorized": 8, "Forbidden": 8, "ApprovalRequired": 9, "InvalidPayload": 2, "UnsupportedCapability": 2,
    "RateLimited": 1, "QuotaExceeded": 1, "Timeout": 5, "Canceled": 9, "Conflict": 9, "IdempotencyKeyInUse": 9,
    "IdempotencyKeyReused": 9, "IdempotencyKeyMissing": 2, "InternalError": 1, "UpstreamError": 1, "NotFound": 7,
    "CursorExpired": 7, "Unavailable": 1, "MethodNotAllowed": 1, "NotAcceptable": 1, "PayloadTooLarge": 2,
    "RequestTimeout": 1,
    "UnsupportedMediaType": 1, "MisdirectedRequest": 8,
}


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("state", "code", "status"), STATES)
def test_an_ended_command_has_its_exit_status(state: str, code: str | None, status: int) -> None:
    assert of_command(state, code) == status


@pytest.mark.req("G-7", "F-1")
@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_every_problem_has_its_status_and_sentence(code: str) -> None:
    kind = PROBLEMS[code]
    body = b'{"code":"%s","detail":"It is so","hint":"Do this."}' % code.encode()
    trouble = refusal(kind.status, body, "/v1/x")
    assert trouble.status == CODES[code]
    assert trouble.line() == f"error[{code}]: It is so. Do this."


@pytest.mark.req("G-7", "F-1")
def test_places_of_a_body_are_named() -> None:
    body = b'{"code":"InvalidPayload","detail":"Wrong","hint":"","errors":[{"pointer":"/a","detail":"missing"}]}'
    assert refusal(400, body, "/x").line() == "error[InvalidPayload]: Wrong (/a: missing)."


@pytest.mark.req("G-7")
@pytest.mark.parametrize("status", sorted(BY_HTTP))
def test_an_answer_without_a_code_comes_from_a_proxy(status: int) -> None:
    trouble = refusal(status, b"<html>", "/v1/x")
    assert trouble.status == BY_HTTP[status]
    assert "Is this the URL" in trouble.line()


@pytest.mark.req("G-7")
def test_the_exit_statuses_are_fixed() -> None:
    assert {status.name: status.value for status in ExitStatus} == {
        "DONE": 0, "FAILED": 1, "USAGE": 2, "REJECTED": 3, "CANCELED": 4, "TIMED_OUT": 5, "UNREACHABLE": 6,
        "NOT_FOUND": 7, "NOT_AUTHORISED": 8, "CONFLICT": 9, "INTERRUPTED": 130,
    }
    assert Trouble("Unreachable", "x").status == 6
