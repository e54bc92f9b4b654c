"""Requests for webhooks (P-8): deliveries, and their retries."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import webhooks
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text"), [
    (webhooks.deliveries(), "GET /v1/webhooks/deliveries"),
    (webhooks.deliveries(state="dead", limit=5), "GET /v1/webhooks/deliveries?state=dead&limit=5"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (webhooks.retry_delivery("d"), "POST /v1/webhooks/deliveries/d/retry", {}),
    (webhooks.try_webhook("ops"), "POST /v1/webhooks/ops/test", {}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)
