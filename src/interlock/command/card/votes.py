"""The votes on an approval in words, the same on every surface (P-1, P-3). Pure."""

from __future__ import annotations

from interlock.command.approval import counted_votes, named
from interlock.command.card.asked_by import NAME_CHARS
from interlock.command.card.text import one_line
from interlock.protocol.resources import Actor, Approval

YOU, ANOTHER = "waiting for you", "waiting for another approver"


def tally(approval: Approval) -> str:
    """Return how many yes votes there are, and how many are needed, also of a role: "1 of 2 yes votes"."""
    yes = sum(vote.decision == "grant" for vote in counted_votes(approval))
    groups = "".join(f", {group.min} of them {one_line(group.role, NAME_CHARS)}" for group in approval.groups)
    return f"{yes} of {approval.required} yes votes{groups}"


def waits_for_another(approval: Approval) -> str:
    """Return what a pending approval waits for once a person has done what they can: "1 of 2 yes votes; waiting for
    another approver"."""
    return f"{tally(approval)}; {ANOTHER}"


def is_up_to(approval: Approval, *voters: Actor | None) -> bool:
    """Return whether a pending approval still waits for one of `voters`, a person and an agent that they drive: they
    have no vote on it (P-3), and did not ask for it if its requester's vote does not count."""
    people = {named(voter) for voter in voters if voter is not None}
    askers = {named(one) for one in (approval.requested_by, approval.driver) if one is not None}
    if not approval.self_approval and not people.isdisjoint(askers):
        return False
    return all(people.isdisjoint((vote.by, vote.driver)) for vote in counted_votes(approval))
