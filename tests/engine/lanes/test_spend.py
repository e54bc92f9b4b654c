"""Sums of budgets: loaded at a start, consistent with durable usage, and shown to the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.command.policy.budget import DAY_MS, MICROS, BudgetRule, Spending
from interlock.engine.lanes.spend import KEPT_DAYS, POTS_SHOWN, read_spending, settle, shown
from interlock.ports.ledger import Add, WriteBatch
from interlock.protocol.records import SpendingRecord

pytestmark = pytest.mark.req("P-7")
TODAY = 20_000
NOON = TODAY * DAY_MS + DAY_MS // 2


def spent(dollars: float = 0.0, raised: float = 0.0, **fields: Any) -> SpendingRecord:
    return SpendingRecord(**{"tenant_id": "acme", "budget": "day", "scope": "", "day": TODAY,
                             "spent_micros": round(dollars * MICROS), "raised_micros": round(raised * MICROS)} | fields)


def rule(**fields: Any) -> BudgetRule:
    return BudgetRule(**{"name": "day", "usd_per_day": "2"} | fields)


@pytest.mark.anyio
async def test_a_start_loads_today_and_drops_expired_days() -> None:
    ledger = MemoryLedger()
    await ledger.commit(WriteBatch([Add(spent(day=day, dollars=1)) for day in
                                    (TODAY, TODAY - 1, TODAY - KEPT_DAYS, TODAY - KEPT_DAYS - 1)]))
    spending = Spending()
    await read_spending(spending, ledger, NOON)
    assert [(record.day, record.spent_micros) for record in spending.records()] == [(TODAY, MICROS)]
    assert await ledger.spending(TODAY - KEPT_DAYS - 1) == []
    assert len(await ledger.spending(TODAY - KEPT_DAYS)) == 1


def test_other_lanes_check_again_when_a_pot_is_spent_or_raised() -> None:
    spending, budgets = Spending(), [rule()]
    assert settle(spending, budgets, [Add(spent(1.5))]) == set()
    assert settle(spending, budgets, [Add(spent(0.5))]) == {"acme"}, "the limit is reached"
    assert settle(spending, budgets, [Add(spent(0.5))]) == set(), "it was reached before"
    assert settle(spending, budgets, [Add(spent(raised=3))]) == {"acme"}
    assert settle(spending, budgets, [Add(spent(1.0))]) == set()
    assert settle(spending, budgets, [Add(spent(1.5))]) == {"acme"}, "the raised limit is reached"


def test_each_pot_has_its_own_limit_and_unknown_budgets_are_counted_without_one() -> None:
    spending, budgets = Spending(), [rule(each="agent"), rule(name="tokens", usd_per_day=None, tokens_per_turn=1)]
    writes = [Add(spent(1.5, scope="a")), Add(spent(1.5, scope="b")), Add(spent(9, budget="gone")),
              Add(spent(9, budget="tokens")), Add(spent(9, tenant_id="other", scope="a"))]
    assert settle(spending, budgets, writes) == {"other"}
    assert len(spending.records()) == 5


def test_a_tenant_sees_its_budgets_and_their_remainders() -> None:
    spending = Spending([spent(0.25), spent(raised=1), spent(9, tenant_id="other")])
    budgets = [rule(agent="claude*"), rule(name="theirs", tenant="other"),
               rule(name="tokens", usd_per_day=None, tokens_per_turn=5)]
    day, tokens = shown(budgets, spending, "acme", NOON)
    assert [(pot.scope, pot.used_usd, pot.raised_usd, pot.limit_usd) for pot in day.pots] == [
        ("", "0.25", "1.00", "3.00")]
    assert (day.name, day.agent, day.resets_at, day.pots_left_out) == (
        "day", ["claude*"], "2024-10-05T00:00:00.000Z", 0)
    assert (tokens.name, tokens.agent, tokens.tokens_per_turn, tokens.pots) == ("tokens", [], 5, [])


def test_the_tenants_unused_pots_are_listed_and_others_only_when_used() -> None:
    [whole] = shown([rule()], Spending(), "acme", NOON)
    assert [(pot.used_usd, pot.limit_usd) for pot in whole.pots] == [("0.00", "2.00")]
    [each] = shown([rule(each="session")], Spending(), "acme", NOON)
    assert each.pots == []
    [yesterday] = shown([rule(each="agent")], Spending([spent(1, day=TODAY - 1, scope="a")]), "acme", NOON)
    assert yesterday.pots == []


def test_the_pots_with_the_least_left_are_listed_and_the_others_counted() -> None:
    records = [spent(number / 100, scope=f"s{number:03}") for number in range(POTS_SHOWN + 20)]
    [budget] = shown([rule(each="session")], Spending([*records, spent(raised=50, scope="s119")]), "acme", NOON)
    assert len(budget.pots) == POTS_SHOWN
    assert budget.pots_left_out == 20
    assert [pot.scope for pot in budget.pots[:2]] == ["s118", "s117"], "s119 was raised far beyond its use"
