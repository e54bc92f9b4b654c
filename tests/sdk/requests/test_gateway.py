"""Requests for the gateway itself: health, usage, drains and upkeep."""

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
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (gateway.drain("runner", id="r", reason="x"), "POST /v1/drain", {"scope": "runner", "id": "r", "reason": "x"}),
    (gateway.undrain("gateway"), "POST /v1/undrain", {"scope": "gateway"}),
    (gateway.prune(5, dry_run=True), "POST /v1/prune", {"older_than_ms": 5, "dry_run": True}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)


@pytest.mark.req("C-5")
def test_an_unready_gateway_is_reported_without_an_exception() -> None:
    assert gateway.ready().also == {503}
    assert gateway.alive().also == frozenset()
