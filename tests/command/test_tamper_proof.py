"""The proof on an edited database, in a size that the ordinary suite can bear: python -m proof tamper-database."""

from __future__ import annotations

import pytest
from proof.tamper_database import PARTS, table, trials

pytestmark = pytest.mark.anyio
FINDS = {"rows": ("api_key", "remembered_rule"), "seals": ("control", "session"), "binding": ("command", "approval")}
"""The tables whose edits a comparison finds."""


@pytest.mark.req("H-5")
async def test_no_edit_by_sql_changes_what_runs_unnoticed() -> None:
    found, wrong = await trials(seed=7, rounds=20)

    print(table(found))
    assert wrong == []
    assert sum(one.edits for one in found.values()) == 20
    assert any(one.reported for one in found.values())


@pytest.mark.parametrize("part", PARTS)
async def test_the_proof_notices_a_comparison_that_is_out_of_action(part: str) -> None:
    _, wrong = await trials(seed=1, rounds=16, broken=part, tables=FINDS[part])

    assert wrong, "it prints FAILED and ends with 1"
