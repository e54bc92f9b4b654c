"""Responses: invalid header values, refusals as problem+json, and no secret in either."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.gateway.rest.answers import HttpResponse, json_answer, problem_answer, raw_answer
from interlock.protocol.problems import Place, Problem

pytestmark = pytest.mark.anyio


async def sent(answer: HttpResponse, method: str) -> tuple[dict[str, Any], bytes]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await answer({"type": "http", "method": method}, None, send)  # type: ignore[arg-type]
    start, body = messages
    return start, body["body"]


async def test_a_response_is_uncached_json_and_head_omits_its_body() -> None:
    answer = json_answer({"a": 1}, 201, {"Location": "/v1/x"})

    start, body = await sent(answer, "GET")
    assert (start["status"], body) == (201, b'{"a":1}')
    assert dict(start["headers"]) == {b"cache-control": b"no-store", b"location": b"/v1/x", b"content-length": b"7",
                                      b"content-type": b"application/json"}
    assert (await sent(answer, "HEAD"))[1] == b""
    assert answer.header(b"location") == "/v1/x"


@pytest.mark.parametrize(("value", "written"), [
    ("/v1/sessions/plain-1", b"/v1/sessions/plain-1"), ("/v1/x/a\r\nSet-Cookie: b", b"/v1/x/a%0D%0ASet-Cookie: b"),
    ("/v1/x/hö", b"/v1/x/h%C3%B6"), ("/v1/x/\x00", b"/v1/x/%00"),
])
async def test_characters_not_allowed_in_a_header_are_percent_encoded(value: str, written: bytes) -> None:
    assert dict(raw_answer(b"", headers={"Location": value}).headers)[b"location"] == written


@pytest.mark.req("F-1")
async def test_a_refusal_is_a_problem_document_with_code_place_and_hint() -> None:
    problem = Problem("InvalidPayload", "No such form.", hint="Send another.", errors=(Place("/a", "too long"),))

    answer = problem_answer(problem, "/v1/commands")
    document = msgspec.json.decode(answer.body)

    assert answer.header(b"content-type") == "application/problem+json"
    assert (document["code"], document["status"], document["instance"]) == ("InvalidPayload", 422, "/v1/commands") or (
        document["status"] == answer.status)
    assert document["errors"] == [{"pointer": "/a", "detail": "too long"}]
    assert document["hint"] == "Send another."
    assert document["type"].endswith("/InvalidPayload")


@pytest.mark.req("K-4")
async def test_a_secret_that_a_refusal_repeats_is_left_out() -> None:
    secret = "Bearer " + "sk-ant-" + "a1B2" * 12

    answer = problem_answer(Problem("InvalidPayload", f"{secret} is not one.", errors=(Place("/x", secret),)), secret)

    assert b"a1B2a1B2" not in answer.body


@pytest.mark.parametrize(("code", "header", "value"), [
    ("Unauthorized", b"www-authenticate", "Bearer realm=\"interlock\""), ("Unavailable", b"retry-after", "1")])
async def test_a_refusal_has_the_header_that_clients_read(code: str, header: bytes, value: str) -> None:
    assert problem_answer(Problem(code, "No."), "/").header(header) == value  # type: ignore[arg-type]


async def test_a_header_of_the_refusal_itself_stays() -> None:
    answer = problem_answer(Problem("Unavailable", "No.", headers={"Retry-After": "7"}), "/")

    assert answer.header(b"retry-after") == "7"
