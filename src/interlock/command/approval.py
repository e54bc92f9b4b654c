"""An approval: one concept with two doors, its states as a table, and the effect of a vote (P-2, P-3)."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import msgspec

from interlock.protocol.access import named_roles
from interlock.protocol.problems import Problem, malformed
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
    """A vote as received."""

    by: Actor
    decision: Decision
    at: str
    comment: str | None = None
    digest: str | None = None
    role: str | None = None
    driver: Actor | None = None
    """The person who drives the voting agent."""
    key_id: str | None = None
    """The key that its signature was verified with (P-4)."""
    passkey: bool = False
    """That key is a passkey (J-17)."""
    option_id: str | None = None
    """The agent's option that the vote names."""
    key_makers: tuple[str, ...] = ()
    """The creators of the voter's key, and the creators of theirs."""


class BallotOutcome(NamedTuple):
    """The outcome of a ballot: the approval with the vote on it, and whether its state changed or the vote was a
    repetition."""

    approval: Approval
    outcome: Literal["repeated", "counted", "granted", "denied"]


def moved(approval: Approval, to: ApprovalState, **changes: object) -> Approval:
    """Move the approval according to its state table. Raises Problem Conflict for a move that the table does not
    have."""
    if to not in MOVES[approval.state]:
        raise Problem("Conflict", f"Approval {approval.id} is {approval.state} and cannot become {to}")
    return msgspec.structs.replace(approval, state=to, **({} if to == "pending" else {"cards": []}), **changes)


def counted_votes(approval: Approval) -> list[Vote]:
    """Return the votes that were not withdrawn (P-3)."""
    return [vote for vote in approval.votes if vote.withdrawn_at is None]


def check(approval: Approval, ballot: Ballot) -> Vote | None:
    """Check whether a ballot may be counted; returns the same vote if it was cast before (P-2, P-3). Raises Problem.

    Each person has one vote, and agents that a person drives vote for no one else. An agent also has one, however many
    people drive it by keys of theirs. The same vote again is a no-op, the opposite needs a withdrawal, and any vote
    after the decision is 409. A ballot that names another digest was cast on something else, and a voter who is not
    entitled receives an error.
    """
    voter = named(ballot.driver or ballot.by)
    earlier = next((vote for vote in counted_votes(approval) if (vote.driver or vote.by) == voter), None)
    if earlier is not None and (earlier.decision, earlier.option_id) == (ballot.decision, ballot.option_id):
        return earlier
    if approval.state != "pending":
        raise Problem("Conflict", too_late(approval))
    if earlier is not None:
        raise Problem("Conflict", f"{voter} has already voted {earlier.decision} on approval {approval.id}",
                      hint="Take that vote back first.")
    other = next((vote for vote in counted_votes(approval) if vote.by == named(ballot.by)), None)
    if other is not None:
        raise Problem("Conflict", f"{other.by} has already voted {other.decision} on approval {approval.id}, for "
                      f"{other.driver or 'itself'}",
                      hint="An agent has one vote, also with keys of several drivers: vote as a person.")
    if ballot.digest is not None and ballot.digest != approval.digest:
        raise Problem("Conflict", f"Approval {approval.id} is on digest {approval.digest}, not {ballot.digest}",
                      hint="Show the approval again and decide on what it shows now.")
    _check_say(approval, ballot)
    _check_option(approval, ballot)
    return None


def count(approval: Approval, ballot: Ballot) -> BallotOutcome:
    """Count a ballot (P-3): it needs M distinct people and every group's share; a no that reaches its threshold first
    wins. Raises Problem."""
    if check(approval, ballot) is not None:
        return BallotOutcome(approval, "repeated")
    vote = Vote(by=named(ballot.by), at=ballot.at, decision=ballot.decision, comment=ballot.comment, role=ballot.role,
                method="acl" if ballot.key_id is None else "passkey" if ballot.passkey else "signature",
                key_id=ballot.key_id,
                driver=None if ballot.driver is None else named(ballot.driver), option_id=ballot.option_id,
                key_made_by=_asker_who_made_the_key(approval, ballot), key_makers=list(ballot.key_makers))
    voted = msgspec.structs.replace(approval, votes=[*approval.votes, vote])
    grants = [vote for vote in counted_votes(voted) if vote.decision == "grant"]
    denials = len(counted_votes(voted)) - len(grants)
    if denials >= voted.deny_threshold:
        return BallotOutcome(_decided(voted, "denied", vote), "denied")
    if len(grants) >= voted.required and all(
        sum(group.role in named_roles(vote.role) for vote in grants) >= group.min for group in voted.groups
    ):
        return BallotOutcome(_decided(voted, "granted", vote), "granted")
    return BallotOutcome(voted, "counted")


def withdraw(approval: Approval, by: Actor, at: str, driver: Actor | None = None) -> Approval:
    """Withdraw a vote that has decided nothing yet (P-3): a person their own, or that of an agent that they drive; an
    agent only the one that it cast for its `driver`. Raises Problem Conflict."""
    if approval.state != "pending":
        raise Problem("Conflict", too_late(approval, "nothing was taken back"))
    cast_by = None if driver is None else named(driver)
    mine = next((vote for vote in counted_votes(approval)
                 if (vote.by, vote.driver) == (named(by), cast_by) or vote.driver == named(by)), None)
    if mine is None:
        raise Problem("Conflict", f"{named(by)} has no vote on approval {approval.id} to take back")
    taken = msgspec.structs.replace(mine, withdrawn_at=at)
    return msgspec.structs.replace(approval, votes=[taken if vote is mine else vote for vote in approval.votes])


def named(actor: Actor) -> str:
    """Return a person's or agent's name as votes and records have it."""
    return f"{actor.type}:{actor.id}"


def _check_say(approval: Approval, ballot: Ballot) -> None:
    askers = {approval.requested_by, approval.driver} - {None}
    if not approval.self_approval and not askers.isdisjoint((ballot.by, ballot.driver)):
        who = ("The requester" if approval.requested_by == ballot.by else "The person who drives the requesting agent"
               if approval.driver == ballot.by else "An agent that the requester drives")
        raise Problem("Forbidden", f"{who} does not count as an approver of this request",
                      hint="Another person decides; the requester can cancel the command.")
    maker = _asker_who_made_the_key(approval, ballot)
    if approval.require_independent and maker is not None:
        raise Problem("Forbidden", f"The rule {approval.rule} counts no vote by a key that {maker} made, who asked for "
                      "it", hint="Somebody votes whose key another person made, or who signs in at an issuer.")
    if approval.require_independent and (shared := _shared(approval, ballot)) is not None:
        raise Problem("Forbidden", f"The rule {approval.rule} counts votes of people who are independent, and "
                      f"{shared.by} could cast both this vote and the one of {shared.first}: who made a key has its "
                      "secret", hint="Somebody votes whose key another person made, or who signs in at an issuer; or "
                      "the other vote is taken back.")
    if approval.signed and ballot.key_id is None:
        raise Problem("Forbidden", f"The rule {approval.rule} counts only votes that are signed",
                      hint="Vote with a passkey in the console." if approval.signed == "passkey" else
                      "Vote with method signature: interlock approve --sign.")
    if approval.signed == "passkey" and not ballot.passkey:
        raise Problem("Forbidden", f"The rule {approval.rule} counts only votes with a passkey",
                      hint="Vote with a passkey in the console.")


class SharedVoter(NamedTuple):
    """A person who could have cast two votes: as the voter, or as a creator of the voter's key."""

    by: str
    first: str
    second: str


def shared_votes(approval: Approval) -> list[SharedVoter]:
    """Return every pair of votes for the same decision that one person could have cast (H-5)."""
    votes = counted_votes(approval)
    return [found for place, vote in enumerate(votes) for earlier in votes[:place]
            if (found := _in_common(earlier, vote)) is not None]


def _shared(approval: Approval, ballot: Ballot) -> SharedVoter | None:
    """Return a vote for the same decision that one person could have cast in addition to this ballot."""
    vote = Vote(by=named(ballot.by), at=ballot.at, decision=ballot.decision, method="acl",
                driver=None if ballot.driver is None else named(ballot.driver), key_makers=list(ballot.key_makers))
    return next(filter(None, (_in_common(earlier, vote) for earlier in counted_votes(approval))), None)


def _in_common(first: Vote, second: Vote) -> SharedVoter | None:
    if first.decision != second.decision:
        return None
    hands = {first.driver or first.by, *first.key_makers}
    by = next((one for one in (second.driver or second.by, *second.key_makers) if one in hands), None)
    return None if by is None else SharedVoter(by, first.by, second.by)


def _asker_who_made_the_key(approval: Approval, ballot: Ballot) -> str | None:
    """Return the requester, if they created the key that votes for another person, or a key that created it."""
    askers = [named(one) for one in (approval.requested_by, approval.driver) if one is not None]
    voter = named(ballot.driver or ballot.by)
    return next((asker for asker in askers if asker in ballot.key_makers and asker != voter), None)


def _check_option(approval: Approval, ballot: Ballot) -> None:
    """Check that a vote names an option of the agent, if any, and that all yes votes name the same one. Raises
    Problem."""
    if ballot.option_id is None:
        return
    kind = "allow_once" if ballot.decision == "grant" else "reject_once"
    fitting = [option.option_id for option in approval.options if option.kind == kind]
    if ballot.option_id not in fitting:
        raise malformed("/option_id", f"the agent offers no such option to {ballot.decision} with; it offers: "
                        f"{', '.join(fitting) or 'none'}")
    for vote in counted_votes(approval):
        if vote.decision == ballot.decision and vote.option_id not in (None, ballot.option_id):
            raise Problem("Conflict", f"{vote.by} has named option {vote.option_id} on approval {approval.id}",
                          hint="Name the same one, or none.")


def _decided(approval: Approval, to: ApprovalState, vote: Vote) -> Approval:
    options = (one.option_id for one in counted_votes(approval) if one.decision == vote.decision)
    return moved(approval, to, decided_at=vote.at, decided_by=vote.by, comment=vote.comment,
                 option_id=next(filter(None, options), None))


_ENDED: dict[ApprovalState, str] = {"consumed": "is already granted", "expired": "expired"}
_ENDED_QUESTION = _ENDED | {"granted": "is already answered", "consumed": "is already answered",
                            "denied": "is already declined"}


def too_late(approval: Approval, so: str = "this vote was not counted") -> str:
    """Return the sentence that an approval was decided, or ended, before, so that the vote has no effect."""
    noun, words = ("Question", _ENDED_QUESTION) if approval.kind == "question" else ("Approval", _ENDED)
    ended = words.get(approval.state, f"is already {approval.state}")
    who = f" by {approval.decided_by}" if approval.decided_by else ""
    when = f" at {approval.decided_at}" if approval.decided_at else ""
    return f"{noun} {approval.id} {ended}{who}{when}; {so}"
