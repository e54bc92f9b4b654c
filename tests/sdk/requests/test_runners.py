"""Requests for runners (L-3): codes that pair one, another token, and the end of one."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import runners
from sdk.requests.asked import body, line


@pytest.mark.parametrize(("asked", "text", "said"), [
    (runners.offer_pairing(), "POST /v1/runners/pairings", {}),
    (runners.rotate_runner("r/1"), "POST /v1/runners/r%2F1/rotate", {}),
    (runners.revoke_runner("r"), "POST /v1/runners/r/revoke", {}),
])
def test_a_change_says_what_it_was_given(asked: RequestSpec[Any], text: str, said: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, said)


@pytest.mark.req("L-3", "M-1")
def test_a_pairing_code_is_used_up_so_it_is_never_sent_twice() -> None:
    asked = runners.pair("ABCD", device_name="host")
    assert body(asked) == {"code": "ABCD", "device_name": "host"}
    assert not asked.with_key("fresh").repeatable
