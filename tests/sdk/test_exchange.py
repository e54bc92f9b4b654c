"""Which requests are repeated, and after which delay: conversations with the flow, without any network (M-1)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk import problems
from interlock.sdk.exchange import ConnectionCut, HttpReply, RequestSpec, Rest, RetryPolicy, Send, exchange
from interlock.sdk.requests import commands, gateway, runners

STEADY = RetryPolicy(draw=lambda: 1.0)
CUT = ConnectionCut("reset by peer")
OK = HttpReply(200, b'{"ok": true}')


def refused(code: str, status: int, retry_after: str | None = None, **more: Any) -> HttpReply:
    import json

    return HttpReply(status, json.dumps({"code": code, "detail": "so", **more}).encode(), retry_after)


def converse(ask: RequestSpec[Any], *replies: HttpReply | ConnectionCut) -> tuple[list[Any], Any]:
    """Play the gateway: send these replies in order; returns the waits, and the result or the exception."""
    flow, waited, waiting = exchange(ask, STEADY), [], list(replies)
    came: Any = None
    try:
        while True:
            match flow.send(came):
                case Send(sent):
                    assert sent == ask, "the same request, under the same key"
                    came = waiting.pop(0)
                case Rest(seconds):
                    waited.append(seconds)
                    came = None
    except StopIteration as stop:
        assert not waiting
        return waited, stop.value
    except problems.InterlockError as error:
        assert not waiting
        return waited, error


CHANGE = commands.submit("hello", agent="shell").with_key("sdk-0123456789abcdef")


def test_a_lost_connection_is_retried_with_growing_delays() -> None:
    waited, answer = converse(gateway.alive(), CUT, CUT, CUT, OK)
    assert waited == [0.25, 0.5, 1.0]
    assert answer.ok


@pytest.mark.req("M-1")
def test_a_change_is_sent_again_under_its_key() -> None:
    waited, error = converse(CHANGE, CUT, refused("Conflict", 409))
    assert len(waited) == 1
    assert isinstance(error, problems.Conflict)


def test_a_change_that_no_key_protects_is_sent_once() -> None:
    waited, error = converse(runners.pair("ABCD"), CUT)
    assert waited == []
    assert isinstance(error, problems.Unreachable)
    assert "reset by peer" in str(error)


@pytest.mark.req("K-3")
@pytest.mark.parametrize(("code", "status"), [("RateLimited", 429), ("Unavailable", 503),
                                              ("IdempotencyKeyInUse", 409)])
def test_a_requested_delay_is_waited_for(code: str, status: int) -> None:
    waited, answer = converse(gateway.alive(), refused(code, status, "7"), OK)
    assert (waited, answer.ok) == ([7.0], True)


def test_a_too_long_requested_delay_is_raised_immediately() -> None:
    waited, error = converse(gateway.alive(), refused("RateLimited", 429, "3600"))
    assert waited == []
    assert isinstance(error, problems.RateLimited)
    assert error.retry_after_s == 3600


@pytest.mark.parametrize(("code", "status"), [
    ("ApprovalRequired", 409), ("QuotaExceeded", 429), ("InternalError", 500), ("UpstreamError", 502),
    ("Timeout", 504), ("Conflict", 409), ("NotFound", 404), ("InvalidPayload", 400)])
def test_other_refusals_are_raised_immediately(code: str, status: int) -> None:
    waited, error = converse(CHANGE, refused(code, status, "1", hint="do this",
                                             errors=[{"pointer": "/payload", "detail": "is missing"}]))
    assert waited == []
    assert type(error).__name__ == code
    assert (error.problem, error.status, error.hint) == (code, status, "do this")
    assert "/payload: is missing" in str(error)


def test_a_request_fails_after_the_maximum_number_of_attempts() -> None:
    waited, error = converse(gateway.alive(), *[CUT] * STEADY.attempts)
    assert len(waited) == STEADY.attempts - 1
    assert isinstance(error, problems.Unreachable)


def test_a_proxys_page_is_an_error_and_its_503_with_a_delay_is_retried() -> None:
    assert converse(gateway.alive(), HttpReply(503, b"<html>", "2"), OK)[0] == [2.0]
    for reply in (HttpReply(502, b"<html>"), HttpReply(302, b""), HttpReply(200, b"<html>"),
                  HttpReply(200, b'{"other": 1}')):
        assert isinstance(converse(gateway.alive(), reply)[1], problems.NotAGateway)


def test_an_unknown_code_is_a_refusal_too() -> None:
    error = converse(gateway.alive(), refused("Teapot", 418))[1]
    assert (type(error), error.problem) == (problems.Refused, "Teapot")


def test_an_unready_gateway_is_reported_and_not_a_refusal() -> None:
    body = b'{"ok": false, "ledger": "refuses", "lanes": "up", "draining": true}'
    waited, ready = converse(gateway.ready(), HttpReply(503, body, "1"))
    assert waited == []
    assert (ready.ok, ready.ledger, ready.lanes, ready.draining) == (False, "refuses", "up", True)


@pytest.mark.req("F-1")
def test_an_expired_wait_names_the_running_command() -> None:
    waiting = commands.submit("hello", agent="shell", wait_s=3).with_key("sdk-0123456789abcdef")
    assert waiting.headers("k")["Prefer"] == "wait=3"
    assert "Prefer" not in CHANGE.headers("k")
    out = refused("Timeout", 504)._replace(location="/v1/commands/cmd_1")
    waited, error = converse(waiting, out)
    assert waited == [], "the command goes on: nothing is sent a second time by itself"
    assert isinstance(error, problems.Timeout)
    assert error.location == "/v1/commands/cmd_1"
