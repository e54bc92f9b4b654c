"""Requests about policy (P-1, J-13): the decision on a call, and recorded calls against other rules."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import policy
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text"), [
    (policy.decide("shell", tool="bash", cost_usd=0, person=None),
    "GET /v1/policy/decision?agent=shell&tool=bash&cost_usd=0"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (policy.replay_policy(calls=5), "POST /v1/policy/replay", {"calls": 5}),
    (policy.replay_policy([]), "POST /v1/policy/replay", {"rules": []}),
    (policy.revoke_rule("rule_1"), "POST /v1/policy/rules/rule_1/revoke", {}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)
