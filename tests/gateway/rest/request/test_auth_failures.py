"""Refusals are recorded: counted, and written at most once a second for each source (U-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from starlette.requests import HTTPConnection

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.gateway.rest.request import auth_failures
from interlock.gateway.rest.request.auth_failures import INTERVAL_MS, Denials, personal_of

pytestmark = [pytest.mark.anyio, pytest.mark.req("U-1")]


class Refusals:
    """A ledger, a clock, and what is counted on them."""

    def __init__(self) -> None:
        self.ledger, self.clock = MemoryLedger(), ManualClock()
        self.denials = Denials(self.ledger, self.clock)

    async def refuse(self, who: str = "kim", ip: str = "1.2.3.4", tenant_id: str = "t1") -> None:
        await self.denials.note(tenant_id, who, "approver", "Forbidden", {"ip": ip})

    async def recorded(self, tenant_id: str = "t1") -> list[tuple[str, int]]:
        bodies = [msgspec.json.decode(one.body) for one in await self.ledger.audit(tenant_id, 0, 1_000)]
        return [(body["who"]["id"], body["meta"]["count"]) for body in bodies]


async def test_the_first_failure_is_written_immediately_and_later_ones_together() -> None:
    refusals = Refusals()
    for _ in range(5):
        await refusals.refuse()
    assert await refusals.recorded() == [("kim", 1)]
    refusals.clock.advance(INTERVAL_MS)
    await refusals.refuse()

    assert await refusals.recorded() == [("kim", 1), ("kim", 5)]


async def test_each_source_is_counted_apart() -> None:
    refusals = Refusals()
    await refusals.refuse()
    await refusals.refuse(who="lee")
    await refusals.refuse(ip="5.6.7.8")
    await refusals.refuse(tenant_id="t2")

    assert await refusals.recorded() == [("kim", 1), ("lee", 1), ("kim", 1)]
    assert await refusals.recorded("t2") == [("kim", 1)]


async def test_past_the_bound_the_longest_idle_source_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_failures, "MAX_SOURCES", 2)
    refusals = Refusals()
    for who in ("a", "b", "c", "a"):
        await refusals.refuse(who)

    assert [who for who, _ in await refusals.recorded()] == ["a", "b", "c", "a"]


def request(**scope: Any) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [], **scope})


@pytest.mark.req("U-4")
async def test_personal_fields_are_bounded_and_contain_no_secret() -> None:
    shown = personal_of(request(client=("1.2.3.4", 7), headers=[(b"user-agent", b"curl/8 " + b"x" * 1_000)]))

    assert shown["ip"] == "1.2.3.4"
    assert len(shown["user_agent"]) == auth_failures.MAX_USER_AGENT
    assert personal_of(request(client=None)) == {}
