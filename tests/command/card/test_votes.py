"""The votes on an approval in words: how many, and for whom it still waits (P-1, P-3)."""

from __future__ import annotations

from typing import Any

import pytest

from command.test_approval import KIM, LEE, approval
from interlock.command.card.votes import is_up_to, tally, waits_for_another
from interlock.protocol.resources import Actor, Quorum, Vote

PILOT = Actor(type="agent", id="pilot")


def vote(by: str, decision: Any = "grant", **more: Any) -> Vote:
    return Vote(by=by, at="now", decision=decision, method="acl", **more)


@pytest.mark.req("P-1", "P-3")
def test_the_tally_counts_yes_votes_that_were_not_withdrawn_and_names_the_roles_that_are_needed() -> None:
    votes = [vote("user:kim"), vote("user:lee", "deny"), vote("user:park", withdrawn_at="now")]
    asked = approval(required=2, votes=votes, groups=[Quorum(role="admin", min=1)])
    assert tally(asked) == "1 of 2 yes votes, 1 of them admin"
    assert waits_for_another(approval(required=2, votes=votes)) == "1 of 2 yes votes; waiting for another approver"


@pytest.mark.req("P-3")
@pytest.mark.parametrize(("cast", "reader", "expected"), [
    (vote("user:kim"), (KIM, None), False),
    (vote("user:kim"), (LEE, None), True),
    (vote("user:kim", "deny"), (KIM,), False),
    (vote("user:kim", withdrawn_at="now"), (KIM,), True),
    (vote("agent:pilot", driver="user:kim"), (KIM,), False),
    (vote("agent:pilot", driver="user:lee"), (PILOT, KIM), False),
    (vote("user:kim"), (PILOT, KIM), False),
])
def test_an_approval_waits_for_those_who_have_no_vote_on_it(
    cast: Vote, reader: tuple[Actor | None, ...], expected: bool
) -> None:
    assert is_up_to(approval(required=2, votes=[cast]), *reader) is expected


@pytest.mark.req("P-3")
def test_an_approval_does_not_wait_for_a_requester_whose_vote_would_not_count() -> None:
    assert is_up_to(approval(requested_by=KIM), KIM)
    assert not is_up_to(approval(requested_by=KIM, self_approval=False), KIM)
    assert not is_up_to(approval(requested_by=PILOT, driver=KIM, self_approval=False), KIM)
    assert is_up_to(approval(requested_by=KIM, self_approval=False), LEE)
