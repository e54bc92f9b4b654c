"""What a gateway replies (F-1): a resource, a refusal as one sentence, or an answer of another program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_reply import LISTED, decoded, refusal
from interlock.cli.verb_error import Trouble
from interlock.cli.verbs import below, names
from interlock.protocol.answers import Health
from interlock.protocol.problems import PROBLEMS

pytestmark = pytest.mark.req("F-1", "G-7")


def refused(status: int = 404, retry_after: str | None = None, **body: Any) -> Trouble:
    return refusal(status, json.dumps({"code": "NotFound", **body}).encode(), "/v1/x", retry_after)


@pytest.mark.parametrize(("body", "line"), [
    ({"detail": "No session s.", "hint": "List them."}, "error[NotFound]: No session s. List them."),
    ({"title": "Nothing here"}, "error[NotFound]: Nothing here."),
    ({"detail": "Wrong", "errors": [{"pointer": "/a", "detail": "missing"}, {}]},
    "error[NotFound]: Wrong (/a: missing; : )."),
    ({"detail": "/a: missing", "errors": [{"pointer": "/a", "detail": "missing"}]}, "error[NotFound]: /a: missing."),
    ({"detail": "`from` is a day.", "errors": [{"pointer": "from", "detail": "not a day"}]},
     "error[NotFound]: `from` is a day."),
    ({"detail": "Wrong.", "errors": [{"pointer": "/a", "detail": "missing"}]}, "error[NotFound]: Wrong (/a: missing)."),
])
def test_a_problem_is_one_line(body: dict[str, Any], line: str) -> None:
    assert refused(**body).line() == line


@pytest.mark.req("Y-10")
@pytest.mark.parametrize(("hint", "remedy"), [
    ("List them with `GET /v1/webhooks`.", "List them with `interlock webhooks`."),
    ("`GET /v1/status` lists the drains in force.", "`interlock status` lists the drains in force."),
    ("List them with `GET /v1/sessions/{id}/tree`.", "List them with `interlock sessions tree`."),
    ("Send it again later, or with on_busy enqueue or interrupt.",
     "Send it again later, or with --on-busy enqueue or interrupt."),
    ("Ask for another: `POST /v1/stream-tickets`.", "Ask for another: `POST /v1/stream-tickets`."),
    ("Correct the places that `errors` names.", "Correct it, and send it again."),
    ("Look at `GET /v1/nowhere`.", "Look at `GET /v1/nowhere`."), ("Do `this`.", "Do `this`."),
])
def test_a_hint_names_the_verb_instead_of_the_operation(hint: str, remedy: str) -> None:
    assert refused(hint=hint).remedy == remedy


def test_each_verb_of_a_hint_exists() -> None:
    for verb in LISTED.values():
        first, _, second = verb.partition(" ")
        assert first in names()
        assert not second or second in below(first), verb


def test_a_wait_is_the_remedy_if_there_is_no_other() -> None:
    assert refused(429, "30").remedy == "Send it again in 30 s."
    assert refused(429, "30", hint="Wait.").remedy == "Wait."
    assert refused(429, "30").retry_after_s == 30
    assert refused(429, "soon").retry_after_s is None


@pytest.mark.req("Y-10", "W-2")
@pytest.mark.parametrize(("code", "retry_after", "remedy"), [
    ("Unavailable", "2", "Try again in 2 s."), ("Unavailable", None, "Try again in a few seconds."),
    ("RateLimited", "30", "Wait 30 s."), ("IdempotencyKeyInUse", "1", "Wait 1 s, then repeat the request.")])
def test_a_hint_contains_the_wait_instead_of_the_header(code: str, retry_after: str | None, remedy: str) -> None:
    assert refused(503, retry_after, code=code, hint=PROBLEMS[code].hint).remedy == remedy


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail":"x"}', b"\xff", b'{"code":7}'])
def test_an_answer_without_a_code_comes_from_a_proxy(body: bytes) -> None:
    trouble = refusal(502, body, "/v1/x")
    assert trouble.line() == "error[HTTP 502]: The gateway answered /v1/x with status 502. Is this the URL of an " \
                             "Interlock gateway?"
    assert refusal(404, body, "/v1/x").status == ExitStatus.NOT_FOUND


def test_an_answer_of_another_form_gives_one_sentence() -> None:
    assert decoded(b'{"ok":true,"newer":1}', Health, "/healthz") == Health(ok=True)
    for raw in (b"<html>", b'{"ok":"yes"}', b"", b"\xff"):
        with pytest.raises(Trouble, match="The answer to /healthz is not a gateway's") as caught:
            decoded(raw, Health, "/healthz")
        assert "same version" in caught.value.remedy
