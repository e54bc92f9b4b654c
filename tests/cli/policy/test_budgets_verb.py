"""Budgets as lines: each pot with what was used of it, and what is left out of them (P-7)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.policy.budgets_verb import BUDGETS, _rows  # pyright: ignore[reportPrivateUsage]
from interlock.protocol.resources import Budget
from interlock.protocol.resources import BudgetPot as Pot

pytestmark = pytest.mark.req("P-7")


def budget(**fields: Any) -> Budget:
    return Budget(**{"name": "day", "agent": [], "each": None, "resets_at": "2026-01-02T00:00:00.000Z", **fields})


def test_a_budget_of_tokens_only_has_no_pot() -> None:
    (row,) = _rows(budget(agent=["claude", "goose"], tokens_per_turn=500))

    assert len(row) == len(BUDGETS.header)
    assert (row[0], row[1], row[3], row[5]) == ("day", "claude, goose", "", "500")


def test_each_pot_is_a_line_with_its_raises_and_the_rest_are_counted() -> None:
    rows = _rows(budget(session="*:main", usd_per_day="5.00", each="session", pots_left_out=3, pots=[
        Pot(scope="s1", used_usd="1.00", limit_usd="7.00", raised_usd="2.00"),
        Pot(scope=None, used_usd="0.50", limit_usd="5.00", raised_usd="0.00")]))

    assert [row[2:5] for row in rows] == [["s1", "$1.00", "$7.00 (raised by $2.00)"], ["tenant", "$0.50", "$5.00"],
                                          ["and 3 more", "", ""]]
    assert rows[0][1] == "all agents in *:main"


def test_an_unused_budget_shows_its_limit() -> None:
    (row,) = _rows(budget(usd_per_day="5.00", each="session"))

    assert row[2:5] == ["each session", "$0.00", "$5.00"]
