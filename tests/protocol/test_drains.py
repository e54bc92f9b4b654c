"""A drain's body and its resource (C-5): which scopes there are, and how long a reason may be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.drains import Drain, DrainBody

pytestmark = pytest.mark.req("C-5")


@pytest.mark.parametrize("scope", ["gateway", "runner", "agent", "session"])
def test_each_scope_is_read(scope: str) -> None:
    assert msgspec.convert({"scope": scope, "id": "x"}, DrainBody).scope == scope


@pytest.mark.parametrize("body", [{}, {"scope": "tenant"}, {"scope": "Gateway"}, {"scope": "runner", "until": "noon"},
                                  {"scope": "gateway", "reason": "x" * 1_001}, {"scope": "runner", "id": 7}])
def test_another_scope_field_or_length_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, DrainBody)


def test_a_drain_of_the_whole_gateway_is_shown_without_an_id() -> None:
    shown = msgspec.json.encode(Drain(scope="gateway", at="t", by="user:ann"))
    assert shown == b'{"scope":"gateway","at":"t","by":"user:ann"}'
