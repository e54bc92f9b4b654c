"""How often and how much: buckets that time fills, addresses that send bad credentials, and exact quotas."""

from __future__ import annotations

import asyncio

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.config import RatesSection
from interlock.gateway.access import rates
from interlock.gateway.access.quotas import DAY_MS, Quotas
from interlock.gateway.access.rates import MAX_BUCKETS, Buckets, Limit, Rates, network
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

pytestmark = pytest.mark.anyio


def principal(name: str = "ann", tenant: str = "acme") -> Principal:
    return Principal(tenant_id=tenant, actor=Actor(type="user", id=name), role="operator", key_id="k")


@pytest.mark.req("K-3", "F-1")
def test_a_burst_then_the_rate_is_allowed_and_shown_in_the_headers() -> None:
    clock = ManualClock()
    pace = Rates(clock, RatesSection(principal_a_minute=60, principal_burst=3, tenant_a_minute=0))
    limits = [pace.take(principal())["RateLimit"] for _ in range(3)]
    assert limits == ['"principal";r=2;t=1', '"principal";r=1;t=1', '"principal";r=0;t=1']
    with pytest.raises(Problem, match="RateLimited") as caught:
        pace.take(principal())
    assert caught.value.headers == {"RateLimit-Policy": '"principal";q=3;w=3', "RateLimit": '"principal";r=0;t=1',
                                    "Retry-After": "1"}
    pace.take(principal("bob"))
    clock.at_ms += 1_000
    pace.take(principal())
    with pytest.raises(Problem):
        pace.take(principal())


@pytest.mark.req("K-3")
def test_a_tenants_requests_are_counted_together_and_apart_from_others() -> None:
    pace = Rates(ManualClock(), RatesSection(principal_burst=10, tenant_a_minute=60, tenant_burst=2))
    assert pace.take(principal("ann"))["RateLimit-Policy"] == '"principal";q=10;w=1, "tenant";q=2;w=2'
    pace.take(principal("bob"))
    with pytest.raises(Problem, match="this tenant"):
        pace.take(principal("eve"))
    pace.take(principal("ann", "other"))


@pytest.mark.req("K-3")
def test_the_number_of_counted_sources_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BUCKETS == 10_000
    monkeypatch.setattr(rates, "MAX_BUCKETS", 100)
    buckets = Buckets(Limit("x", 60, 1))
    for number in range(1_000):
        buckets.take(str(number), 0)
    assert len(buckets) == 100


@pytest.mark.req("K-3")
def test_addresses_of_one_network_are_counted_together() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert network("2001:db8:1:3::1") != network("2001:db8:1:2::1")
    assert (network("127.0.0.1"), network("")) == ("127.0.0.1", "")


@pytest.mark.req("K-3")
async def test_a_quota_is_exact_under_concurrent_requests() -> None:
    clock = ManualClock()
    quotas = Quotas(MemoryLedger(), clock, RatesSection(tenant_commands_a_day=25, principal_commands_a_day=20))
    done: list[str] = []

    async def execute(name: str, *, fails: bool = False) -> None:
        async with quotas.counted(principal(name)):
            await asyncio.sleep(0)
            if fails:
                raise ValueError
            done.append(name)

    failing = (execute("bob", fails=True) for _ in range(3))
    refused = await asyncio.gather(*(execute("ann") for _ in range(50)), *failing, return_exceptions=True)
    assert done.count("ann") == 20
    assert sum(isinstance(one, Problem) and one.code == "QuotaExceeded" for one in refused) == 30
    await asyncio.gather(*(execute("bob") for _ in range(50)), return_exceptions=True)
    assert done.count("bob") == 5
    with pytest.raises(Problem, match="This tenant may start 25") as caught:
        await execute("eve")
    assert int(caught.value.headers["Retry-After"]) <= DAY_MS // 1000 + 1
    clock.at_ms += DAY_MS
    await execute("eve")
