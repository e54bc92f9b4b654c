"""Requests for the audit log (U-2, U-3, U-4): records, proofs, and what is done about a log that cannot be signed."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import audit
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text"), [
    (audit.audit(order="newest", from_="t"), "GET /v1/audit?order=newest&from=t"), (audit.audit(), "GET /v1/audit"),
    (audit.audit_record(7), "GET /v1/audit/records/7"), (audit.prove_inclusion(7),
    "GET /v1/audit/proof/inclusion?seq=7"),
    (audit.prove_consistency(0, second=9), "GET /v1/audit/proof/consistency?first=0&second=9"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (audit.erase(records=(1, 2)), "POST /v1/audit/erasures", {"records": [1, 2]}),
    (audit.erase(who="user:ann"), "POST /v1/audit/erasures", {"who": "user:ann"}),
    (audit.resume_signing(3, "ab"), "POST /v1/audit/resume", {"size": 3, "root": "ab"}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)
