"""Requests for the gateway itself: health, drains, runners, policy, audit, upkeep, webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import gateway
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text"), [
    (gateway.alive(), "GET /healthz"), (gateway.description(), "GET /openapi.json"),
    (gateway.usage(), "GET /v1/usage?by=day"),
    (gateway.usage(from_="2026-11-01", to="2026-11-02", by=("day", "agent"), limit=5),
     "GET /v1/usage?to=2026-11-02&by=day,agent&limit=5&from=2026-11-01"),
    (gateway.decide("shell", tool="bash", cost_usd=0, person=None),
    "GET /v1/policy/decision?agent=shell&tool=bash&cost_usd=0"),
    (gateway.audit(order="newest", from_="t"), "GET /v1/audit?order=newest&from=t"),
    (gateway.audit_record(7), "GET /v1/audit/records/7"), (gateway.prove_inclusion(7),
    "GET /v1/audit/proof/inclusion?seq=7"),
    (gateway.prove_consistency(0, second=9), "GET /v1/audit/proof/consistency?first=0&second=9"),
    (gateway.deliveries(state="dead"), "GET /v1/webhooks/deliveries?state=dead"),
])
def test_a_read_is_the_one_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "said"), [
    (gateway.drain("runner", id="r", reason="x"), "POST /v1/drain", {"scope": "runner", "id": "r", "reason": "x"}),
    (gateway.undrain("gateway"), "POST /v1/undrain", {"scope": "gateway"}),
    (gateway.offer_pairing(), "POST /v1/runners/pairings", {"device_name": ""}),
    (gateway.revoke_runner("r"), "POST /v1/runners/r/revoke", {}),
    (gateway.replay_policy(calls=5), "POST /v1/policy/replay", {"sessions": 20, "calls": 5, "changed": False}),
    (gateway.replay_policy([]), "POST /v1/policy/replay", {"rules": [], "sessions": 20, "calls": 200,
    "changed": False}),
    (gateway.erase(records=(1, 2)), "POST /v1/audit/erasures", {"records": [1, 2]}),
    (gateway.resume_signing(3, "ab"), "POST /v1/audit/resume", {"size": 3, "root": "ab"}),
    (gateway.prune(5, dry_run=True), "POST /v1/prune", {"older_than_ms": 5, "dry_run": True}),
    (gateway.retry_delivery("d"), "POST /v1/webhooks/deliveries/d/retry", {}),
    (gateway.try_webhook("ops"), "POST /v1/webhooks/ops/test", {}),
])
def test_a_change_says_what_it_was_given(asked: RequestSpec[Any], text: str, said: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, said)


@pytest.mark.req("L-3", "M-1")
def test_a_pairing_code_is_used_up_so_it_is_never_sent_twice() -> None:
    assert not gateway.pair("ABCD").with_key("fresh").repeatable


@pytest.mark.req("C-5")
def test_a_gateway_that_is_not_ready_says_so_and_nothing_is_raised() -> None:
    assert gateway.ready().also == {503}
    assert gateway.alive().also == frozenset()
