"""Sums of usage: grouped by the requested dimensions, with the number of all rows."""

from __future__ import annotations

import pytest

from interlock.backends import usage_sums
from interlock.ports.usage import UsageQuery
from interlock.protocol.records import USAGE_FIGURES

ASKED = ("$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8")


def query(**fields: object) -> UsageQuery:
    given = {"tenant_id": "t1", "first_day": 1, "last_day": 9, "by": frozenset({"day"}), **fields}
    return UsageQuery(**given)  # type: ignore[arg-type]


@pytest.mark.req("J-13")
def test_only_requested_dimensions_are_separated() -> None:
    sql = usage_sums.usage_sums(frozenset({"day", "model"}), ASKED)

    assert "GROUP BY day, model" in sql
    assert "'' AS agent_id" in sql
    assert "'' AS person" in sql
    assert "GROUP BY" not in usage_sums.usage_sums(frozenset(), ASKED)


def test_the_values_are_in_the_order_of_the_statement() -> None:
    values = usage_sums.parameters(query(agent_id="a", person="kim", limit=7))

    assert values == ("t1", 1, 9, "a", None, None, "kim", 7)
    assert len(values) == len(ASKED)


def test_rows_are_read_with_the_count_of_those_beyond_the_limit() -> None:
    figures = list(range(1, len(USAGE_FIGURES) + 1))
    row = [5, "shell", "m", "s1", "kim", *figures, 40]
    whole = [0, "", "", "", "", *[10 * one for one in figures], 1]

    found = usage_sums.read(query(), [row], whole)

    record = found[0][0]
    assert (record.day, record.agent_id, record.person) == (5, "shell", "kim")
    assert [getattr(record, name) for name in USAGE_FIGURES] == figures
    assert found[1] == 40
    assert [getattr(found[2], name) for name in USAGE_FIGURES] == [10 * one for one in figures]
    assert usage_sums.read(query(), [], whole)[1] == 0
