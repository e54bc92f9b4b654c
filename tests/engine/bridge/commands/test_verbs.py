"""Verbs that policy holds: one inbox, one yes, one use (P-1, P-2, F-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from engine.bridge.approvals.test_asking_agents import rested
from engine.conversation import OWNER, Table, remember
from engine.test_chats import ANN, ChatTable
from interlock.command.policy.policy import Rule, RuleSet
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.drains import DrainBody
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal, TenantRecord
from interlock.protocol.resources import Actor, Approval

pytestmark = [pytest.mark.anyio, pytest.mark.req("P-1", "F-1")]
BOB = Principal(tenant_id="default", actor=Actor(type="user", id="bob"), role="admin", key_id="key_2")


def holding(*types: str, **more: Any) -> RuleSet:
    return RuleSet([Rule(name="two pairs of eyes", effect="ask", door="command", type=list(types),
                         **{"self_approval": False, **more})])


async def held(doing: Awaitable[Any]) -> str:
    """Do what is held; the id of the approval that it names."""
    with pytest.raises(Problem) as refused:
        await doing
    assert refused.value.code == "ApprovalRequired", refused.value
    assert refused.value.approval_id is not None
    assert refused.value.approval_id in refused.value.hint
    return refused.value.approval_id


async def inbox(table: Table) -> list[Approval]:
    return [one.approval for one in await table.ledger.approvals("default", "pending", None, 10)]


def closing(table: Table, session_id: str, who: Principal = OWNER, reason: str = "over") -> Awaitable[Any]:
    return table.engine.sessions.close(who, session_id, reason, remember)


async def at_a_table(*types: str, **more: Any) -> tuple[Table, str]:
    table = Table()
    session_id = await rested(table)
    table.engine.policy = holding(*types, **more)
    return table, session_id


@pytest.mark.req("P-2", "P-3")
async def test_a_held_verb_is_in_the_inbox_and_a_grant_allows_it_once() -> None:
    table, session_id = await at_a_table("close")
    approval_id = await held(closing(table, session_id))
    [shown] = await inbox(table)
    assert (shown.id, shown.door, shown.verb, shown.command_id) == (approval_id, "command", "close", None)
    assert msgspec.json.decode(shown.input) == {"verb": "close", "session_id": session_id, "reason": "over"}
    assert shown.digest == hashlib.sha256(bytes(shown.input)).hexdigest()
    assert await held(closing(table, session_id)) == approval_id, "asked again, it is the same question"
    with pytest.raises(Problem, match="The requester does not count"):  # The requester's own yes does not count (P-3).
        await table.vote(approval_id, "grant")
    await table.vote(approval_id, "grant", BOB)
    assert "control.session.close" not in table.wire.types(), "a grant does nothing by itself"
    await closing(table, session_id)
    assert table.wire.types().count("control.session.close") == 1
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    assert record.approval.state == "consumed"
    assert await held(closing(table, session_id)) != approval_id
    assert (await table.actions()).count("approve") == 1


async def test_a_grant_covers_the_same_request_of_the_same_person() -> None:
    table, session_id = await at_a_table("close", self_approval=True)
    approval_id = await held(closing(table, session_id))
    await table.vote(approval_id, "grant")
    assert await held(closing(table, session_id, reason="another")) != approval_id
    assert await held(closing(table, session_id, BOB)) != approval_id
    await closing(table, session_id)


async def test_a_denial_is_audited_and_changes_nothing() -> None:
    table = Table()
    session_id = await rested(table)
    table.engine.policy = RuleSet([Rule(name="nobody", effect="deny", type="close", reason="It stays.")])
    with pytest.raises(Problem, match="It stays") as refused:
        await closing(table, session_id)
    assert refused.value.code == "Forbidden"
    records = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 1_000)]
    [reject] = [one for one in records if one["action"] == "reject"]
    assert (reject["meta"]["verb"], reject["meta"]["rule"], reject["session_id"]) == ("close", "nobody", session_id)
    assert await inbox(table) == []


@pytest.mark.req("P-6")
async def test_an_unused_grant_expires() -> None:
    table, session_id = await at_a_table("close", self_approval=True, ttl="1h")
    approval_id = await held(closing(table, session_id))
    await table.vote(approval_id, "grant")
    table.clock.advance(3_600_000)
    assert await held(closing(table, session_id)) != approval_id
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    assert record.approval.state == "void"


@pytest.mark.req("P-6", "C-4")
async def test_a_grant_survives_a_restart_of_the_gateway() -> None:
    table, session_id = await at_a_table("close", self_approval=True)
    approval_id = await held(closing(table, session_id))
    policy = table.engine.policy
    table.begin()
    await table.reattach(session_id, 10)
    table.engine.policy = policy
    await table.vote(approval_id, "grant")
    await closing(table, session_id)
    assert "control.session.close" in table.wire.types()


@pytest.mark.req("C-5")
async def test_a_held_drain_is_in_the_same_inbox_although_it_has_no_session() -> None:
    table = Table(holding("drain", "undrain", agent="goose"))
    await table.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0))]))
    body = DrainBody(scope="agent", id="goose", reason="update")

    def draining() -> Awaitable[Any]:
        return table.engine.drains.drain(OWNER, body, remember)

    approval_id = await held(draining())
    [shown] = await inbox(table)
    assert (shown.title, shown.agent_id, shown.session_id) == ("drain agent goose", "goose", "house:default")
    assert await table.ledger.sessions("default", 10, None) == [], "a tenant's lane is not a session"
    table.begin()  # A kill -9: the question is still there, and so is its clock.
    await table.engine.start()
    await table.vote(approval_id, "grant", BOB)
    await draining()
    assert [one.id for one in table.engine.drains.of("default")] == ["goose"]
    await table.engine.drains.drain(OWNER, DrainBody(scope="agent", id="other"), remember)
    again = await held(table.engine.drains.undrain(OWNER, body, remember))
    table.clock.advance(table.limits.approval_ttl_ms + 1)
    await held(table.engine.drains.undrain(OWNER, body, remember))
    shell = await table.engine.lanes.lane("house:default")
    assert shell is not None
    record = await table.ledger.approval(again, "default")
    assert record is not None
    assert record.approval.state == "expired"
    await table.engine.stop()


@pytest.mark.req("I-1")
@pytest.mark.parametrize("by_chat", [True, False])
async def test_a_reset_is_held_at_every_door(by_chat: bool) -> None:
    table = ChatTable()
    first = await table.receive("hello")
    table.engine.policy = holding("reset", self_approval=True)

    def again() -> Awaitable[Any]:
        if by_chat:
            return table.receive("/new", ANN)
        return table.engine.chats.reset(OWNER, first.session_id, table.remember)

    approval_id = await held(again())
    current = await table.ledger.session_by_key("default", first.session_key)
    assert current is not None
    assert current.session_id == first.session_id
    await table.vote(approval_id, "grant")
    began = await again()
    assert began.session_id != first.session_id


@pytest.mark.req("C-2")
async def test_a_granted_pause_pauses_the_turn() -> None:
    table = Table()
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    table.engine.policy = holding("pause", self_approval=True)
    approval_id = await held(table.order("pause", command.id))
    await table.vote(approval_id, "grant")
    await table.order("pause", command.id)
    assert await table.state(command.id) == "pausing"


VERBS: list[tuple[str, Callable[[Table, str], Awaitable[Any]]]] = [
    ("close", closing),
    ("patch", lambda table, session_id: table.engine.sessions.patch(OWNER, session_id, {"label": "x"}, remember)),
    ("archive", lambda table, session_id: table.engine.sessions.archive(OWNER, session_id, "x", remember)),
    ("drain", lambda table, session_id: table.engine.drains.drain(
        OWNER, DrainBody(scope="session", id=session_id), remember)),
]


@pytest.mark.parametrize(("name", "verb"), VERBS, ids=[name for name, _ in VERBS])
async def test_a_rule_without_a_type_holds_starting_verbs_and_allows_ending_ones(
    name: str, verb: Callable[[Table, str], Awaitable[Any]]
) -> None:
    table = Table()
    session_id = await rested(table)
    table.engine.policy = RuleSet([Rule(name="stop", effect="deny", door="command"), Rule(name="all", effect="deny")])
    with pytest.raises(Problem, match="rule stop denies"):
        await table.execute()
    await verb(table, session_id)
    table.engine.policy = RuleSet([Rule(name="this one", effect="deny", type=name)])
    with pytest.raises(Problem, match="rule this one denies"):
        await verb(table, session_id)


async def test_a_denial_is_final_and_the_next_request_asks_again() -> None:
    table, session_id = await at_a_table("close")
    approval_id = await held(closing(table, session_id))
    await table.vote(approval_id, "deny", BOB)
    assert await held(closing(table, session_id)) != approval_id
    assert "control.session.close" not in table.wire.types()


async def test_the_waiting_verbs_of_a_session_are_bounded() -> None:
    table, session_id = await at_a_table("close")
    for n in range(100):
        await held(closing(table, session_id, reason=str(n)))
    with pytest.raises(Problem) as refused:
        await closing(table, session_id, reason="one more")
    assert refused.value.code == "QuotaExceeded"


@pytest.mark.req("P-6", "C-4")
async def test_a_verb_refused_at_the_instant_a_grant_expires_changes_nothing() -> None:
    table = Table(RuleSet([Rule(name="ask first", effect="ask", type=["pause", "resume"], ttl="1m")]))
    command = await table.execute()
    session_id = command.target.session_id
    with pytest.raises(Problem, match="waits for it"):
        await table.order("resume", session_id=session_id)
    table.clock.advance(30_000)
    with pytest.raises(Problem, match="waits for it"):
        await table.order("pause", session_id=session_id)
    inbox = await table.ledger.approvals("default", "pending", None, 2)
    await table.vote(next(one.approval.id for one in inbox if one.approval.verb == "pause"), "grant")
    table.clock.advance(30_000)
    with pytest.raises(Problem, match="only a running one can be paused"):
        await table.order("pause", session_id=session_id)
    assert table.wire.failed is None
