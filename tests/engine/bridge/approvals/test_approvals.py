"""Approvals in a lane: the effects of a grant, a denial and the expiry, and the reasons for a void one (P-2, P-6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bridge.steps import running
from engine.conversation import OWNER, USAGE, Table, remember
from interlock.command.policy.policy import QuorumGroup, Rule, RuleSet
from interlock.engine.bridge.approvals import approvals
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor, GrantBody, Target

pytestmark = pytest.mark.anyio


def held(table: Table) -> str:
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


def person(name: str, role: Any = "approver") -> Principal:
    return msgspec.structs.replace(OWNER, actor=Actor(type="user", id=name), role=role)


async def asked_and_held(table: Table, session_id: str) -> str:
    await table.asked(session_id)
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


@pytest.mark.req("P-5", "A-5", "P-2", "C-1")
async def test_a_tool_call_is_held_until_a_person_grants_it() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id, "rm -r build")
    held = table.wire.last("x-interlock.interaction.held").payload
    assert "control.interaction.response" not in table.wire.types()
    approval = (await table.ledger.approval(held.approval_id, "default")).approval  # type: ignore[union-attr]
    assert (approval.door, approval.state, approval.tool_name) == ("tool", "pending", "shell")
    assert bytes(approval.input) == b'{"command":"rm -r build"}'
    table.clock.advance(10 * 60_000)  # the timeout of one minute is paused while a person is asked
    await table.vote(approval.id, "grant")
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.by) == ("allow", "user:owner")
    await table.resolved(session_id, "allowed")
    assert (await table.ledger.approval(approval.id, "default")).approval.state == "consumed"  # type: ignore[union-attr]
    await table.result(session_id)
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"
    assert await table.actions() == ["enqueue", "dispatch", "start", "tool_call", "vote", "approve", "tool_call",
                                     "complete"]


@pytest.mark.req("P-3", "P-5")
async def test_a_denial_is_final_and_a_second_vote_is_refused_with_the_decider() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await table.vote(approval_id, "deny")
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
    again = await table.vote(approval_id, "deny")
    assert again.state == "denied"
    other = msgspec.structs.replace(OWNER, actor=Actor(type="user", id="second"))
    with pytest.raises(Problem, match="already denied by user:owner"):
        await table.vote(approval_id, "grant", other)


@pytest.mark.req("P-1")
async def test_a_rule_on_cost_matches_once_the_session_has_cost_more() -> None:
    table = Table(RuleSet([Rule(name="dear", door="tool", cost_over=0.5, effect="deny", reason="too dear")]))
    session_id = ""
    answers: list[str] = []
    for number in range(2):
        target = Target(session_id=session_id) if session_id else Target(agent_id="shell")
        command = await table.execute(target=target)
        session_id = command.target.session_id
        if not number:
            await table.opened(session_id)
        turn_id = f"t{number}"
        await table.started(session_id, turn_id)
        await table.asked(session_id, turn_id=turn_id, invocation=f"i{number}")
        answers.append(table.wire.types()[-1])
        await table.resolved(session_id, "denied", f"i{number}")
        await table.result(session_id, status="denied", invocation=f"i{number}")
        await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id=turn_id, stop_reason="end_turn"))
        await table.send(session_id, "session.usage",
                         msgspec.structs.replace(USAGE, cost_usage=p.Quota(limit=-1, used=0.75, unit="USD")))
    assert answers == ["x-interlock.interaction.held", "control.interaction.response"]


@pytest.mark.req("P-6", "C-1")
async def test_an_unanswered_approval_expires_as_a_denial() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)

    table.clock.advance(24 * 3_600_000 + 1)
    await (await table.lane(session_id)).call(ClockTicked())
    assert table.wire.types()[-1] == "control.interaction.timeout"


@pytest.mark.req("P-6", "T-3")
async def test_an_approval_of_an_ended_turn_is_void_and_refuses_late_votes() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await table.resolved(session_id, "void")
    await table.result(session_id, status="cancelled")
    await table.ended(session_id, "error")
    with pytest.raises(Problem, match="already void"):
        await table.vote(approval_id, "grant")


@pytest.mark.req("C-1", "A-5")
async def test_the_timeout_continues_when_the_runner_itself_ends_a_question() -> None:
    table = Table(timeout_ms=1_000)
    command_id, session_id = await running(table)
    await table.asked(session_id)
    await table.resolved(session_id, "denied")
    await table.result(session_id, status="denied")
    table.clock.advance(1_001)
    await (await table.lane(session_id)).call(ClockTicked())
    assert await table.state(command_id) == "canceling"


@pytest.mark.req("P-3", "P-1")
async def test_a_quorum_needs_every_group_and_a_denial_counts_at_its_threshold() -> None:
    rule = Rule(name="two of us", effect="ask", door="tool", required=2, deny_threshold=2,
                groups=[QuorumGroup(role="admin", min=1), QuorumGroup(role="approver", min=1)])
    table = Table(policy=RuleSet([rule]))
    _, session_id = await running(table)
    await table.asked(session_id)
    await table.vote(held(table), "grant", person("one"))
    approval = await table.vote(held(table), "grant", person("two"))
    assert approval.state == "pending"  # two yeses, but no admin's
    assert (await table.vote(held(table), "deny", person("three"))).state == "pending"
    assert (await table.vote(held(table), "grant", person("four", "admin"))).state == "granted"
    await table.resolved(session_id, "allowed")
    await table.asked(session_id, invocation="i2")
    await table.vote(held(table), "deny", person("one"))
    assert (await table.vote(held(table), "deny", person("two"))).state == "denied"


@pytest.mark.req("P-3", "P-5")
async def test_an_overtaken_vote_is_reported_as_overtaken_not_as_deciding() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id)
    approval_id = held(table)
    stale = await table.ledger.approval(approval_id, "default")
    real = table.ledger.approval
    reads = 0

    async def overtaken(wanted: str, tenant_id: str | None = None) -> Any:
        nonlocal reads
        reads += 1
        return stale if reads == 1 else await real(wanted, tenant_id)

    await table.vote(approval_id, "deny")
    table.ledger.approval = overtaken  # type: ignore[method-assign]
    with pytest.raises(Problem, match="already denied"):
        await table.vote(approval_id, "grant", person("two"))


@pytest.mark.req("P-2", "A-5")
async def test_an_open_interaction_id_cannot_be_reused_for_another_question() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id, "ls")
    await table.send(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i2", turn_id="t1", tool_name="shell", input=msgspec.Raw(b'{"command":"rm -rf /"}')))
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x-i1", interaction_type="PERMISSION", title="ls",
        context=p.InteractionContext(tool_name="shell", invocation_id="i2")))
    assert table.wire.types()[-2:] == ["session.error", "control.interaction.response"]
    assert table.wire.types().count("x-interlock.interaction.held") == 1
    # A grant of the first could be taken for the answer to the second: the first is denied and cannot be granted.
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
    with pytest.raises(Problem, match="void"):
        await table.vote(held(table), "grant", person("two"))


@pytest.mark.req("P-5", "L-2")
async def test_a_comment_too_long_for_a_frame_does_not_delay_the_answer() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id)
    body = GrantBody(decision="deny", comment="no " * 400_000)
    with pytest.raises(Problem, match="comment"):
        await table.engine.vote(OWNER, held(table), body, remember)
    assert (await table.vote(held(table), "deny")).state == "denied"


@pytest.mark.req("P-1")
@pytest.mark.parametrize("what", [
    {"required": 2}, {"groups": True}, {"signed": True}, {"self_approval": False}, {"dangerous": True}])
def test_a_quorum_takes_precedence_over_remembered_rules_and_a_plain_ask_does_not(what: dict[str, Any]) -> None:
    fields = {**what, **({"groups": [QuorumGroup(role="admin")]} if "groups" in what else {})}
    always = Rule(name="always", effect="allow", tool="shell")
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="ask", **fields)], [always]).rules] == ["q", "always"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="ask")], [always]).rules] == ["always", "q"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="allow")], [always]).rules] == ["always", "q"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="deny")], [always]).rules] == ["q", "always"]


@pytest.mark.req("P-2", "P-6")
@pytest.mark.parametrize(("outcome", "state"), [("allowed", "consumed"), ("void", "void"), ("denied", "void")])
async def test_a_grant_is_used_if_the_runner_reports_so_and_void_otherwise(
    outcome: str, state: str
) -> None:
    table = Table()
    _, session_id = await running(table)
    approval_id = await asked_and_held(table, session_id)
    await table.vote(approval_id, "grant")
    await table.resolved(session_id, outcome)
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    assert record.approval.state == state


async def asks_much(table: Table, session_id: str, name: str, kind: Any = "PERMISSION") -> None:
    """A question with an input of 4,000 bytes."""
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id=name, interaction_type=kind, title="write",
        context=p.InteractionContext(tool_name="edit", input=msgspec.Raw(b'"' + b"x" * 3_998 + b'"'))))


@pytest.mark.req("P-1", "A-5")
@pytest.mark.parametrize("kind", ["PERMISSION", "QUESTION"])
async def test_the_requests_of_open_approvals_are_bounded_together(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.setattr(approvals, "MAX_OPEN_APPROVAL_BYTES", 10_000)
    table = Table()
    _, session_id = await running(table)
    for name in ("x-i1", "x-i2", "x-i3"):
        await asks_much(table, session_id, name, kind)
    denied = table.wire.last("control.interaction.response").payload
    assert (denied.interaction_id, denied.decision, denied.by) == ("x-i3", "deny", "policy:open approvals are limited")
    assert "too much memory" in denied.message
    assert len(await table.ledger.approvals("default", "pending", None, 10)) == 2
    assert (await table.actions())[-1] == "tool_denied"
    await table.resolved(session_id, "denied", "i3")

    await table.resolved(session_id, "denied", "i1")  # One is over: there is room again.
    await asks_much(table, session_id, "x-i4", kind)
    assert len(await table.ledger.approvals("default", "pending", None, 10)) == 2


@pytest.mark.req("P-1")
async def test_what_policy_decides_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MAX_OPEN_APPROVAL_BYTES", 10)
    table = Table(RuleSet([Rule(name="tools", door="tool", effect="allow")]))
    _, session_id = await running(table)
    await table.asked(session_id)
    assert table.wire.last("control.interaction.response").payload.decision == "allow"
