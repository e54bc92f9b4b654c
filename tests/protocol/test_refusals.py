"""A refused link has its code before any frames: in the upgrade's response, and in the close's reason (W-2)."""

from __future__ import annotations

import json

import pytest

from interlock.protocol.codes import MEANINGS, CloseCode, Code
from interlock.protocol.refusals import (
    CLOSE,
    STATUS,
    LinkRefusal,
    outdated,
    problem,
    read_outdated,
    read_problem,
    read_reason,
    reason,
)

pytestmark = pytest.mark.req("W-2")


@pytest.mark.parametrize("code", STATUS)
def test_what_the_gateway_writes_is_what_the_runner_reads(code: Code) -> None:
    refusal = LinkRefusal(code, "so it is")
    assert read_problem(STATUS[code][0], problem(refusal)) == refusal
    assert read_reason(CLOSE[code], reason(refusal)) == refusal
    told = json.loads(problem(refusal))
    assert (told["error_code"], told["hint"]) == (code.value, MEANINGS[code].remedy)


@pytest.mark.parametrize(("status", "body", "expected"), [
    (401, b"<html>no</html>", LinkRefusal(Code.UNAUTHORIZED, "HTTP 401")),
    (403, b"", LinkRefusal(Code.UNAUTHORIZED, "HTTP 403")),
    (406, b'{"detail": 7}', LinkRefusal(Code.VERSION_UNSUPPORTED, "HTTP 406")),
    (406, b'{"error_code": "UNHEARD_OF", "detail": "a\\u001b[2Jb"}',
     LinkRefusal(Code.VERSION_UNSUPPORTED, "a [2Jb")),
    (503, problem(LinkRefusal(Code.UNAUTHORIZED, "not now")), None),
    (502, b"", None),
])
def test_a_strangers_answer_is_told_by_its_status(status: int, body: bytes, expected: LinkRefusal | None) -> None:
    assert read_problem(status, body) == expected


def test_a_close_that_is_no_refusal_is_none_and_a_reason_without_a_code_is_the_detail() -> None:
    assert read_reason(4409, "VERSION_UNSUPPORTED: no") is None
    assert read_reason(None, "") is None
    assert read_reason(4401, "revoked") == LinkRefusal(Code.UNAUTHORIZED, "revoked")
    assert read_reason(4406, "") == LinkRefusal(Code.VERSION_UNSUPPORTED, "close code 4406")


def test_the_sentence_says_what_happened_and_what_to_do() -> None:
    sentence = LinkRefusal(Code.VERSION_UNSUPPORTED, "this gateway speaks rawp-dps-1.0").sentence
    assert sentence == ("Gateway and runner share no protocol version (this gateway speaks rawp-dps-1.0). "
                        "Update the older of the two.")


@pytest.mark.req("L-5")
def test_the_newest_links_number_is_read_from_its_close_and_from_nothing_else() -> None:
    assert read_outdated(CloseCode.OUTDATED, outdated(2**53)) == 2**53
    assert read_outdated(CloseCode.REPLACED, outdated(7)) is None
    assert read_outdated(None, outdated(7)) is None
    for words in ("", "a proxy's own words", "number -1", "number \u0663", "number 1" + "0" * 30):
        assert read_outdated(CloseCode.OUTDATED, words) is None
