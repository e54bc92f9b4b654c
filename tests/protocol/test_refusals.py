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
def test_the_runner_decodes_the_gateways_refusal(code: Code) -> None:
    refusal = LinkRefusal(code, "so it is")
    assert read_problem(STATUS[code][0], problem(refusal)) == refusal
    assert read_reason(CLOSE[code], reason(refusal)) == refusal
    document = json.loads(problem(refusal))
    assert (document["error_code"], document["hint"]) == (code.value, MEANINGS[code].remedy)


@pytest.mark.parametrize(("status", "body", "expected"), [
    (401, b"<html>no</html>", LinkRefusal(Code.UNAUTHORIZED, "HTTP 401")),
    (403, b"", LinkRefusal(Code.UNAUTHORIZED, "HTTP 403")),
    (406, b'{"detail": 7}', LinkRefusal(Code.VERSION_UNSUPPORTED, "HTTP 406")),
    (406, b'{"error_code": "UNHEARD_OF", "detail": "a\\u001b[2Jb"}',
     LinkRefusal(Code.VERSION_UNSUPPORTED, "a [2Jb")),
    (503, problem(LinkRefusal(Code.UNAUTHORIZED, "not now")), None),
    (502, b"", None),
])
def test_a_response_of_another_server_is_described_by_its_status(
    status: int, body: bytes, expected: LinkRefusal | None
) -> None:
    assert read_problem(status, body) == expected


def test_a_normal_close_is_no_refusal_and_an_uncoded_reason_is_the_detail() -> None:
    assert read_reason(4409, "VERSION_UNSUPPORTED: no") is None
    assert read_reason(None, "") is None
    assert read_reason(4401, "revoked") == LinkRefusal(Code.UNAUTHORIZED, "revoked")
    assert read_reason(4406, "") == LinkRefusal(Code.VERSION_UNSUPPORTED, "close code 4406")


def test_the_sentence_has_the_problem_and_the_remedy() -> None:
    sentence = LinkRefusal(Code.VERSION_UNSUPPORTED, "this gateway speaks rawp-dps-1.0").sentence
    assert sentence == ("Gateway and runner share no protocol version (this gateway speaks rawp-dps-1.0). "
                        "Update the older of the two.")


@pytest.mark.req("L-5")
def test_the_newest_links_number_is_read_only_from_its_close() -> None:
    assert read_outdated(CloseCode.OUTDATED, outdated(2**53)) == 2**53
    assert read_outdated(CloseCode.REPLACED, outdated(7)) is None
    assert read_outdated(None, outdated(7)) is None
    for words in ("", "a proxy's own words", "number -1", "number \u0663", "number 1" + "0" * 30):
        assert read_outdated(CloseCode.OUTDATED, words) is None
