"""Requests for runners (L-3): codes that pair one, another token, and the end of one."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import runners
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (runners.offer_pairing(), "POST /v1/runners/pairings", {}),
    (runners.rotate_runner("r/1"), "POST /v1/runners/r%2F1/rotate", {}),
    (runners.revoke_runner("r"), "POST /v1/runners/r/revoke", {}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)


@pytest.mark.req("L-3", "M-1")
def test_a_pairing_code_is_used_once_and_never_sent_twice() -> None:
    asked = runners.pair("ABCD", device_name="host")
    assert body(asked) == {"code": "ABCD", "device_name": "host"}
    assert not asked.with_key("fresh").repeatable
