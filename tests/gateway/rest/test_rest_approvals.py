"""Approvals over REST: the bytes that a vote is about (J-12, P-2)."""

from __future__ import annotations

import base64
import hashlib

import msgspec
import pytest

from gateway.rest.test_rest_door import refused
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
SUBJECT = b'{"tool_name": "shell",  "input" : {"n": 1.0, "big": 12345678901234567890, "s": "\xe2\x80\xae\\u202e"}}'


def sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@pytest.mark.req("P-2")
async def test_the_bytes_of_an_approval_are_those_of_its_digest_to_the_last_blank(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", digest=sha(SUBJECT), subject=msgspec.Raw(SUBJECT))
    await gateway.desk.add_approval("apr_2", digest=sha(b'{"a" : 1.0}'), input=msgspec.Raw(b'{"a" : 1.0}'))
    for approval_id, raw in (("apr_1", SUBJECT), ("apr_2", b'{"a" : 1.0}')):
        answer = await gateway.http.get(f"/v1/approvals/{approval_id}/input")
        assert (answer.status_code, answer.content) == (200, raw)
        digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
        assert answer.headers["Repr-Digest"] == f"sha-256=:{digest}:"
        assert answer.headers["Content-Type"] == "application/octet-stream", "no browser renders it"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
    async with gateway.as_role("viewer") as viewer, gateway.as_role("owner", "other") as stranger:
        assert (await viewer.head("/v1/approvals/apr_1/input")).content == b""
        refused(await stranger.get("/v1/approvals/apr_1/input"), "NotFound")


@pytest.mark.req("P-2", "H-5")
async def test_bytes_that_are_not_those_of_the_digest_are_not_shown(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", digest=sha(SUBJECT), subject=msgspec.Raw(SUBJECT + b" "))
    refused(await gateway.http.get("/v1/approvals/apr_1/input"), "Conflict")
