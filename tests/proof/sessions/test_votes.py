"""Votes that race, and the reference model, in a size that the ordinary suite can bear (R6, R7)."""

from __future__ import annotations

import random

import pytest

from proof.sessions.quorum_race import earned, race
from proof.sessions.reference_model import explore


@pytest.mark.req("P-3", "P-5")
@pytest.mark.anyio
async def test_of_fifty_simultaneous_votes_one_decides_after_two_people_agreed() -> None:
    counted = await race(random.Random(5), 12)
    assert counted["wrong"] == []
    assert counted["granted"] > 0
    assert counted["denied"] > 0


def test_the_reference_count_withdraws_withdrawn_votes() -> None:
    def vote_record(action: str, who: str, decision: str = "grant") -> dict[str, object]:
        return {"action": action, "who": {"id": who}, "meta": {"decision": decision}}

    assert earned([vote_record("vote", "a"), vote_record("withdraw", "a"), vote_record("vote", "b")]) == "pending"
    assert earned([vote_record("vote", "a"), vote_record("vote", "c", "deny"), vote_record("vote", "b")]) == "granted"


@pytest.mark.req("C-0", "C-2", "C-4", "C-7", "P-6")
def test_the_gateway_agrees_with_a_reference_model() -> None:
    done = explore(seed=8, runs=8, steps=30)
    assert done["commands"] > 10
