"""Votes that race, and the reference model, in a size that the ordinary suite can bear (R6, R7)."""

from __future__ import annotations

import random

import pytest

from proof.sessions.quorum_race import earned, race
from proof.sessions.reference_model import explore


@pytest.mark.req("P-3", "P-5")
@pytest.mark.anyio
async def test_of_fifty_votes_at_once_one_decides_where_two_people_agreed() -> None:
    counted = await race(random.Random(5), 12)
    assert counted["wrong"] == []
    assert counted["granted"] > 0
    assert counted["denied"] > 0


def test_the_plain_count_takes_back_what_was_taken_back() -> None:
    def said(action: str, who: str, decision: str = "grant") -> dict[str, object]:
        return {"action": action, "who": {"id": who}, "meta": {"decision": decision}}

    assert earned([said("vote", "a"), said("withdraw", "a"), said("vote", "b")]) == "pending"
    assert earned([said("vote", "a"), said("vote", "c", "deny"), said("vote", "b")]) == "granted"


@pytest.mark.req("C-0", "C-2", "C-4", "C-7", "P-6")
def test_the_gateway_says_what_a_plain_model_says() -> None:
    done = explore(seed=8, runs=8, steps=30)
    assert done["commands"] > 10
