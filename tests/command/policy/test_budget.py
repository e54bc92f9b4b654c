"""Budgets and their pots: money as decimal strings, days of UTC, sums in any order (P-7)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.command.policy.budget import MAX_MICROS, BudgetRule, BudgetUse, Pot, Spending, dollars, measured, micros
from interlock.config import ConfigError, parse
from interlock.protocol.records import SpendingRecord

pytestmark = pytest.mark.req("P-7")


@given(st.integers(0, 10**15 - 1))
def test_an_amount_is_written_and_read_back(amount: int) -> None:
    assert micros(dollars(amount)) == amount


@pytest.mark.parametrize("text", ["", "1,50", "-1", "1.", ".5", "1e3", "0.0000001", "١", "NaN", "1234567890"])
def test_an_invalid_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        micros(text)


def test_an_agents_figure_is_clamped_to_valid_amounts() -> None:
    assert [measured(usd) for usd in (0.1, 0.000001, -4.0, 1e300)] == [100_000, 1, 0, MAX_MICROS]


def test_pots_add_up_in_any_order_and_days_are_separate() -> None:
    rows = [SpendingRecord(tenant_id="t", budget="b", scope="", day=day, spent_micros=spent, raised_micros=raised)
            for day, spent, raised in ((1, 5, 0), (1, 0, 7), (2, 3, 0))]
    for order in itertools.permutations(rows):
        spending = Spending(order)
        assert spending.pot(BudgetUse("t", "b", "", 1)) == Pot(5, 7)
        assert spending.pot(BudgetUse("t", "b", "", 2)) == Pot(3, 0)
        assert spending.of("t", "b", 2) == [("", Pot(3, 0))]


def test_a_budget_covers_its_named_principals_and_agents() -> None:
    budget = BudgetRule(name="b", tenant="t", agent=["claude*", "goose"], session="agent:*:run:*", usd_per_day="1")
    assert budget.covers("t", "claude-2", "s1", "agent:claude-2:run:s1")
    assert not budget.covers("u", "claude-2", "s1", "agent:claude-2:run:s1")
    assert not budget.covers("t", "shell", "s1", "agent:shell:run:s1")
    assert not budget.covers("t", "goose", "s1", "agent:goose:main")


@pytest.mark.parametrize(("lines", "sentence"), [
    ('tokens_per_turn = 5', 'needs the key "name"'),
    ('name = "b"', "a budget limits something"),
    ('name = "b"\nusd_per_day = 5', "expected a text, got a whole number"),
    ('name = "b"\nusd_per_day = "5,00"', 'write a decimal string such as "2.50"'),
    ('name = "b"\nusd_per_day = "0.00"', "more than nothing"),
    ('name = "b"\ntokens_per_turn = 0', "a number of tokens"),
    ('name = "b"\ntokens_per_turn = 5\nper = "agent"', 'has no key "per"'),
    ('name = "b"\ntokens_per_turn = 5\n[[budgets]]\nname = "b"\ntokens_per_turn = 6', "two have the name"),
])
def test_a_bad_budget_is_one_sentence_with_its_line(lines: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"interlock.toml:\d+: .*") as refused:
        parse(f"[[budgets]]\n{lines}\n", "interlock.toml")
    assert sentence in str(refused.value)


def test_budgets_are_read_from_the_config() -> None:
    (budget,) = parse('[[budgets]]\nname = "b"\nusd_per_day = "2.50"\neach = "agent"\nself = false\n', "f").budgets
    assert (budget.day_micros, budget.scope("claude", "s"), budget.self_approval) == (2_500_000, "claude", False)
