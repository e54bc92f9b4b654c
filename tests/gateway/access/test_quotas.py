"""How many commands a day may be started (K-3): counted exactly, over restarts and beside failures."""

from __future__ import annotations

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.config import RatesSection
from interlock.gateway.access.quotas import DAY_MS, Quotas
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

pytestmark = [pytest.mark.anyio, pytest.mark.req("K-3")]


def who(name: str, tenant: str = "t") -> Principal:
    return Principal(tenant_id=tenant, actor=Actor(type="user", id=name), role="operator", key_id="k")


class Day:
    """A clock that is stopped at a time of the third day."""

    def __init__(self) -> None:
        self.ms = 3 * DAY_MS + 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def quotas(day: Day | None = None, tenant: int = 0, principal: int = 0) -> Quotas:
    section = RatesSection(tenant_commands_a_day=tenant, principal_commands_a_day=principal)
    return Quotas(MemoryLedger(), day or Day(), section)


async def start(made: Quotas, name: str = "ann", tenant: str = "t", fails: bool = False) -> str:
    try:
        async with made.counted(who(name, tenant)):
            if fails:
                raise RuntimeError
    except RuntimeError:
        return "failed"
    except Problem as problem:
        return problem.code
    return "started"


async def test_without_limits_nothing_is_counted() -> None:
    made = quotas()
    assert not made.limited
    assert [await start(made) for _ in range(5)] == ["started"] * 5


async def test_a_person_and_a_tenant_have_limits_of_their_own() -> None:
    made = quotas(tenant=3, principal=2)
    assert [await start(made) for _ in range(3)] == ["started", "started", "QuotaExceeded"]
    assert [await start(made, "bob") for _ in range(2)] == ["started", "QuotaExceeded"]
    assert await start(made, "ann", "other") == "started"


async def test_a_failed_start_is_not_counted() -> None:
    made = quotas(principal=1)
    assert [await start(made, fails=True), await start(made), await start(made)] == [
        "failed", "started", "QuotaExceeded"]


async def test_a_refusal_counts_for_neither() -> None:
    made = quotas(tenant=2, principal=1)
    assert [await start(made), await start(made), await start(made, "bob")] == ["started", "QuotaExceeded", "started"]


async def test_concurrent_starts_cannot_share_the_last_unit() -> None:
    made = quotas(principal=1)
    async with made.counted(who("ann")):
        assert await start(made) == "QuotaExceeded"


async def test_another_day_begins_at_midnight_utc_and_the_wait_is_until_then() -> None:
    day = Day()
    made = quotas(day, principal=1)
    await start(made)
    with pytest.raises(Problem) as caught:
        async with made.counted(who("ann")):
            pass
    assert caught.value.headers == {"Retry-After": str(DAY_MS // 1000)}
    assert "1 commands a day" in caught.value.detail
    day.ms += DAY_MS
    assert await start(made) == "started"


async def test_new_limits_apply_immediately_and_keep_the_count() -> None:
    made = quotas(principal=1)
    await start(made)
    made.configure(RatesSection(principal_commands_a_day=2))
    assert [await start(made), await start(made)] == ["started", "QuotaExceeded"]
