"""Where bridges to chats have posted an approval: kept while it waits, replaced by the same bridge, bounded (J-5)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bridge.approvals.test_votes import KIM, LEE, cast, held, shown
from engine.conversation import Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol.limits import MAX_CARD_CHATS, MAX_CARDS
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor, CardsBody

pytestmark = pytest.mark.anyio


def bridge(name: str) -> Principal:
    return Principal(tenant_id="default", actor=Actor(type="agent", id=name), role="viewer", key_id=f"key_{name}")


async def report(table: Table, approval_id: str, who: Principal, service: str, *chats: str) -> Any:
    return await table.engine.report_cards(who, approval_id, CardsBody(service=service, chats=list(chats)), remember)


def places(approval: Any) -> list[tuple[str, str, str]]:
    return [(card.service, card.chat, card.reported_by) for card in approval.cards]


@pytest.mark.req("J-5")
async def test_a_bridge_replaces_what_it_named_and_leaves_what_others_did() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", tool="shell")]))
    approval_id = await held(table)
    await report(table, approval_id, bridge("tg"), "telegram", "user:ann", "user:bo", "user:ann")
    await report(table, approval_id, bridge("sl"), "slack", "C1")
    await report(table, approval_id, bridge("tg"), "telegram", "user:bo")
    assert places(await shown(table, approval_id)) == [
        ("slack", "C1", "agent:sl"), ("telegram", "user:bo", "agent:tg")]
    await report(table, approval_id, bridge("tg"), "telegram")
    assert places(await shown(table, approval_id)) == [("slack", "C1", "agent:sl")]


@pytest.mark.req("J-5", "U-1")
async def test_it_is_no_decision_and_ends_with_the_approval() -> None:
    table = Table(RuleSet([Rule(name="two", effect="ask", tool="shell", required=2)]))
    approval_id = await held(table)
    before = await table.ledger.audit("default", 0, 1_000)
    await report(table, approval_id, bridge("tg"), "telegram", "user:ann")
    assert await table.ledger.audit("default", 0, 1_000) == before
    voted = await cast(table, approval_id, KIM)
    assert voted.state == "pending"
    assert places(voted) == [("telegram", "user:ann", "agent:tg")]
    assert places(await cast(table, approval_id, LEE)) == []
    assert places(await shown(table, approval_id)) == []
    with pytest.raises(Problem, match="is decided"):
        await report(table, approval_id, bridge("tg"), "telegram", "user:ann")


@pytest.mark.req("J-5")
async def test_the_chats_of_all_bridges_together_are_bounded() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", tool="shell")]))
    approval_id = await held(table)
    full = [f"C{n}" for n in range(MAX_CARD_CHATS)]
    for number in range(MAX_CARDS // MAX_CARD_CHATS):
        await report(table, approval_id, bridge(f"b{number}"), "slack", *full)
    with pytest.raises(Problem) as refused:
        await report(table, approval_id, bridge("more"), "slack", "C1")
    assert refused.value.code == "QuotaExceeded"
    assert len((await shown(table, approval_id)).cards) == MAX_CARDS
