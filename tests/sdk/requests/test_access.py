"""Requests for keys, tenants, browsers and push (K-1, J-10, J-18)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.protocol.resources import Actor
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import access
from sdk.requests.asked import body, line

ANN = Actor(type="user", id="ann")


@pytest.mark.req("K-1")
@pytest.mark.parametrize(("asked", "text", "expected"), [
    (access.keys(), "GET /v1/keys", {}), (access.keys(tenant="b"), "GET /v1/keys?tenant=b", {}),
    (access.make_key(ANN, ("viewer", "approver"), ttl_ms=5_000), "POST /v1/keys",
     {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer", "approver"], "ttl_ms": 5_000}),
    (access.rotate_key("key/1"), "POST /v1/keys/key%2F1/rotate", {}), (access.revoke_key("k"),
    "POST /v1/keys/k/revoke", {}),
    (access.make_browser_code(roles=["viewer"]), "POST /v1/browser-codes", {"roles": ["viewer"]}),
    (access.make_browser_code(), "POST /v1/browser-codes", {}),
    (access.subscribe_to_push("https://p", "x", "y"), "POST /v1/push-subscriptions",
     {"endpoint": "https://p", "keys": {"p256dh": "x", "auth": "y"}}),
    (access.make_tenant("b", name="B"), "POST /v1/tenants", {"tenant_id": "b", "name": "B"}),
    (access.suspend_tenant("b"), "POST /v1/tenants/b/suspend", {}), (access.restore_tenant("b"),
    "POST /v1/tenants/b/restore", {}),
])
def test_a_request_is_that_of_the_reference(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)


@pytest.mark.req("M-1")
def test_the_callers_idempotency_key_is_used_for_all_attempts() -> None:
    for asked in (access.make_key(ANN, ["viewer"], idempotency_key="own"), access.revoke_key("k",
    idempotency_key="own"),
                  access.end_browser_session("b", idempotency_key="own"), access.try_push_subscription("p",
                  idempotency_key="own")):
        assert asked.with_key("fresh").key == "own"
        assert asked.repeatable
