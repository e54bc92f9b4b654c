"""Effects of a vote on an approval: bound to a digest, one per person, and a deny wins if it comes first (P-2, P-3)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.command.approval import AUDIT_ACTION, MOVES, TERMINAL, Ballot, count, moved, withdraw
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, Approval, Decision, OfferedOption, Quorum

INPUT = b'{"command": "rm  -r build"}'
DIGEST = hashlib.sha256(INPUT).hexdigest()
KIM, LEE, PARK = (Actor(type="user", id=name) for name in ("kim", "lee", "park"))
STATES = sorted(MOVES)
PUBLISHED = {("pending", "granted"), ("pending", "denied"), ("pending", "expired"), ("pending", "void"),
             ("pending", "superseded"), ("granted", "consumed"), ("granted", "void")}
"""racp section 3."""


def approval(**changes: object) -> Approval:
    """A pending approval on INPUT, whose requester does not vote here."""
    made = Approval(id="apr_1", tenant_id="default", door="tool", state="pending", created_at="", expires_at="",
                    title="rm", agent_id="shell", session_id="s", digest=DIGEST, input=msgspec.Raw(INPUT), rule="r")
    return msgspec.structs.replace(made, **changes)


def grant(by: Actor, **more: Any) -> Ballot:
    return Ballot(by=by, decision="grant", at="now", **more)


def deny(by: Actor, **more: str) -> Ballot:
    return Ballot(by=by, decision="deny", at="now", **more)


def refused(before: Approval, ballot: Ballot, code: str) -> str:
    """The ballot is not counted; the error that the voter receives."""
    with pytest.raises(Problem) as caught:
        count(before, ballot)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.req("P-2", "P-6")
@pytest.mark.parametrize("to", STATES)
@pytest.mark.parametrize("state", STATES)
def test_an_approval_changes_state_by_the_published_table(state: str, to: str) -> None:
    before = approval(state=state)
    if (state, to) in PUBLISHED:
        assert moved(before, to).state == to  # type: ignore[arg-type]
        return
    with pytest.raises(Problem, match=f"is {state} and cannot become {to}"):
        moved(before, to)  # type: ignore[arg-type]


@pytest.mark.req("P-2", "U-1")
def test_an_approval_is_used_at_most_once_and_every_state_is_audited() -> None:
    assert {"denied", "expired", "void", "superseded", "consumed"} == TERMINAL
    assert set(AUDIT_ACTION) == set(MOVES)
    used = moved(moved(approval(), "granted"), "consumed")
    with pytest.raises(Problem):
        moved(used, "consumed")


@pytest.mark.req("P-3")
def test_one_grant_suffices_if_one_is_required() -> None:
    counted = count(approval(), grant(KIM, comment="fine"))
    assert counted.outcome == "granted"
    after = counted.approval
    assert (after.state, after.decided_by, after.decided_at, after.comment) == ("granted", "user:kim", "now", "fine")
    assert [(vote.by, vote.decision, vote.method) for vote in after.votes] == [("user:kim", "grant", "acl")]


@pytest.mark.req("P-3")
def test_two_distinct_people_are_two_votes_and_one_person_is_one() -> None:
    first = count(approval(required=2), grant(KIM))
    assert (first.outcome, first.approval.state) == ("counted", "pending")
    again = count(first.approval, grant(KIM))
    assert (again.outcome, again.approval) == ("repeated", first.approval)
    assert count(first.approval, grant(LEE)).outcome == "granted"


@pytest.mark.req("P-3")
def test_an_agent_of_the_same_name_is_not_the_same_voter() -> None:
    first = count(approval(required=2), grant(KIM)).approval
    assert count(first, grant(Actor(type="agent", id="kim"))).outcome == "granted"


@pytest.mark.req("P-3")
def test_the_opposite_vote_does_not_replace_the_first() -> None:
    first = count(approval(required=2), grant(KIM)).approval
    assert "already voted grant" in refused(first, deny(KIM), "Conflict")
    assert count(first, deny(LEE)).outcome == "denied"


@pytest.mark.req("P-3")
@pytest.mark.parametrize("state", sorted((TERMINAL | {"granted"}) - {"expired"}))
def test_a_vote_after_the_decision_is_refused_with_decider_and_time(state: str) -> None:
    decided = approval(state=state, decided_by="user:lee", decided_at="noon")
    word = "granted" if state == "consumed" else state
    assert f"already {word} by user:lee at noon" in refused(decided, grant(KIM), "Conflict")
    assert f"already {word} by user:lee at noon" in refused(decided, deny(KIM), "Conflict")


@pytest.mark.req("P-3")
@pytest.mark.parametrize(("kind", "state", "sentence"), [
    ("permission", "expired", "Approval apr_1 expired at noon; this vote"),
    ("question", "granted", "Question apr_1 is already answered by user:lee at noon; this vote"),
    ("question", "denied", "Question apr_1 is already declined by user:lee at noon; this vote"),
])
def test_a_decided_approval_is_described_in_plain_text(kind: str, state: str, sentence: str) -> None:
    ended = approval(kind=kind, state=state, decided_by=None if state == "expired" else "user:lee", decided_at="noon")
    assert sentence in refused(ended, grant(KIM), "Conflict")


@pytest.mark.req("P-3")
def test_the_same_vote_again_has_no_effect_after_the_decision() -> None:
    granted = count(approval(), grant(KIM)).approval
    assert count(granted, grant(KIM)) == (granted, "repeated")
    assert "already granted by user:kim" in refused(granted, deny(KIM), "Conflict")


@pytest.mark.req("P-3")
def test_the_requester_does_not_approve_unless_policy_allows_it() -> None:
    asked = approval(requested_by=KIM, self_approval=False)
    refused(asked, grant(KIM), "Forbidden")
    refused(asked, deny(KIM), "Forbidden")
    assert count(asked, grant(LEE)).outcome == "granted"
    assert count(asked, deny(LEE)).outcome == "denied"
    assert count(approval(requested_by=KIM), grant(KIM)).outcome == "granted"


@pytest.mark.req("P-3")
def test_an_agent_driven_by_the_requester_does_not_count_either() -> None:
    robot = Ballot(by=Actor(type="agent", id="robot"), decision="grant", at="now", driver=KIM)
    refused(approval(requested_by=KIM, self_approval=False), robot, "Forbidden")
    assert count(approval(requested_by=LEE, self_approval=False), robot).outcome == "granted"


@pytest.mark.req("P-3")
def test_a_withdrawn_vote_does_not_count_and_stays_visible() -> None:
    voted = count(approval(required=2), grant(KIM)).approval
    refused(voted, deny(KIM), "Conflict")
    taken = withdraw(voted, KIM, "later")
    assert [(vote.by, vote.withdrawn_at) for vote in taken.votes] == [("user:kim", "later")]
    assert count(taken, grant(LEE)).outcome == "counted"
    with pytest.raises(Problem, match="has no vote"):
        withdraw(taken, KIM, "later")
    assert count(taken, deny(KIM)).outcome == "denied"


@pytest.mark.req("P-3")
def test_a_person_withdraws_the_vote_of_their_agent_and_an_agent_only_its_own() -> None:
    robot = Actor(type="agent", id="robot")
    cast = count(approval(required=2), grant(robot, driver=KIM)).approval
    assert "user:kim has already voted grant" in refused(cast, deny(KIM), "Conflict")
    taken = withdraw(cast, KIM, "later")
    assert count(taken, deny(KIM)).outcome == "denied"
    own = count(approval(required=2), grant(KIM)).approval
    for before, driver in ((own, KIM), (cast, LEE), (cast, None)):
        with pytest.raises(Problem, match="agent:robot has no vote"):
            withdraw(before, robot, "later", driver)
    assert withdraw(cast, robot, "later", KIM) == taken


@pytest.mark.req("P-3")
def test_an_agent_with_keys_of_two_people_is_one_vote() -> None:
    robot = Actor(type="agent", id="robot")
    first = count(approval(required=2), grant(robot, driver=KIM)).approval
    assert "agent:robot has already voted grant on approval apr_1, for user:kim" in refused(
        first, grant(robot, driver=LEE), "Conflict")
    assert count(first, grant(LEE)).outcome == "granted"


@pytest.mark.req("P-3")
def test_no_vote_can_be_withdrawn_after_the_decision() -> None:
    decided = count(approval(), grant(KIM)).approval
    with pytest.raises(Problem, match="already granted by user:kim"):
        withdraw(decided, KIM, "later")


@pytest.mark.req("P-4")
def test_a_plain_vote_is_refused_if_the_rule_requires_signatures() -> None:
    refused(approval(signed=True), grant(KIM), "Forbidden")
    assert count(approval(signed=True), grant(KIM, key_id="sgk_1")).approval.votes[0].method == "signature"


@pytest.mark.req("P-2")
def test_a_vote_on_another_digest_was_cast_on_something_else() -> None:
    other = hashlib.sha256(b'{"command":"rm -r build"}').hexdigest()
    assert other != DIGEST, "the bytes as received are what counts, not what they mean"
    for ballot in (grant(KIM, digest=other), deny(KIM, digest=other)):
        assert DIGEST in refused(approval(), ballot, "Conflict")
    assert count(approval(), grant(KIM, digest=DIGEST)).outcome == "granted"


@pytest.mark.req("P-3", "P-2")
@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=12))
def test_the_first_side_to_reach_its_number_decides_in_any_order_of_votes(
    required: int, cast: list[tuple[str, bool]]
) -> None:
    now = approval(required=required)
    voted: dict[str, bool] = {}
    for name, allows in cast:
        by = Actor(type="user", id=name)
        try:
            counted = count(now, grant(by) if allows else deny(by))
        except Problem:
            assert now.state != "pending" or voted.get(name) is not allows
            continue
        if counted.outcome != "repeated":
            voted[name] = allows
        now = counted.approval
    expected = "pending"
    if False in voted.values():
        expected = "denied"
    elif sum(voted.values()) >= required:
        expected = "granted"
    assert now.state == expected
    assert len(now.votes) == len(voted)
    assert sum(voted.values()) <= required


@pytest.mark.req("P-1", "P-3", "K-1")
def test_a_person_of_several_roles_counts_in_the_group_of_each_and_as_one_person() -> None:
    groups = [Quorum(role="approver", min=1), Quorum(role="operator", min=1)]
    both, other = Actor(type="user", id="kim"), Actor(type="user", id="lee")
    asked = approval(required=2, groups=groups)
    first = count(asked, Ballot(by=both, decision="grant", at="t1", role="approver+operator"))
    assert first.outcome == "counted"  # Both groups are content, but one person is not two.
    assert first.approval.votes[0].role == "approver+operator"
    second = Ballot(by=other, decision="grant", at="t2", role="viewer+auditor")
    assert count(first.approval, second).outcome == "granted"
    alone = msgspec.structs.replace(asked, required=1)
    assert count(alone, Ballot(by=both, decision="grant", at="t1", role="approver+operator")).outcome == "granted"
    for role in ("approver", "approver+admin", "operator+viewer", "approvers+operators", None):
        assert count(alone, Ballot(by=both, decision="grant", at="t1", role=role)).outcome == "counted", role


def driven(by: str, person: Actor, decision: Decision = "grant") -> Ballot:
    return Ballot(by=Actor(type="agent", id=by), decision=decision, at="now", driver=person)


@pytest.mark.req("P-3")
def test_a_person_and_the_agents_they_drive_are_one_voter() -> None:
    first = count(approval(required=2), grant(KIM)).approval
    again = count(first, driven("robot", KIM))
    assert (again.outcome, again.approval) == ("repeated", first)
    assert "already voted grant" in refused(first, driven("robot", KIM, "deny"), "Conflict")
    by_robot = count(approval(required=2), driven("robot", KIM)).approval
    assert [(vote.by, vote.driver) for vote in by_robot.votes] == [("agent:robot", "user:kim")]
    assert count(by_robot, driven("other", KIM)).outcome == "repeated"
    assert count(by_robot, grant(KIM)).outcome == "repeated"
    assert count(by_robot, driven("other", LEE)).outcome == "granted"


@pytest.mark.req("P-3")
def test_the_driver_of_the_requesting_agent_does_not_count_either() -> None:
    asked = approval(requested_by=Actor(type="agent", id="robot"), driver=KIM, self_approval=False)
    assert "drives the requesting agent" in refused(asked, grant(KIM), "Forbidden")
    refused(asked, driven("other", KIM), "Forbidden")
    assert count(asked, grant(LEE)).outcome == "granted"


ONCE, SANDBOX, NEVER = (OfferedOption(option_id=name, label=name, kind=kind) for name, kind in (
    ("once", "allow_once"), ("sandbox", "allow_once"), ("never", "reject_once")))


@pytest.mark.req("P-3")
def test_a_vote_names_an_offered_option_and_all_grants_must_agree_on_it() -> None:
    asked = approval(required=2, deny_threshold=2, options=[ONCE, SANDBOX, NEVER])
    assert "offers: once, sandbox" in refused(asked, grant(KIM, option_id="never"), "InvalidPayload")
    assert "offers: never" in refused(asked, deny(KIM, option_id="once"), "InvalidPayload")
    assert "offers: none" in refused(approval(), grant(KIM, option_id="once"), "InvalidPayload")
    first = count(asked, grant(KIM, option_id="sandbox")).approval
    assert count(first, grant(KIM, option_id="sandbox")).outcome == "repeated"
    refused(first, grant(KIM, option_id="once"), "Conflict")
    assert "user:kim has named option sandbox" in refused(first, grant(LEE, option_id="once"), "Conflict")
    for last in (grant(LEE), grant(LEE, option_id="sandbox")):
        assert count(first, last).approval.option_id == "sandbox"
    assert count(count(first, deny(LEE, option_id="never")).approval, deny(PARK)).approval.option_id == "never"
