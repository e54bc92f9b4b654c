"""Refusals of a runner's upgrade (L-2, W-2): a problem that the runner can parse."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from interlock.gateway.link.upgrade import not_a_websocket, refuse_tenant, refuse_upgrade
from interlock.protocol.codes import Code
from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord
from interlock.protocol.refusals import LinkRefusal, read_problem

pytestmark = [pytest.mark.anyio, pytest.mark.req("L-2", "W-2")]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def answered(by: Callable[[Send], Awaitable[None]]) -> tuple[str, int, dict[str, str], bytes]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    await by(send)
    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    if "content-length" in headers:
        assert int(headers["content-length"]) == len(body["body"])
    return start["type"], start["status"], headers, body["body"]


@pytest.mark.parametrize(("code", "status"), [(Code.UNAUTHORIZED, 401), (Code.VERSION_UNSUPPORTED, 406)])
async def test_a_refusal_is_decoded_from_its_response(code: Code, status: int) -> None:
    refusal = LinkRefusal(code, "so it is")
    kind, found, headers, body = await answered(lambda send: refuse_upgrade(send, refusal))
    assert (kind, found, headers["content-type"]) == (
        "websocket.http.response.start", status, "application/problem+json")
    assert read_problem(found, body) == refusal


def tenant(moved_to: str | None, moving: str | None = None) -> TenantRecord:
    return TenantRecord(tenant_id="t", name="", created_ms=0, moved_to=moved_to, moving=moving)


async def test_the_refusal_for_a_moved_tenant_names_its_new_address() -> None:
    closed = Problem("MisdirectedRequest", "It moved.")
    _, status, _, body = await answered(lambda send: refuse_tenant(send, tenant("https://b.example"), closed))
    assert status == 421
    assert b"https://b.example" in body


async def test_a_tenant_in_transit_is_retried_and_one_without_an_address_refused() -> None:
    closed = Problem("Unavailable", "It is on its way.", headers={"Retry-After": "5"})
    _, status, headers, _ = await answered(lambda send: refuse_tenant(send, tenant(None, "move_1"), closed))
    assert (status, headers["retry-after"]) == (503, "5")
    _, status, _, body = await answered(lambda send: refuse_tenant(send, tenant("the archive"), closed))
    assert status == 401
    assert "was moved to the archive" in json.loads(body)["detail"]


async def test_a_plain_request_is_asked_to_upgrade() -> None:
    kind, status, headers, body = await answered(not_a_websocket)
    assert (kind, status, headers["upgrade"]) == ("http.response.start", 426, "websocket")
    assert json.loads(body)["code"] == "UpgradeRequired"
