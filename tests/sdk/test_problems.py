"""Exceptions of a call: a class for each code of F-1, with all fields of the refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.protocol.problems import PROBLEMS, Place
from interlock.sdk.problems import (
    BY_CODE,
    InterlockError,
    NotAGateway,
    NotFound,
    Refused,
    StillRunning,
    refusal,
    seconds,
)

pytestmark = pytest.mark.req("F-1")


def refused(status: int = 404, retry_after: str | None = None, location: str | None = None, **body: Any) -> Refused:
    error = refusal(status, json.dumps({"code": "NotFound", **body}).encode(), retry_after, location)
    assert isinstance(error, Refused)
    return error


def test_every_code_of_the_gateway_has_a_class_of_its_name() -> None:
    assert set(BY_CODE) == set(PROBLEMS)
    assert all(kind.__name__ == code and kind.code == code for code, kind in BY_CODE.items())
    assert all(issubclass(kind, InterlockError) for kind in BY_CODE.values())


@pytest.mark.parametrize("code", PROBLEMS)
def test_a_refusal_is_raised_as_its_own_class(code: str) -> None:
    error = refusal(PROBLEMS[code].status, json.dumps({"code": code, "detail": "It is so."}).encode(), None)
    assert type(error) is BY_CODE[code]
    assert str(error) == f"{code}: It is so."


def test_a_refusal_has_all_fields_of_the_problem() -> None:
    error = refused(409, "3", "/v1/commands/c", title="T", detail="D", hint="H", retryable=True, approval_id="apr",
                    errors=[{"pointer": "/a", "detail": "missing"}], unheard_of=[1])
    assert (error.problem, error.status, error.detail, error.hint, error.retryable) == ("NotFound", 409, "D", "H", True)
    assert (error.retry_after_s, error.location, error.approval_id) == (3.0, "/v1/commands/c", "apr")
    assert error.errors == (Place("/a", "missing"),)
    assert str(error) == "NotFound: D (/a: missing)"


@pytest.mark.parametrize(("body", "sentence"), [
    ({"title": "Nothing here"}, "NotFound: Nothing here"), ({}, "NotFound: "),
    ({"detail": "/a: missing", "errors": [{"pointer": "/a", "detail": "missing"}]}, "NotFound: /a: missing"),
    ({"detail": "Wrong", "errors": [{"pointer": "", "detail": "not JSON"}]}, "NotFound: Wrong (body: not JSON)"),
])
def test_a_wrong_place_is_named_once(body: dict[str, Any], sentence: str) -> None:
    assert str(refused(**body)) == sentence


def test_an_unknown_code_of_a_newer_gateway_is_a_refusal_too() -> None:
    error = refusal(418, b'{"code":"Teapot","detail":"short and stout"}', None)
    assert type(error) is Refused
    assert (error.problem, error.status) == ("Teapot", 418)
    assert type(refused()) is NotFound


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"status":404}', b'{"code":7}', b"\xff",
                                  b'{"code":"X","errors":7}'])
def test_a_response_without_a_code_is_not_a_gateways(body: bytes) -> None:
    error = refusal(502, body, None)
    assert isinstance(error, NotAGateway)
    assert "status 502" in str(error)


@pytest.mark.parametrize(("header", "wait"), [
    (None, None), ("0", 0.0), ("30", 30.0), ("", None), ("1.5", None), ("-1", None), ("soon", None), ("\u00b2", None),
    ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("\u0663", None),
])
def test_a_retry_delay_is_read_in_seconds_or_ignored(header: str | None, wait: float | None) -> None:
    assert seconds(header) == wait


def test_an_expired_wait_has_the_commands_state() -> None:
    error = StillRunning("cmd_1", "running")
    assert (error.command_id, error.state) == ("cmd_1", "running")
    assert str(error).startswith("cmd_1 is running still")
