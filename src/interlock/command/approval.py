"""An approval: one concept with two doors, its states as a table, and what a vote does to it (P-2, P-3)."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import msgspec

from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, Approval, ApprovalState, Decision, Vote

MOVES: dict[ApprovalState, frozenset[ApprovalState]] = cast(
    "dict[ApprovalState, frozenset[ApprovalState]]",
    {
        "pending": frozenset({"granted", "denied", "expired", "void", "superseded"}),
        "granted": frozenset({"consumed", "void"}),
        "denied": frozenset(),
        "expired": frozenset(),
        "void": frozenset(),
        "superseded": frozenset(),
        "consumed": frozenset(),
    },
)
TERMINAL: frozenset[ApprovalState] = frozenset(state for state, after in MOVES.items() if not after)

AUDIT_ACTION: dict[ApprovalState, str] = {
    "pending": "tool_call", "granted": "approve", "denied": "reject", "expired": "expire", "void": "void",
    "superseded": "supersede", "consumed": "tool_call",
}


class Ballot(NamedTuple):
    """One vote as it arrives."""

    by: Actor
    decision: Decision
    at: str
    comment: str | None = None
    digest: str | None = None
    role: str | None = None


class Counted(NamedTuple):
    """What became of a ballot: the approval with the vote on it, and whether it moved or was a repetition."""

    approval: Approval
    outcome: Literal["repeated", "counted", "granted", "denied"]


def moved(approval: Approval, to: ApprovalState, **changes: object) -> Approval:
    """Move by the table. Raises Problem Conflict for a move it does not have."""
    if to not in MOVES[approval.state]:
        raise Problem("Conflict", f"approval {approval.id} is {approval.state} and cannot become {to}")
    return msgspec.structs.replace(approval, state=to, **changes)


def count(approval: Approval, ballot: Ballot) -> Counted:
    """Count a ballot (P-3): one vote a person, the same again is a no-op, the opposite is refused, any vote after
    resolution is 409, and a ballot that names another digest was cast on something else (P-2). Raises Problem."""
    voter = f"{ballot.by.type}:{ballot.by.id}"
    earlier = next((vote for vote in approval.votes if vote.by == voter), None)
    if earlier is not None and earlier.decision == ballot.decision:
        return Counted(approval, "repeated")
    if approval.state != "pending":
        raise Problem("Conflict", _too_late(approval))
    if earlier is not None:
        raise Problem("Conflict", f"{voter} has already voted {earlier.decision} on approval {approval.id}")
    if ballot.digest is not None and ballot.digest != approval.digest:
        raise Problem("Conflict", f"approval {approval.id} is on digest {approval.digest}, not {ballot.digest}",
                      hint="Show the approval again and decide on what it shows now.")
    if not approval.self_approval and approval.requested_by == ballot.by and ballot.decision == "grant":
        raise Problem("Forbidden", "who asked for it does not count as an approver of it")
    vote = Vote(by=voter, at=ballot.at, decision=ballot.decision, method="acl", comment=ballot.comment,
                role=ballot.role)
    voted = msgspec.structs.replace(approval, votes=[*approval.votes, vote])
    grants = [vote for vote in voted.votes if vote.decision == "grant"]
    denials = len(voted.votes) - len(grants)
    if denials >= voted.deny_threshold:
        return Counted(_decided(voted, "denied", voter, ballot), "denied")
    if len(grants) >= voted.required and all(
        sum(vote.role == group.role for vote in grants) >= group.min for group in voted.groups
    ):
        return Counted(_decided(voted, "granted", voter, ballot), "granted")
    return Counted(voted, "counted")


def _decided(approval: Approval, to: ApprovalState, by: str, ballot: Ballot) -> Approval:
    return moved(approval, to, decided_at=ballot.at, decided_by=by, comment=ballot.comment)


def _too_late(approval: Approval) -> str:
    who = f" by {approval.decided_by}" if approval.decided_by else ""
    when = f" at {approval.decided_at}" if approval.decided_at else ""
    return f"approval {approval.id} is already {approval.state}{who}{when}; this vote was not counted"
