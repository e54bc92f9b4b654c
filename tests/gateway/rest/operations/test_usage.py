"""Over REST: usage that agents reported (J-13)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.rest.test_routes import refused
from interlock.ports.ledger import Add, WriteBatch
from interlock.protocol.records import UsageRecord
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-13")]
TODAY = NOW // 86_400_000  # 2027-01-15


async def used(gateway: Gateway, day: int = TODAY, tenant: str = "default", **figures: Any) -> None:
    record = UsageRecord(**{"tenant_id": tenant, "day": day, "agent_id": "claude", "session_id": "s1",
                            "person": "user:ann", "turns": 1, **figures})
    await gateway.desk.ledger.commit(WriteBatch([Add(record)]))


async def asked(gateway: Gateway, **query: str) -> dict[str, Any]:
    return (await gateway.http.get("/v1/usage", params=query)).json()


async def test_without_parameters_usage_is_that_of_the_last_thirty_days_by_day(gateway: Gateway) -> None:
    await used(gateway, input_tokens=100, output_tokens=20, cache_read_tokens=7, cost_micros=1_500_000)
    await used(gateway, agent_id="goose", input_tokens=1, estimated_turns=1)
    await used(gateway, TODAY - 29, input_tokens=5)
    await used(gateway, TODAY - 30, input_tokens=5_000)
    await used(gateway, tenant="another", input_tokens=9)
    found = await asked(gateway)
    assert (found["from"], found["to"], found["by"], found["left_out"]) == ("2026-12-17", "2027-01-15", ["day"], 0)
    assert [(one["day"], one["total_tokens"]) for one in found["items"]] == [("2027-01-15", 121), ("2026-12-17", 5)]
    assert found["items"][0] == {
        "day": "2027-01-15", "turns": 2, "estimated_turns": 1, "input_tokens": 101, "output_tokens": 20,
        "total_tokens": 121, "cache_read_tokens": 7, "cache_write_tokens": 0, "cost_usd": "1.50"}
    assert (found["total"]["turns"], found["total"]["total_tokens"]) == (3, 126)


async def test_usage_is_grouped_and_filtered_by_its_parameters(gateway: Gateway) -> None:
    await used(gateway, model="opus", input_tokens=10)
    await used(gateway, model="haiku", session_id="s2", person="", input_tokens=20)
    apart = await asked(gateway, by="person,model")
    assert apart["by"] == ["model", "person"]
    assert [(one["model"], one["person"], "day" in one) for one in apart["items"]] == [
        ("haiku", None, False), ("opus", "user:ann", False)]
    for query in ({"model": "opus"}, {"session": "s1"}, {"person": "user:ann"}, {"agent": "claude", "model": "opus"}):
        assert (await asked(gateway, **query))["total"]["total_tokens"] == 10
    assert (await asked(gateway, agent="nobody"))["items"] == []


async def test_groups_beyond_the_limit_are_counted_and_in_the_total(gateway: Gateway) -> None:
    for number in range(5):
        await used(gateway, session_id=f"s{number}", input_tokens=number)
    found = await asked(gateway, by="session", limit="2")
    assert [one["session_id"] for one in found["items"]] == ["s4", "s3"]
    assert (found["left_out"], found["total"]["total_tokens"]) == (3, 10)


@pytest.mark.parametrize("query", [
    {"by": "day,hour"}, {"from": "yesterday"}, {"from": "2027-1-5"}, {"to": "1969-12-31"}, {"limit": "5001"},
    {"from": "2027-01-15", "to": "2027-01-14"}, {"from": "2025-01-01", "to": "2027-01-15"}, {"sorted": "cost"},
])
async def test_an_invalid_usage_query_names_the_wrong_parameter(gateway: Gateway, query: Any) -> None:
    answer = await gateway.http.get("/v1/usage", params=query)
    refused(answer, "InvalidPayload")
    named = {place["path"] if "path" in place else str(place) for place in answer.json()["errors"]}
    assert any(name in str(named) for name in query)
