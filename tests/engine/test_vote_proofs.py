"""The proofs R6, R7 and S3 in a size that the ordinary suite can bear."""

from __future__ import annotations

import random

import pytest
from proof.access.forged_votes import trial
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


@pytest.mark.req("P-3", "P-4", "K-1")
@pytest.mark.anyio
async def test_no_forged_vote_is_counted() -> None:
    figures = await trial(seed=6, votes=150)
    assert (figures["wrong"], figures["counted"]) == ([], 0)
    assert figures["honest"] > 0


@pytest.mark.req("C-0", "C-2", "C-4", "C-7", "P-6")
def test_the_gateway_says_what_a_plain_model_says() -> None:
    done = explore(seed=8, runs=8, steps=30)
    assert done["commands"] > 10
