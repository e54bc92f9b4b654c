"""Votes by keys that the requester has created: named, and not counted if a rule excludes them (H-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.cli.approvals.approval_card import card
from interlock.command.policy.policy import Rule, RuleSet
from interlock.gateway.access.credentials import Credentials
from interlock.gateway.access.keys import KeyStore
from interlock.ports.ledger import Put, PutApproval, WriteBatch
from interlock.protocol.access import MAX_MAKERS, KeyBody
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal, TenantRecord
from interlock.protocol.resources import Actor

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-5", "P-3")]


def two_independent(**fields: Any) -> RuleSet:
    return RuleSet((msgspec.convert({"name": "two others", "door": "command", "effect": "ask", "required": 2,
                                     "self": False, **fields}, Rule),))


class People(Table):
    """A gateway whose keys are made for people as they are needed."""

    def begin(self) -> None:
        super().begin()
        self.credentials = Credentials(self.ledger, self.clock)
        self.keys = KeyStore(self.ledger, self.clock, self.entropy, self.credentials)

    async def person(self, name: str, maker: Principal) -> tuple[Principal, str]:
        """Create a key for a person; returns the principal that votes with it, and its id."""
        await self.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0))]))
        made = await self.keys.make(maker, KeyBody(principal=Actor(type="user", id=name), roles=["admin"]), remember)
        return await self.credentials.principal(made.key), made.key_id


async def test_a_vote_by_a_key_created_by_the_requester_is_marked_everywhere() -> None:
    table = People(two_independent())
    bob, _ = await table.person("bob", OWNER)
    held = await table.execute()
    voted = await table.vote(held.approval_id, "grant", bob)
    assert [vote.key_made_by for vote in voted.votes] == ["user:owner"]
    assert "user:owner, who asked for this, made the key of user:bob, which voted grant" in card(voted, width=200)
    records = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 100)]
    assert [one["meta"]["key_made_by"] for one in records if one["action"] == "vote"] == ["user:owner"]
    await table.engine.stop()


async def test_invented_people_do_not_meet_an_independent_quorum() -> None:
    table = People(two_independent(require_independent=True))
    bob, _ = await table.person("bob", OWNER)
    carl, _ = await table.person("carl", bob)  # By a key of a key.
    held = await table.execute()
    for one in (bob, carl):
        with pytest.raises(Problem, match="counts no vote by a key that user:owner made"):
            await table.vote(held.approval_id, "grant", one)
    others = [Principal(tenant_id="default", actor=Actor(type="user", id=name), role="admin", key_id="oidc")
              for name in ("dora", "emil")]
    for one in others:
        await table.vote(held.approval_id, "grant", one)
    assert await table.state(held.id) == "dispatched"
    await table.engine.stop()


DAVE = Principal(tenant_id="default", actor=Actor(type="user", id="dave"), role="admin", key_id="oidc")
"""An admin who signs in at an issuer and has made no request."""


async def test_two_keys_of_a_third_person_do_not_meet_an_independent_quorum() -> None:
    table = People(two_independent(require_independent=True))
    bob, _ = await table.person("bob", DAVE)
    carl, _ = await table.person("carl", DAVE)
    held = await table.execute()
    await table.vote(held.approval_id, "grant", bob)
    with pytest.raises(Problem, match="user:dave could cast both this vote and the one of user:bob"):
        await table.vote(held.approval_id, "grant", carl)
    assert await table.state(held.id) == "pending_approval"
    await table.vote(held.approval_id, "grant", Principal(
        tenant_id="default", actor=Actor(type="user", id="emil"), role="admin", key_id="oidc"))
    assert await table.state(held.id) == "dispatched"
    await table.engine.stop()


@pytest.mark.parametrize("first", ["maker", "made"])
async def test_a_voter_and_a_key_created_by_the_voter_do_not_meet_it(first: str) -> None:
    table = People(two_independent(require_independent=True))
    bob, _ = await table.person("bob", DAVE)
    carl, _ = await table.person("carl", bob)  # By a key of a key: dave has a hand in it, too.
    order = [DAVE, carl] if first == "maker" else [carl, DAVE]
    held = await table.execute()
    await table.vote(held.approval_id, "grant", order[0])
    with pytest.raises(Problem, match="user:dave could cast both"):
        await table.vote(held.approval_id, "grant", order[1])
    await table.engine.withdraw(order[0], held.approval_id, remember)
    await table.vote(held.approval_id, "grant", order[1])
    assert await table.state(held.id) == "pending_approval"
    await table.engine.stop()


async def test_one_denial_counts_beside_a_grant() -> None:
    table = People(two_independent(require_independent=True))
    bob, _ = await table.person("bob", DAVE)
    carl, _ = await table.person("carl", DAVE)
    held = await table.execute()
    await table.vote(held.approval_id, "grant", bob)
    await table.vote(held.approval_id, "deny", carl)
    assert await table.state(held.id) == "rejected"
    await table.engine.stop()


async def test_dependent_votes_count_without_the_rule_and_are_marked_on_card_and_log() -> None:
    table = People(two_independent())
    bob, _ = await table.person("bob", DAVE)
    carl, _ = await table.person("carl", DAVE)
    held = await table.execute()
    await table.vote(held.approval_id, "grant", bob)
    voted = await table.vote(held.approval_id, "grant", carl)
    assert await table.state(held.id) == "dispatched"
    assert [vote.key_makers for vote in voted.votes] == [["user:dave"], ["user:dave"]]
    assert ("user:dave holds or made the keys of user:bob and user:carl, and could have cast both votes"
            in card(voted, width=200))
    records = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 100)]
    assert [one["meta"]["key_makers"] for one in records if one["action"] == "vote"] == [["user:dave"]] * 2
    await table.engine.stop()


async def test_a_vote_whose_makers_were_removed_from_its_row_is_refused() -> None:
    table = People(two_independent(require_independent=True))
    bob, _ = await table.person("bob", DAVE)
    carl, _ = await table.person("carl", DAVE)
    held = await table.execute()
    await table.vote(held.approval_id, "grant", bob)
    record = await table.ledger.approval(held.approval_id, "default")
    assert record is not None
    votes = [msgspec.structs.replace(one, key_makers=[]) for one in record.approval.votes]
    await table.ledger.commit(WriteBatch([PutApproval(msgspec.structs.replace(
        record, approval=msgspec.structs.replace(record.approval, votes=votes)))]))
    await table.engine.stop()
    table.begin()
    with pytest.raises(Problem, match="not counted"):
        await table.vote(held.approval_id, "grant", carl)
    assert await table.state(held.id) == "canceled"
    assert "tampered" in await table.actions()
    await table.engine.stop()


async def test_rotating_a_key_keeps_its_creators() -> None:
    table = People(two_independent(require_independent=True))
    bob, key_id = await table.person("bob", OWNER)
    made = await table.keys.rotate(bob, key_id, remember)
    again = await table.credentials.principal(made.key)
    assert again.key_makers == ("user:bob", "user:owner")
    held = await table.execute()
    with pytest.raises(Problem, match="user:owner made"):
        await table.vote(held.approval_id, "grant", again)
    await table.engine.stop()


async def test_the_chain_of_creators_is_bounded() -> None:
    table = People(two_independent())
    long = Principal(tenant_id="default", actor=Actor(type="user", id="z"), role="owner", key_id="k",
                     key_makers=tuple(f"user:{n}" for n in range(MAX_MAKERS)))
    with pytest.raises(Problem, match="at most 32 people"):
        await table.person("bob", long)
    await table.engine.stop()


async def test_an_independent_quorum_takes_precedence_over_a_remembered_rule() -> None:
    rule = msgspec.convert({"name": "independent", "effect": "ask", "require_independent": True}, Rule)
    policy = RuleSet((rule,), (Rule(name="always", effect="allow"),))
    assert policy.rules[0].name == "independent"
    assert policy.rules[0].verdict().require_independent
